"""PASCAL VOC 2012 is read in its published layout, complete or in part."""

from __future__ import annotations

import logging
import pickle
import shutil

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="data need Pillow")

from densefield.datasets import VOC2012, voc  # noqa: E402
from densefield.datasets.reading import read_labels  # noqa: E402
from densefield.errors import InputError  # noqa: E402
from tests.support.tiny_voc import EXTRA, TEST, TRAIN, VAL, labels_of, save_mask, write_list, write_sbd, write_voc  # noqa: E402


@pytest.mark.parametrize("split, ids", [("train", TRAIN), ("val", VAL), ("trainval", tuple(sorted(TRAIN + VAL)))])
def test_a_split_has_the_images_of_its_list_in_that_order(voc_root, split, ids):
    dataset = VOC2012(voc_root, split)
    assert dataset.ids == ids and len(dataset) == len(ids) == len(list(dataset))
    for id, sample in zip(ids, dataset, strict=True):
        assert sample.id == id
        assert sample.labels.dtype == np.uint8 and np.array_equal(sample.labels, labels_of(id))
        with Image.open(voc_root / "VOCdevkit" / "VOC2012" / "JPEGImages" / f"{id}.jpg") as image:
            assert np.array_equal(sample.image, np.asarray(image)) and sample.image.dtype == np.uint8


def test_void_is_kept(voc_root):
    assert all(sample.labels[0, 0] == 255 for sample in VOC2012(voc_root))


def test_samples_can_be_written_to(voc_root):
    sample = VOC2012(voc_root)[0]
    assert sample.image.flags.writeable and sample.labels.flags.writeable


def test_indices_work_as_in_sequences(voc_root):
    dataset = VOC2012(voc_root)
    assert dataset[-1].id == dataset[np.int64(2)].id == TRAIN[2]
    with pytest.raises(IndexError, match="out of range"):
        dataset[3]
    with pytest.raises(TypeError, match="slice"):
        dataset[0:2]


def test_the_classes_are_those_of_voc():
    assert len(VOC2012.classes) == 21 == len(set(VOC2012.classes))
    assert [VOC2012.classes[label] for label in (0, 1, 15, 20)] == ["background", "aeroplane", "person", "tvmonitor"]


def test_splits_have_the_published_numbers_of_images():
    assert voc.OFFICIAL == {"train": 1464, "val": 1449, "trainval": 2913, "test": 1456, "train_aug": 10582}


@pytest.mark.parametrize("below", ["", "VOCdevkit", "VOCdevkit/VOC2012"])
def test_voc_is_found_from_each_folder_above_it(voc_root, below):
    assert VOC2012(str(voc_root / below)).ids == TRAIN


def test_the_test_split_has_no_labels(tmp_path, official):
    write_voc(tmp_path, test=True)
    dataset = VOC2012(tmp_path, "test")
    assert dataset.ids == TEST and dataset[0].labels is None and dataset[0].image.ndim == 3


def test_a_complete_copy_logs_nothing(voc_root, caplog):
    assert repr(VOC2012(voc_root)) == "<PASCAL VOC 2012, train: 3 of 3 images>"
    assert caplog.records == []


def test_a_partial_copy_works_and_logs_one_line(voc_root, caplog):
    base = voc_root / "VOCdevkit" / "VOC2012"
    (base / "JPEGImages" / f"{TRAIN[1]}.jpg").unlink()
    (base / "SegmentationClass" / f"{TRAIN[1]}.png").unlink()
    dataset = VOC2012(voc_root)
    assert dataset.ids == (TRAIN[0], TRAIN[2])
    assert dataset.summary == "PASCAL VOC 2012, train: 2 of 3 images (a partial copy)"
    assert [(record.levelno, record.message) for record in caplog.records] == [(logging.WARNING, dataset.summary)]


