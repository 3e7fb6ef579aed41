"""Folders of images and masks are datasets."""

from __future__ import annotations

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="data need Pillow")

from densefield.datasets import FolderDataset  # noqa: E402
from densefield.datasets.folder import list_split, open_dataset  # noqa: E402
from densefield.errors import InputError, InputTypeError  # noqa: E402
from tests.support.tiny_voc import write_list, write_voc  # noqa: E402

NAMES = ("ant", "bee", "cat")
LABELS = {name: np.random.default_rng(seed).integers(0, 3, (4, 5)).astype(np.uint8) for seed, name in enumerate(NAMES)}
LABELS["cat"][2, 3] = 255
COLOURS = np.random.default_rng(90001).integers(0, 256, (4, 5, 3)).astype(np.uint8)


@pytest.fixture
def root(tmp_path):
    """Three images with masks, of different formats."""
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    for name, suffix, mask_suffix in zip(NAMES, ("png", "bmp", "tif"), ("png", "bmp", "tif"), strict=True):
        Image.fromarray(COLOURS).save(tmp_path / "images" / f"{name}.{suffix}")
        Image.fromarray(LABELS[name]).save(tmp_path / "masks" / f"{name}.{mask_suffix}")
    return tmp_path


def add_classes(root, *names: str) -> None:
    (root / "classes.txt").write_text("\n".join(names) + "\n", encoding="utf-8")


def test_all_images_are_used_in_the_order_of_their_names(root):
    dataset = FolderDataset(root)
    assert dataset.ids == NAMES and len(dataset) == 3
    for sample in dataset:
        assert np.array_equal(sample.image, COLOURS) and np.array_equal(sample.labels, LABELS[sample.id])
        assert sample.labels.dtype == np.uint8


def test_a_split_has_the_images_of_its_list(root):
    write_list(root / "splits" / "train.txt", ("cat", "ant"))
    assert FolderDataset(str(root), "train").ids == ("cat", "ant")


def test_an_unknown_split_raises_and_lists_the_existing_ones(root):
    with pytest.raises(InputError, match=r"'train', but .* has no split lists\. Write .*train\.txt"):
        FolderDataset(root, "train")
    write_list(root / "splits" / "fit.txt", NAMES)
    with pytest.raises(InputError, match=r"'train', but .* has the splits fit\. Write"):
        FolderDataset(root, "train")


def test_class_names_are_those_of_the_list(root):
    add_classes(root, "earth", "wing", "deep sky", "never seen")
    assert FolderDataset(root).classes == ("earth", "wing", "deep sky", "never seen")
    assert FolderDataset(root, classes=["a", "b", "c"]).classes == ("a", "b", "c")


def test_without_names_the_highest_label_determines_the_number_of_classes(root):
    write_list(root / "splits" / "train.txt", ("ant",))
    Image.fromarray(np.full((4, 5), 7, np.uint8)).save(root / "masks" / "bee.bmp")
    # Masks of all splits count, so that all splits have the same classes; 255 is void.
    assert FolderDataset(root, "train").classes == tuple("01234567") == FolderDataset(root).classes


def test_labels_up_to_254_are_classes(root):
    Image.fromarray(np.full((4, 5), 254, np.uint8)).save(root / "masks" / "ant.png")
    dataset = FolderDataset(root)
    assert len(dataset.classes) == 255 and dataset[0].labels[0, 0] == 254


def test_a_label_without_a_class_name_raises_when_it_is_read(root):
    dataset = FolderDataset(root, classes=["a", "b"])
    with pytest.raises(InputError, match=r"ant\.png has label 2 at row .*expected 0 to 1"):
        dataset[0]


@pytest.mark.parametrize(
    "names, message",
    [
        (["a", "b", "a"], r"empty or duplicate names \(a\)"),
        (["a", ""], "empty or duplicate names"),
        ([str(number) for number in range(256)], "has 256 names, expected 1 to 255"),
        ([], "has 0 names"),
    ],
)
def test_invalid_class_names_raise(root, names, message):
    with pytest.raises(InputError, match=message):
        FolderDataset(root, classes=names)


