"""Results take the form of the mask, appear whole, and previews show what changed."""

from __future__ import annotations

import os

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="files need Pillow")

from densefield.atomic import write_atomically  # noqa: E402
from densefield.errors import InputError  # noqa: E402
from densefield.files.masks import Mask  # noqa: E402
from densefield.files.outputs import write_result  # noqa: E402
from densefield.files.palette import voc_palette  # noqa: E402
from densefield.files.preview import OPACITY, preview  # noqa: E402

PROBABILITIES = np.random.default_rng(7753).dirichlet([1.0] * 3, (4, 5)).transpose(2, 0, 1).astype(np.float32)
BEST = PROBABILITIES.argmax(0)
LABELS = Mask("labels", BEST)


def test_arrays_hold_the_probabilities(tmp_path):
    write_result(tmp_path / "a.npy", PROBABILITIES, LABELS)
    write_result(tmp_path / "a.npz", PROBABILITIES, LABELS)
    assert np.array_equal(np.load(tmp_path / "a.npy"), PROBABILITIES)
    with np.load(tmp_path / "a.npz") as loaded:
        assert np.array_equal(loaded["probabilities"], PROBABILITIES)


def test_a_grey_picture_holds_the_labels(tmp_path):
    write_result(tmp_path / "a.PNG", PROBABILITIES, LABELS)
    with Image.open(tmp_path / "a.PNG") as picture:
        assert picture.mode == "L" and np.array_equal(np.asarray(picture), BEST)


@pytest.mark.parametrize("entries", [2, 3, 40, 256])
def test_an_indexed_picture_keeps_the_palette_of_the_mask(tmp_path, entries):
    palette = np.random.default_rng(entries).integers(0, 256, (entries, 3)).astype(np.uint8)
    write_result(tmp_path / "a.png", PROBABILITIES, Mask("indexed", BEST, palette))
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.mode == "P" and np.array_equal(np.asarray(picture), BEST)
        colours = np.array(picture.getpalette("RGB")).reshape(-1, 3)
    assert np.array_equal(colours[:entries], palette)
    assert np.array_equal(colours[entries:3], voc_palette()[entries:3])  # labels that the palette does not know


def test_an_object_is_written_as_0_and_255(tmp_path):
    write_result(tmp_path / "a.png", PROBABILITIES[:2], Mask("object", BEST))
    with Image.open(tmp_path / "a.png") as picture:
        assert np.array_equal(np.asarray(picture), 255 * PROBABILITIES[:2].argmax(0))


def test_a_soft_mask_is_written_soft(tmp_path):
    write_result(tmp_path / "a.png", PROBABILITIES[:2], Mask("soft", PROBABILITIES[:2]))
    with Image.open(tmp_path / "a.png") as picture:
        assert abs(np.asarray(picture) - 255 * PROBABILITIES[1]).max() <= 0.5


def test_more_labels_than_a_picture_can_hold_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"a\.png cannot hold 257 labels.*\.npy"):
        write_result(tmp_path / "a.png", np.zeros((257, 1, 1), np.float32), LABELS)


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"'\.jpg', expected one of \.png, \.npy, \.npz"):
        write_result(tmp_path / "a.jpg", PROBABILITIES, LABELS)


def test_folders_on_the_way_are_made_and_nothing_else_is_left(tmp_path):
    write_atomically(tmp_path / "new" / "folder" / "a.bin", b"content")
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["a.bin"]
    assert (tmp_path / "new" / "folder" / "a.bin").read_bytes() == b"content"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    write_atomically(path, b"old")

    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_the_palette_is_that_of_real_masks_of_voc(shared):
    folder = shared / "data" / "VOCdevkit" / "VOC2012" / "SegmentationClass"
    with Image.open(sorted(folder.glob("*.png"))[0]) as picture:
        assert np.array_equal(np.array(picture.getpalette("RGB")).reshape(-1, 3), voc_palette())


def test_a_preview_shows_image_before_and_after():
    photo = np.random.default_rng(5009).integers(0, 256, (4, 5, 3)).astype(np.uint8)
    before = np.full((4, 5), 2)
    before[0, 0] = 255
    after = np.ones((4, 5), int)
    palette = np.array([[0, 0, 0], [10, 20, 30]], np.uint8)  # knows label 1, but not 2
    picture = preview(photo, before, after, palette)
    assert picture.shape == (4, 3 * 5 + 2 * 2, 3)
    assert np.array_equal(picture[:, :5], photo)
    assert (picture[:, 5:7] == 255).all() and (picture[:, 12:14] == 255).all()
    assert np.array_equal(picture[0, 7], photo[0, 0])  # unknown: bare
    tinted = (1 - OPACITY) * photo[1, 1] + OPACITY * voc_palette()[2]
    assert abs(picture[1, 8] - tinted).max() <= 0.5 + 1e-3  # rounding, and single precision
    assert abs(picture[:, 14:] - ((1 - OPACITY) * photo + OPACITY * palette[1])).max() <= 0.5 + 1e-3