def test_a_copy_with_a_shorter_list_is_partial(voc_root, caplog):
    write_list(voc_root / "VOCdevkit" / "VOC2012" / "ImageSets" / "Segmentation" / "train.txt", TRAIN[:1])
    assert "1 of 3 images (a partial copy)" in repr(VOC2012(voc_root)) and len(caplog.records) == 1


def test_images_without_masks_and_masks_without_images_are_skipped_and_counted(voc_root):
    base = voc_root / "VOCdevkit" / "VOC2012"
    (base / "JPEGImages" / f"{TRAIN[1]}.jpg").unlink()
    (base / "SegmentationClass" / f"{TRAIN[2]}.png").unlink()
    assert VOC2012(voc_root).ids == TRAIN[:1]
    listing = voc.list_voc(voc_root, "train")
    assert listing.summary.endswith("1 of 3 images (a partial copy; skipped, since image or mask is missing: 2)")
    assert (
        f"{TRAIN[1]}.png has no image" in listing.problems[0] and f"{TRAIN[2]}.jpg has no mask" in listing.problems[1]
    )


def test_the_list_of_trainval_is_optional(voc_root):
    (voc_root / "VOCdevkit" / "VOC2012" / "ImageSets" / "Segmentation" / "trainval.txt").unlink()
    assert VOC2012(voc_root, "trainval").ids == tuple(sorted(TRAIN + VAL))


def test_train_aug_is_train_and_the_images_of_sbd_without_val(voc_root, caplog):
    write_sbd(voc_root)
    dataset = VOC2012(voc_root, "train_aug")
    assert dataset.ids == (*TRAIN, *EXTRA) and caplog.records == []
    for sample in dataset:  # VOC's own masks have precedence
        assert np.array_equal(sample.labels, labels_of(sample.id, "sbd" if sample.id in EXTRA else "voc"))


def test_sbd_may_be_in_another_folder_with_its_own_images(voc_root, tmp_path):
    sbd = write_sbd(tmp_path / "elsewhere")
    (voc_root / "VOCdevkit" / "VOC2012" / "JPEGImages" / f"{EXTRA[0]}.jpg").unlink()
    for place in (sbd, tmp_path / "elsewhere"):
        dataset = VOC2012(voc_root, "train_aug", sbd=place)
        assert dataset.ids == (*TRAIN, *EXTRA)
        assert dataset.entries[3].image == sbd / "img" / f"{EXTRA[0]}.jpg"
        assert np.array_equal(dataset[3].labels, labels_of(EXTRA[0], "sbd"))


def test_png_masks_of_sbd_are_used(voc_root):
    converted = voc_root / "VOCdevkit" / "VOC2012" / "SegmentationClassAug"
    for id in (*TRAIN, *VAL, *EXTRA):
        save_mask(converted / f"{id}.png", labels_of(id, "sbd"), indexed=False)
    dataset = VOC2012(voc_root, "train_aug")
    assert dataset.ids == (*TRAIN, *EXTRA)
    assert np.array_equal(dataset[0].labels, labels_of(TRAIN[0]))
    assert np.array_equal(dataset[-1].labels, labels_of(EXTRA[1], "sbd"))
    shutil.rmtree(voc_root / "VOCdevkit" / "VOC2012" / "SegmentationClass")
    assert np.array_equal(VOC2012(voc_root, "train_aug")[0].labels, labels_of(TRAIN[0], "sbd"))


def test_a_partial_copy_of_sbd_works(voc_root, caplog):
    sbd = write_sbd(voc_root)
    (sbd / "cls" / f"{EXTRA[0]}.mat").unlink()
    assert VOC2012(voc_root, "train_aug").ids == (*TRAIN, EXTRA[1])
    assert caplog.messages == ["PASCAL VOC 2012, train_aug: 4 of 5 images (a partial copy)"]


def test_train_aug_without_sbd_raises_with_a_hint(voc_root):
    with pytest.raises(InputError, match=r"needs the masks of SBD.*`densefield data voc2012` downloads them"):
        VOC2012(voc_root, "train_aug")


