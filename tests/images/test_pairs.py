"""Images and masks of two folders are paired by name."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("PIL.Image", reason="files need Pillow")

from densefield.errors import InputError
from densefield.images.pairs import Pair, pair_up


@pytest.fixture
def folders(tmp_path):
    def make(images: list[str], masks: list[str]):
        for folder, names in (("images", images), ("masks", masks)):
            (tmp_path / folder).mkdir(exist_ok=True)
            for name in names:
                (tmp_path / folder / name).parent.mkdir(exist_ok=True, parents=True)
                (tmp_path / folder / name).touch()
        return tmp_path / "images", tmp_path / "masks", tmp_path / "out"

    return make


def test_pairs_have_the_same_name_and_are_sorted(folders):
    images, masks, out = folders(["b.JPG", "a.1.png", "c.tif"], ["c.npz", "a.1.npy", "b.png"])
    pairing = pair_up(images, masks, out, format="npy")
    assert pairing.pairs == (
        Pair(images / "a.1.png", masks / "a.1.npy", out / "a.1.npy"),
        Pair(images / "b.JPG", masks / "b.png", out / "b.npy"),
        Pair(images / "c.tif", masks / "c.npz", out / "c.npy"),
    )
    assert pairing.images_alone == pairing.masks_alone == pairing.ambiguous == ()


def test_previews_are_written_to_a_separate_folder(folders):
    images, masks, out = folders(["a.jpg"], ["a.png"])
    (pair,) = pair_up(images, masks, out, out.with_name("previews"), "npz").pairs
    assert pair.preview == out.with_name("previews") / "a.png"


def test_files_without_a_partner_are_listed_but_other_files_are_not(folders):
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


def test_folders_without_a_pair_raise(folders):
    images, masks, out = folders(["a.jpg"], ["b.png", "c.png"])
    with pytest.raises(InputError, match=r"\(of 1\).*\(of 2\)"):
        pair_up(images, masks, out)


def test_missing_or_mismatched_inputs_raise(folders, tmp_path):
    images, masks, out = folders(["a.jpg"], ["a.png"])
    image, mask = images / "a.jpg", masks / "a.png"
    for arguments, *options, message in [
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
        ((images, masks, out, None, "bmp"), "format is 'bmp', expected one of png, tif, tiff, npy, npz"),
        ((image, mask, tmp_path / "a.png"), {"recursive": True}, "recursive=True is for folders"),
        ((image, mask, tmp_path / "a.png"), {"mask_suffix": "_mask"}, "mask_suffix='_mask' is for folders"),
        ((images, masks, masks / "out"), {"recursive": True}, "inside .*masks, which recursive=True searches"),
        ((images, masks, out, images / "p"), {"recursive": True}, "inside .*images, which recursive=True searches"),
    ]:
        with pytest.raises(InputError, match=message):
            pair_up(*arguments, **(options[0] if options else {}))


def test_results_of_tiff_masks_are_tiff_unless_a_format_is_given(folders):
    images, masks, out = folders(["a.jpg", "b.jpg", "c.jpg", "d.jpg"], ["a.tif", "b.TIFF", "c.png", "d.npy"])
    assert [pair.out.name for pair in pair_up(images, masks, out).pairs] == ["a.tif", "b.TIFF", "c.png", "d.png"]
    assert {pair.out.suffix for pair in pair_up(images, masks, out, format="tif").pairs} == {".tif"}


def test_recursive_search_mirrors_subfolders_in_results(folders):
    names = ["a", "in/a", "in/deeper/b.1", "out/c"]
    images, masks, out = folders([f"{n}.jpg" for n in names], [f"{n}.png" for n in names[:3]])
    pairing = pair_up(images, masks, out, out.with_name("shown"), recursive=True)
    assert [pair.image for pair in pairing.pairs] == [images / f"{n}.jpg" for n in names[:3]]
    assert [pair.mask for pair in pairing.pairs] == [masks / f"{n}.png" for n in names[:3]]
    assert [pair.out for pair in pairing.pairs] == [out / f"{n}.png" for n in names[:3]]
    assert [pair.preview for pair in pairing.pairs] == [out.with_name("shown") / f"{n}.png" for n in names[:3]]
    assert pairing.images_alone == (images / "out" / "c.jpg",) and pairing.skipped == ()


def test_without_recursion_subfolders_and_other_files_are_listed_as_skipped(folders):
    images, masks, out = folders(["a.jpg", "in/a.jpg", "notes.txt", ".hidden/x.jpg"], ["a.png", "x.json"])
    pairing = pair_up(images, masks, out)
    assert len(pairing.pairs) == 1
    assert pairing.skipped == (
        f"{images}: skipped subfolders (in). Search them with recursive=True.",
        f"{images}: skipped files that are not images by their suffix (notes.txt).",
        f"{masks}: skipped files that are not masks by their suffix (x.json).",
    )


def test_the_error_mentions_pairs_in_subfolders(folders):
    images, masks, out = folders(["in/a.jpg"], ["in/a.png"])
    with pytest.raises(InputError, match="Subfolders were not searched: pass recursive=True"):
        pair_up(images, masks, out)


def test_links_to_folders_above_are_followed_once(folders):
    images, masks, out = folders(["in/a.jpg"], ["in/a.png"])
    (images / "in" / "back").symlink_to(images, target_is_directory=True)
    assert len(pair_up(images, masks, out, recursive=True).pairs) == 1


def test_mask_names_may_have_a_suffix(folders):
    images, masks, out = folders(["cat.jpg", "dog.jpg"], ["cat_mask.png", "dog_mask.npy", "cat.png"])
    pairing = pair_up(images, masks, out, mask_suffix="_mask")
    assert pairing.pairs == (
        Pair(images / "cat.jpg", masks / "cat_mask.png", out / "cat_mask.png"),
        Pair(images / "dog.jpg", masks / "dog_mask.npy", out / "dog_mask.png"),
    )
    assert pairing.skipped == (f"{masks}: skipped files whose name does not end in _mask (cat.png).",)
    (masks / "cat.png").unlink()
    with pytest.raises(InputError, match="seem to end in _mask: pass mask_suffix='_mask'"):
        pair_up(images, masks, out)
    (images / "cat.jpg").rename(images / "horse.jpg")
    (images / "dog.jpg").unlink()
    with pytest.raises(InputError, match=r"cat\.jpg is paired with cat\.png\.$"):
        pair_up(images, masks, out)


def test_images_and_masks_with_a_suffix_may_share_a_folder(folders):
    images, _, out = folders(["cat.png", "cat_mask.png", "in/dog.jpg", "in/dog_mask.png", "alone.jpg"], [])
    pairing = pair_up(images, images, out, mask_suffix="_mask", recursive=True)
    assert [(pair.image.name, pair.mask.name) for pair in pairing.pairs] == [
        ("cat.png", "cat_mask.png"),
        ("dog.jpg", "dog_mask.png"),
    ]
    assert [path.name for path in pairing.images_alone] == ["alone.jpg"] and pairing.masks_alone == ()
    assert [pair.out for pair in pairing.pairs] == [out / "cat_mask.png", out / "in" / "dog_mask.png"]


def test_an_unreadable_folder_raises_or_is_listed_as_skipped(folders, monkeypatch):
    images, masks, out = folders(["a.jpg", "locked/b.jpg"], ["a.png"])
    real = os.scandir

    def denied(path):
        if str(path).endswith(("locked", "sealed")):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", denied)
    pairing = pair_up(images, masks, out, recursive=True)
    assert pairing.skipped == (f"{images / 'locked'}: Permission denied.",)
    with pytest.raises(InputError, match=r"locked: Permission denied\."):
        pair_up(images / "locked", masks, out)