def test_class_names_are_strings(root):
    for classes in ("background", 21, [1, 2]):
        with pytest.raises(InputTypeError, match="expected a sequence of names"):
            FolderDataset(root, classes=classes)
    (root / "classes.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InputError, match=r"classes\.txt cannot be read.*one name per line"):
        FolderDataset(root)


def test_a_missing_mask_raises_before_files_are_read(root):
    (root / "masks" / "bee.bmp").unlink()
    with pytest.raises(InputError, match=r"bee\.bmp has no mask: no file in .*masks has the name bee\. Add one"):
        FolderDataset(root)
    write_list(root / "splits" / "train.txt", ("ant", "cat"))
    assert FolderDataset(root, "train").ids == ("ant", "cat")


def test_many_missing_masks_are_counted(root):
    for number in range(9):
        Image.fromarray(COLOURS).save(root / "images" / f"more{number}.png")
    with pytest.raises(InputError, match=r"more2\.png has no mask.*\n… and 6 more: `densefield data check"):
        FolderDataset(root)


def test_a_missing_image_raises(root):
    write_list(root / "splits" / "train.txt", ("ant", "ant.png"))
    with pytest.raises(InputError, match=r"the split train lists 'ant\.png', but no image has this name"):
        FolderDataset(root, "train")


def test_two_images_of_one_name_raise(root):
    Image.fromarray(COLOURS).save(root / "images" / "ant.jpg")
    with pytest.raises(InputError, match=r"ant\.jpg and .*ant\.png have the same name: remove all but one"):
        FolderDataset(root)


def test_only_the_test_split_may_have_no_masks(root):
    Image.fromarray(COLOURS).save(root / "images" / "dog.png")
    for split in ("val", "test"):
        write_list(root / "splits" / f"{split}.txt", ("dog",))
    dataset = FolderDataset(root, "test", classes=["a", "b", "c"])
    assert dataset[0].labels is None and dataset.summary.endswith("test: 1 images, no masks")
    with pytest.raises(InputError, match=r"dog\.png has no mask"):
        FolderDataset(root, "val")
    write_list(root / "splits" / "test.txt", ("dog", "ant"))  # some have masks, so one is missing
    with pytest.raises(InputError, match=r"dog\.png has no mask"):
        FolderDataset(root, "test")


def test_empty_folders_and_lists_raise(tmp_path, root):
    write_list(root / "splits" / "val.txt", ())
    with pytest.raises(InputError, match=r"val: 0 images in .*it is empty"):
        FolderDataset(root, "val")
    with pytest.raises(InputError, match=r"no folder .*images\. Expected images in images/ and masks in masks/"):
        FolderDataset(tmp_path / "nowhere")
    (tmp_path / "bare" / "images").mkdir(parents=True)
    with pytest.raises(InputError, match=r"no folder .*masks"):
        FolderDataset(tmp_path / "bare")


def test_other_files_are_not_changed(root):
    (root / "images" / "notes.txt").write_text("hello", encoding="utf-8")
    (root / "images" / ".hidden.png").write_text("hello", encoding="utf-8")
    assert FolderDataset(root).ids == NAMES


def test_folders_may_have_the_voc_names(tmp_path):
    base = write_voc(tmp_path)
    dataset = FolderDataset(base, "val", classes=[str(label) for label in range(21)])
    assert dataset.ids == ("2007_000033", "2009_002239") and dataset[0].labels[0, 0] == 255


def test_open_dataset_detects_the_layout_of_a_folder(root, tmp_path, official):
    write_list(root / "splits" / "train.txt", ("ant",))
    assert isinstance(open_dataset(root, "train"), FolderDataset)
    (root / "voc").mkdir()
    base = write_voc(root / "voc")
    assert repr(open_dataset(root / "voc", "val")) == "<PASCAL VOC 2012, val: 2 of 2 images>"
    add_classes(base, *(f"class {label}" for label in range(21)))  # with a list of classes it is not PASCAL's dataset
    opened = open_dataset(root / "voc", "val")
    assert isinstance(opened, FolderDataset) and opened.classes[20] == "class 20"


def test_without_split_lists_all_images_are_used_unless_a_split_is_given(root):
    assert open_dataset(root).ids == NAMES and open_dataset(root).split is None
    with pytest.raises(
        InputError, match=r"the split is 'val', but .* has no split lists.* pass split=None to take all"
    ):
        open_dataset(root, "val")
    write_list(root / "splits" / "train.txt", ("ant",))
    with pytest.raises(InputError, match=r"the split is 'val', but .* has the splits train"):
        open_dataset(root)
    write_list(root / "splits" / "val.txt", ("bee",))
    assert open_dataset(root).ids == ("bee",)


def test_listing_and_opening_a_split_raise_the_same_errors(root, tmp_path, official):
    assert [entry.id for entry in list_split(root).entries] == list(NAMES)
    (root / "voc").mkdir()
    write_voc(root / "voc")
    assert len(list_split(root / "voc").entries) == 2
    (root / "masks" / "bee.bmp").unlink()
    for call in (list_split, open_dataset):
        with pytest.raises(InputError, match="has no mask"):
            call(root)


def test_subfolders_and_other_files_are_noted(root):
    (root / "images" / "more").mkdir()
    (root / "images" / "notes.txt").write_text("hello", encoding="utf-8")
    assert FolderDataset(root).notes == (
        f"{root / 'images' / 'more'} is a subfolder, which is not searched.",
        f"{root / 'images' / 'notes.txt'} is not an image (PNG, JPEG, TIFF, BMP, WebP, GIF or PPM).",
    )


def test_the_error_mentions_images_in_subfolders(tmp_path):
    for folder in ("images/monday", "masks/monday"):
        (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(InputError, match=r"0 images in .*it is empty\.\n.*monday is a subfolder"):
        FolderDataset(tmp_path)


def test_a_folder_without_a_dataset_raises(tmp_path):
    with pytest.raises(InputError, match=r"has neither images/ and masks/, nor JPEGImages/"):
        open_dataset(tmp_path, "train")
    with pytest.raises(InputError, match=r"there is no folder .*nowhere"):
        open_dataset(tmp_path / "nowhere", "train")
