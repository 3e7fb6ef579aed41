"""check_data reads every file and lists every problem."""

from __future__ import annotations

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="data need Pillow")

from densefield.datasets import reading  # noqa: E402
from densefield.datasets.check import check_data  # noqa: E402
from densefield.errors import DensefieldError, InputError  # noqa: E402
from densefield.images.palette import voc_palette  # noqa: E402
from tests.support.tiny_voc import EXTRA, TRAIN, VAL, labels_of, save_mask, write_list, write_sbd, write_voc  # noqa: E402


@pytest.fixture
def base(voc_root):
    return voc_root / "VOCdevkit" / "VOC2012"


@pytest.fixture
def folder(tmp_path):
    """Four images with masks of classes 0 to 2."""
    random = np.random.default_rng(61331)
    for name in "abcd":
        for place, shape in (("images", (6, 5, 3)), ("masks", (6, 5))):
            (tmp_path / place).mkdir(exist_ok=True)
            values = random.integers(0, 3, shape).astype(np.uint8)
            Image.fromarray(values).save(tmp_path / place / f"{name}.png")
    return tmp_path


def test_a_valid_copy_of_voc_has_no_problems(voc_root):
    report = check_data(voc_root)
    assert report.problems == () and report.complete and report.checked == 5
    assert report.splits == ("PASCAL VOC 2012, train: 3 of 3 images", "PASCAL VOC 2012, val: 2 of 2 images")
    assert report.notes[:2] == (
        "train_aug (5 images): the masks of SBD do not exist.",
        "test (1 images): does not exist.",
    )


def test_images_per_class_are_counted(voc_root):
    report = check_data(voc_root)
    expected = [sum(label in labels_of(id) for id in TRAIN + VAL) for label in range(21)]
    assert list(report.images_per_class.values()) == expected and list(report.images_per_class)[8] == "cat"


def test_sbd_and_the_test_split_are_checked_if_they_exist(tmp_path, official):
    write_voc(tmp_path, test=True)
    write_sbd(tmp_path)
    report = check_data(tmp_path)
    assert report.problems == () and report.checked == 8 and report.complete and report.notes == ()
    assert [line.partition(",")[2] for line in report.splits] == [
        " train: 3 of 3 images",
        " val: 2 of 2 images",
        " train_aug: 5 of 5 images",
        " test: 1 of 1 images",
    ]


def test_every_damaged_file_is_listed_once_with_cause_and_hint(tmp_path, official):
    base = write_voc(tmp_path)
    sbd = write_sbd(tmp_path)
    images, masks = base / "JPEGImages", base / "SegmentationClass"
    photo = images / f"{TRAIN[0]}.jpg"
    photo.write_bytes(photo.read_bytes()[:-200])
    Image.fromarray(voc_palette()[labels_of(TRAIN[0])]).save(masks / f"{TRAIN[0]}.png")  # both files of a sample
    save_mask(masks / f"{TRAIN[1]}.png", labels_of(TRAIN[1])[:-1])
    (masks / f"{TRAIN[2]}.png").unlink()
    save_mask(masks / f"{VAL[0]}.png", np.where(labels_of(VAL[0]) == 3, 21, labels_of(VAL[0])).astype(np.uint8))
    (images / f"{VAL[1]}.jpg").unlink()
    (sbd / "cls" / f"{EXTRA[0]}.mat").write_bytes(b"nonsense" * 40)
    report = check_data(tmp_path)
    # TRAIN[2] has no mask and VAL[1] no image. As for train_aug, SBD has no mask for TRAIN[2] either.
    expected = [
        (f"{TRAIN[2]}.jpg has no mask", "Unpack"),
        (f"{VAL[1]}.png has no image", "Unpack"),
        (f"{TRAIN[0]}.png has pixels of mode RGB", "voc_labels"),
        (f"{TRAIN[0]}.jpg cannot be read: image file is truncated", "Download it again"),
        (f"{TRAIN[1]}.png has 11 × ", "Take the mask that belongs"),
        (f"{VAL[0]}.png has label 21", "Renumber"),
        (f"{EXTRA[0]}.mat cannot be read", "Download it again"),
    ]
    assert len(report.problems) == len(expected)
    for problem, (cause, hint) in zip(report.problems, expected, strict=True):
        assert cause in problem and hint in problem
    assert not report.complete