def test_train_aug_needs_the_complete_list_of_val(voc_root):
    write_sbd(voc_root)
    write_list(voc_root / "VOCdevkit" / "VOC2012" / "ImageSets" / "Segmentation" / "val.txt", VAL[1:])
    with pytest.raises(InputError, match=r"val\.txt lists 1 ids, expected 2.*would let them into training"):
        VOC2012(voc_root, "train_aug")


def test_errors_of_opening_say_what_to_do(voc_root, tmp_path):
    with pytest.raises(InputError, match=r"the split is 'training', expected one of train, val, trainval"):
        VOC2012(voc_root, "training")
    with pytest.raises(InputError, match=r"no JPEGImages in .*nowhere.*`densefield data voc2012 .*nowhere`"):
        VOC2012(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"no file .*test\.txt"):
        VOC2012(voc_root, "test")


def test_an_empty_split_raises(voc_root):
    shutil.rmtree(voc_root / "VOCdevkit" / "VOC2012" / "SegmentationClass")
    with pytest.raises(InputError, match=r"train: 0 of 3 images.*the split is empty"):
        VOC2012(voc_root)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"2007_000032\n2007_000063\n2007_000032\n", r"lists 2007_000032 more than once"),
        (b"../../secret\n", r"lists '\.\./\.\./secret', expected names without folders"),
        (b"\xff\xfe\x00", r"train\.txt cannot be read.*one id per line"),
    ],
)
def test_errors_name_an_invalid_split_list(voc_root, content, message):
    (voc_root / "VOCdevkit" / "VOC2012" / "ImageSets" / "Segmentation" / "train.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        VOC2012(voc_root)


def test_lists_may_have_blank_lines_and_windows_line_ends(voc_root):
    path = voc_root / "VOCdevkit" / "VOC2012" / "ImageSets" / "Segmentation" / "train.txt"
    path.write_bytes(b"\r\n".join(id.encode() + b" " for id in (*TRAIN, "")) + b"\r\n\r\n")
    assert VOC2012(voc_root).ids == TRAIN


def test_datasets_can_be_pickled_for_workers(voc_root):
    dataset = pickle.loads(pickle.dumps(VOC2012(voc_root)))
    assert dataset.ids == TRAIN and np.array_equal(dataset[1].labels, labels_of(TRAIN[1]))


def test_the_real_part_of_voc(shared, caplog):
    train, val = (VOC2012(shared / "data", split) for split in ("train", "val"))
    assert (len(train), len(val)) == (759, 509)
    assert caplog.messages[0] == "PASCAL VOC 2012, train: 759 of 1464 images (a partial copy)"
    sample = train[train.ids.index("2007_000032")]  # two aeroplanes and two people on a runway
    assert sample.image.shape == (281, 500, 3)
    assert np.unique(sample.labels).tolist() == [0, 1, 15, 255]
    with Image.open(shared / "data" / "VOCdevkit" / "VOC2012" / "SegmentationClass" / "2007_000032.png") as mask:
        colours = np.asarray(mask.convert("RGB"))
    assert colours[sample.labels == 15][0].tolist() == [192, 128, 128]  # the palette agrees with the indices
    assert colours[sample.labels == 255][0].tolist() == [224, 224, 192]


def test_the_real_part_of_voc_has_the_listed_number_of_images_per_class(shared):
    val = VOC2012(shared / "data", "val")
    masks = [read_labels(entry.mask, 21) for entry in val.entries]
    images = np.sum([np.bincount(mask.ravel(), minlength=256) > 0 for mask in masks], axis=0)
    counted = dict(zip(val.classes, images.tolist(), strict=False))
    expected = {"background": 507, "aeroplane": 6, "bird": 4, "cat": 81, "person": 273, "sheep": 35, "tvmonitor": 11}
    assert {name: counted[name] for name in expected} == expected
    assert images[255] == 509 and not images[21:255].any()  # every mask has void and only known labels
