"""Results have the form of the mask, and are written atomically."""

from __future__ import annotations

import os

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="files need Pillow")

from densefield.errors import InputError  # noqa: E402
from densefield.images.masks import Mask, read_mask  # noqa: E402
from densefield.images.palette import voc_palette  # noqa: E402
from densefield.images.writing import write_result  # noqa: E402
from densefield.io.files import write_atomically  # noqa: E402

PROBABILITIES = np.random.default_rng(7753).dirichlet([1.0] * 3, (4, 5)).transpose(2, 0, 1).astype(np.float32)
BEST = PROBABILITIES.argmax(0)
LABELS = Mask("labels", BEST)


def test_arrays_hold_the_probabilities(tmp_path):
    write_result(tmp_path / "a.npy", PROBABILITIES, LABELS)
    write_result(tmp_path / "a.npz", PROBABILITIES, LABELS)
    assert np.array_equal(np.load(tmp_path / "a.npy"), PROBABILITIES)
    with np.load(tmp_path / "a.npz") as loaded:
        assert np.array_equal(loaded["probabilities"], PROBABILITIES)


def test_a_grey_image_holds_the_labels(tmp_path):
    write_result(tmp_path / "a.PNG", PROBABILITIES, LABELS)
    with Image.open(tmp_path / "a.PNG") as picture:
        assert picture.mode == "L" and np.array_equal(np.asarray(picture), BEST)


@pytest.mark.parametrize("entries", [2, 3, 40, 256])
def test_an_indexed_image_keeps_the_palette_of_the_mask(tmp_path, entries):
    palette = np.random.default_rng(entries).integers(0, 256, (entries, 3)).astype(np.uint8)
    write_result(tmp_path / "a.png", PROBABILITIES, Mask("indexed", BEST, palette))
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.mode == "P" and np.array_equal(np.asarray(picture), BEST)
        colours = np.array(picture.getpalette("RGB")).reshape(-1, 3)
    assert np.array_equal(colours[:entries], palette)
    assert np.array_equal(colours[entries:3], voc_palette()[entries:3])  # labels beyond the mask's palette


@pytest.mark.parametrize("value", [127, 128, 254, 255])
def test_a_binary_mask_keeps_its_foreground_value(tmp_path, value):
    for sixteen_bits, mode in ((False, "L"), (True, "I;16")):
        write_result(
            tmp_path / "a.png", PROBABILITIES[:2], Mask("binary", BEST, foreground=value, sixteen_bits=sixteen_bits)
        )
        with Image.open(tmp_path / "a.png") as picture:
            assert picture.mode == mode
            assert np.array_equal(np.asarray(picture), value * PROBABILITIES[:2].argmax(0))


def test_a_soft_mask_stays_soft(tmp_path):
    write_result(tmp_path / "a.png", PROBABILITIES[:2], Mask("soft", PROBABILITIES[:2]))
    with Image.open(tmp_path / "a.png") as picture:
        assert abs(np.asarray(picture) - 255 * PROBABILITIES[1]).max() <= 0.5


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.TIFF"])
def test_more_than_256_labels_are_written_with_16_bits(tmp_path, name):
    probabilities = np.eye(300, dtype=np.float32).reshape(300, 15, 20)
    write_result(tmp_path / name, probabilities, LABELS)
    with Image.open(tmp_path / name) as picture:
        assert picture.mode == "I;16" and np.array_equal(np.asarray(picture).ravel(), np.arange(300))
    with pytest.raises(InputError, match=r"cannot hold 65537 labels.*\.npy"):
        write_result(tmp_path / name, np.zeros((65537, 1, 1), np.float32), LABELS)


def test_tiff_supports_the_formats_of_png(tmp_path):
    palette = np.random.default_rng(977).integers(0, 256, (3, 3)).astype(np.uint8)
    forms = {
        "L": LABELS,
        "P": Mask("indexed", BEST, palette),
        "I;16": Mask("labels", BEST.astype(np.uint16), sixteen_bits=True),
    }
    for mode, mask in forms.items():
        write_result(tmp_path / "a.tif", PROBABILITIES, mask)
        with Image.open(tmp_path / "a.tif") as picture:
            assert picture.format == "TIFF" and picture.mode == mode
            assert np.array_equal(np.asarray(picture), BEST)
            assert mode != "P" or picture.getpalette()[:9] == palette.ravel().tolist()


def test_other_suffixes_raise(tmp_path):
    with pytest.raises(InputError, match=r"'\.jpg', expected one of \.png, \.tif, \.tiff, \.npy, \.npz"):
        write_result(tmp_path / "a.jpg", PROBABILITIES, LABELS)


def test_parent_folders_are_created_and_no_temporary_file_is_left(tmp_path):
    write_atomically(tmp_path / "new" / "folder" / "a.bin", b"content")
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["a.bin"]
    assert (tmp_path / "new" / "folder" / "a.bin").read_bytes() == b"content"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    write_atomically(path, b"old")

    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_the_palette_equals_that_of_real_voc_masks(shared):
    folder = shared / "data" / "VOCdevkit" / "VOC2012" / "SegmentationClass"
    with Image.open(sorted(folder.glob("*.png"))[0]) as picture:
        assert np.array_equal(np.array(picture.getpalette("RGB")).reshape(-1, 3), voc_palette())


@pytest.mark.parametrize("form", ["imagej", "ome"])
def test_a_result_in_tiff_has_the_size_of_a_pixel_of_its_mask(tmp_path, form):
    tifffile = pytest.importorskip("tifffile", reason="TIFF needs tifffile")
    sizes = {"PhysicalSizeX": 0.2, "PhysicalSizeXUnit": "µm", "PhysicalSizeY": 0.2, "PhysicalSizeYUnit": "µm"}
    metadata = {"axes": "YX", **(sizes if form == "ome" else {"unit": "um"})}
    mask = BEST.astype(np.uint8)
    tifffile.imwrite(tmp_path / "m.tif", mask, **{form: True}, resolution=(5.0, 4.0), metadata=metadata)
    read = read_mask(tmp_path / "m.tif")
    write_result(tmp_path / "o.tif", PROBABILITIES, read)
    with tifffile.TiffFile(tmp_path / "o.tif") as out, tifffile.TiffFile(tmp_path / "m.tif") as given:
        assert out.pages[0].resolution == given.pages[0].resolution == (5.0, 4.0)
        assert out.is_imagej == (form == "imagej") and out.is_ome == (form == "ome")
        assert out.pages[0].description == given.pages[0].description
    more = np.eye(300, dtype=np.float32).reshape(300, 15, 20)  # in 16 bits, which the description does not say
    write_result(tmp_path / "o.tif", more, read)
    with tifffile.TiffFile(tmp_path / "o.tif") as out:
        assert out.pages[0].resolution == (5.0, 4.0) and not out.is_ome and not out.is_imagej
