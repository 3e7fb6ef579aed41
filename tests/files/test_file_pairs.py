"""Images and masks of two folders are paired by name."""

from __future__ import annotations

import pytest

pytest.importorskip("PIL.Image", reason="files need Pillow")

from densefield.errors import InputError
from densefield.files.pairs import Pair, pair_up


@pytest.fixture
def folders(tmp_path):
    def make(images: list[str], masks: list[str]):
        for folder, names in (("images", images), ("masks", masks)):
            (tmp_path / folder).mkdir(exist_ok=True)
            for name in names:
                (tmp_path / folder / name).touch()
        return tmp_path / "images", tmp_path / "masks", tmp_path / "out"

    return make


def test_pairs_have_the_same_name_and_come_sorted(folders):
    images, masks, out = folders(["b.JPG", "a.1.png", "c.tif"], ["c.npz", "a.1.npy", "b.png"])
    pairing = pair_up(images, masks, out, form="npy")
    assert pairing.pairs == (
        Pair(images / "a.1.png", masks / "a.1.npy", out / "a.1.npy"),
        Pair(images / "b.JPG", masks / "b.png", out / "b.npy"),
        Pair(images / "c.tif", masks / "c.npz", out / "c.npy"),
    )
    assert pairing.images_alone == pairing.masks_alone == pairing.ambiguous == ()


def test_previews_go_to_their_own_folder(folders):
    images, masks, out = folders(["a.jpg"], ["a.png"])
    (pair,) = pair_up(images, masks, out, out.with_name("previews"), "npz").pairs
    assert pair.preview == out.with_name("previews") / "a.png"


def test_files_without_a_partner_are_listed_and_other_files_are_not(folders):
    images, masks, out = folders(
        ["a.jpg", "x.jpg", "notes.txt", ".a.png", "array.npy"], ["a.png", "y.npy", "z.png", "x.json"]
    )
    pairing = pair_up(images, masks, out)
    assert [pair.mask.name for pair in pairing.pairs] == ["a.png"]
    assert [path.name for path in pairing.images_alone] == ["x.jpg"]
    assert [path.name for path in pairing.masks_alone] == ["y.npy", "z.png"]


def test_two_files_of_one_name_are_ambiguous(folders):
    images, masks, out = folders(["a.jpg", "a.png", "b.jpg", "c.jpg"], ["a.png", "b.png", "b.npy", "c.png"])
    pairing = pair_up(images, masks, out)
    assert [pair.image.name for pair in pairing.pairs] == ["c.jpg"]
    assert "a.jpg" in pairing.ambiguous[0] and "b.npy" in pairing.ambiguous[1] and len(pairing.ambiguous) == 2


def test_folders_without_a_pair_are_refused(folders):
    images, masks, out = folders(["a.jpg"], ["b.png", "c.png"])
    with pytest.raises(InputError, match=r"\(of 1\).*\(of 2\)"):
        pair_up(images, masks, out)


def test_what_is_not_there_or_does_not_go_together_is_refused(folders, tmp_path):
    images, masks, out = folders(["a.jpg"], ["a.png"])
    image, mask = images / "a.jpg", masks / "a.png"
    for arguments, message in [
        ((tmp_path / "gone.jpg", mask, out), "there is no file or folder .*gone"),
        ((images, tmp_path / "gone", out), "there is no file or folder .*gone"),
        ((images, mask, out), "images is a folder, but .*a.png is a file"),
        ((image, masks, out), "masks is a folder, but .*a.jpg is a file"),
        ((image, mask, images), "images is a folder; for one pair"),
        ((image, mask, tmp_path / "a.gif"), "'.gif', expected one of"),
        ((image, mask, tmp_path / "a.png", tmp_path / "p.jpg"), "expected .png"),
        ((image, mask, mask), "for mask and for output"),
        ((image, mask, tmp_path / "a.png", tmp_path / "x" / ".." / "a.png"), "for output and for preview"),
        ((images, masks, images), "for images and for outputs"),
        ((images, masks, image), "a.jpg is a file, but"),
        ((images, masks, out, image), "a.jpg is a file, but"),
        ((images, images, out), "for images and for masks"),
        ((images, masks, out, None, "bmp"), "format is 'bmp', expected one of png, npy, npz"),
    ]:
        with pytest.raises(InputError, match=message):
            pair_up(*arguments)