def test_a_partial_copy_is_valid_but_not_complete(base, voc_root):
    write_list(base / "ImageSets" / "Segmentation" / "train.txt", TRAIN[:2])
    report = check_data(voc_root)
    assert report.problems == () and not report.complete
    assert report.splits[0] == "PASCAL VOC 2012, train: 2 of 3 images (a partial copy)"


def test_a_list_that_is_missing_or_empty_is_a_problem(base, voc_root):
    lists = base / "ImageSets" / "Segmentation"
    (lists / "train.txt").unlink()
    write_list(lists / "val.txt", ())
    missing, empty = check_data(voc_root).problems
    assert "there is no file" in missing and "train.txt" in missing
    assert "val: 0 of 2 images" in empty and "the split is empty" in empty


def test_images_in_train_and_val_are_a_problem(base, voc_root):
    write_list(base / "ImageSets" / "Segmentation" / "val.txt", (VAL[0], TRAIN[1]))
    (problem,) = check_data(voc_root).problems
    assert problem == f"train and val share images: {TRAIN[1]}. Remove them from one of the lists."


def test_without_scipy_sbd_is_one_problem(voc_root, monkeypatch):
    def refuse():
        raise DensefieldError("the .mat files of SBD need scipy")

    write_sbd(voc_root)
    monkeypatch.setattr("densefield.datasets.voc.require_scipy", refuse)
    monkeypatch.setattr(reading, "require_scipy", refuse)
    report = check_data(voc_root)
    assert report.problems == ("the .mat files of SBD need scipy",) and report.checked == 5


def test_a_valid_folder_has_no_problems(folder):
    report = check_data(folder)
    assert report.problems == () and report.checked == 4 and report.complete
    assert report.splits == (f"{folder.name}, all: 4 images",)
    assert list(report.images_per_class) == ["0", "1", "2"]


def test_a_folder_is_checked_split_by_split(folder):
    write_list(folder / "splits" / "train.txt", ("a", "b"))
    write_list(folder / "splits" / "val.txt", ("b", "c"))
    write_list(folder / "splits" / "odd.txt", ("a", "c", "zebra"))
    report = check_data(folder)
    assert report.checked == 3
    assert report.splits == tuple(f"{folder.name}, {name}: 2 images" for name in ("odd", "train", "val"))
    assert "the split odd lists 'zebra'" in report.problems[0]
    assert "train and val share images: b" in report.problems[1] and len(report.problems) == 2


def test_masks_without_images_and_images_without_masks_are_all_listed(folder):
    (folder / "images" / "a.png").unlink()
    (folder / "masks" / "b.png").unlink()
    (folder / "masks" / "c.png").unlink()
    alone, b, c = check_data(folder).problems
    assert "a.png has no image" in alone and "b.png has no mask" in b and "c.png has no mask" in c


def test_labels_without_a_class_name_are_listed(folder):
    (folder / "classes.txt").write_text("ground\nsky\n", encoding="utf-8")
    report = check_data(folder)
    assert len(report.problems) == 4 and all("has label 2" in problem for problem in report.problems)
    (folder / "classes.txt").write_text("ground\nsky\nsea\nmoon\n", encoding="utf-8")
    assert check_data(folder).notes == ("classes that occur in no mask: moon.",)


def test_masks_of_only_0_and_255_are_a_problem(folder):
    for name in "abcd":
        path = folder / "masks" / f"{name}.png"
        with Image.open(path) as picture:
            values = np.asarray(picture)
        Image.fromarray((values > 0).astype(np.uint8) * np.uint8(255)).save(path)
    (problem,) = check_data(folder).problems
    assert problem == "the masks have no labels but 0 and 255, and 255 is void. If it is the object, save it as 1."


def test_invalid_class_names_are_a_problem_and_the_rest_is_checked(folder):
    (folder / "classes.txt").write_text("sky\nsky\n", encoding="utf-8")
    report = check_data(folder)
    assert len(report.problems) == 1 and "duplicate names (sky)" in report.problems[0] and report.checked == 4


@pytest.mark.parametrize("threads", [1, 3])
def test_progress_counts_up_on_any_number_of_threads(folder, threads):
    steps = []
    check_data(folder, threads=threads, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_folders_without_a_dataset_raise(tmp_path):
    with pytest.raises(InputError, match=r"neither images/ and masks/"):
        check_data(tmp_path)
    with pytest.raises(InputError, match=r"no folder .*nowhere"):
        check_data(tmp_path / "nowhere")
