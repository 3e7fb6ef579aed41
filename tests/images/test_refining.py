"""Files are refined like arrays; failures are reported, and the rest continues."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="files need Pillow")

from densefield import CRF, Bilateral, InputError, InputWarning, Spatial, refine  # noqa: E402
from densefield.images import pair_refining  # noqa: E402
from densefield.images.preview import draw_preview  # noqa: E402
from densefield.images.refine_settings import RefineSettings  # noqa: E402
from densefield.images.refining import refine_files  # noqa: E402

KERNELS = (Spatial(2, weight=2), Bilateral(15, 12, weight=3))
SETTINGS = RefineSettings(CRF(KERNELS))


def scene(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A small photo (18, 24, 3), and a mask that is shifted by two columns."""
    rng = np.random.default_rng(seed)
    mask = np.zeros((18, 24), np.uint8)
    mask[4:14, 6:17] = 1
    photo = np.where(mask[..., None], (180, 60, 40), (40, 90, 160)) + rng.normal(0, 8, (18, 24, 3))
    return np.clip(photo, 0, 255).astype(np.uint8), np.roll(mask, 2, 1)


@pytest.fixture
def folders(tmp_path):
    """Folders of five images and indexed masks, and the names of the folders: images, masks, out."""
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    for seed in range(5):
        photo, mask = scene(7000 + seed)
        Image.fromarray(photo).save(tmp_path / "images" / f"{seed}.png")
        picture = Image.fromarray(mask)
        picture.putpalette([0, 0, 0, 9, 99, 199])
        picture.save(tmp_path / "masks" / f"{seed}.png")
    return tmp_path / "images", tmp_path / "masks", tmp_path / "out"


def labels_in(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture)


@pytest.mark.parametrize("form", ["labels", "probabilities", "logits", "binary", "soft"])
def test_refining_a_pair_equals_refining_its_arrays(tmp_path, form):
    photo, mask = scene(6113)
    Image.fromarray(photo).save(tmp_path / "photo.png")
    path = tmp_path / ("mask.npy" if form in ("probabilities", "logits") else "mask.png")
    probabilities = np.stack([1 - 0.2 - 0.6 * mask, 0.2 + 0.6 * mask]).astype(np.float32)
    if form == "labels":
        mask[0, 0] = 2
        Image.fromarray(mask).save(path)
        expected = refine(photo, labels=mask, kernels=KERNELS)
    elif form == "binary":
        Image.fromarray(mask * np.uint8(255)).save(path)
        expected = refine(photo, labels=mask, kernels=KERNELS)
    elif form == "soft":
        shades = np.rint(255 * probabilities[1]).astype(np.uint8)
        Image.fromarray(shades).save(path)
        one = shades.astype(np.float32) / 255
        expected = refine(photo, probabilities=np.stack([1 - one, one]), kernels=KERNELS)
    elif form == "probabilities":
        np.save(path, probabilities)
        expected = refine(photo, probabilities=probabilities, kernels=KERNELS)
    else:
        np.save(path, 3 * probabilities)
        expected = refine(photo, logits=3 * probabilities, kernels=KERNELS)
    settings = RefineSettings(CRF(KERNELS), logits=form == "logits", soft=form == "soft")
    refined = refine_files(tmp_path / "photo.png", path, tmp_path / "out.npy", settings)
    assert refined.failures == [] and refined.outcomes[0].form == form
    assert np.array_equal(np.load(tmp_path / "out.npy"), expected)
    assert not np.array_equal(expected.argmax(0), mask)  # refinement changes something


def test_options_are_passed_to_refine(tmp_path, folders):
    images, masks, _ = folders
    settings = RefineSettings(CRF(KERNELS[:1], iterations=2), confidence=0.8, num_classes=4, void=0)
    refine_files(images / "0.png", masks / "0.png", tmp_path / "out.npy", settings)
    photo, mask = scene(7000)
    expected = refine(photo, labels=mask, num_classes=4, void=0, confidence=0.8, kernels=KERNELS[:1], iterations=2)
    assert np.array_equal(np.load(tmp_path / "out.npy"), expected)


@pytest.mark.parametrize("threads", [1, 3])
def test_folders_are_refined_pair_by_pair_in_order(folders, threads):
    images, masks, out = folders
    calls = []
    refined = refine_files(
        images, masks, out, SETTINGS, threads=threads, progress=lambda done, total: calls.append((done, total))
    )
    assert [outcome.pair.out.name for outcome in refined.outcomes] == [f"{n}.png" for n in range(5)]
    assert calls == [(n, 5) for n in range(6)]
    for seed in range(5):
        photo, mask = scene(7000 + seed)
        assert np.array_equal(labels_in(out / f"{seed}.png"), refine(photo, labels=mask, kernels=KERNELS).argmax(0))


def test_several_pairs_share_the_threads_and_one_pair_uses_all(folders, monkeypatch):
    images, masks, out = folders
    given, workers = [], set()
    real = pair_refining.refine

    def watched(*arguments: object, **options: object) -> object:
        given.append(options["threads"])
        workers.add(threading.get_ident())
        return real(*arguments, **options)

    monkeypatch.setattr(pair_refining, "refine", watched)
    refine_files(images, masks, out, SETTINGS, threads=2)
    assert given == [1] * 5 and len(workers) <= 2 and threading.get_ident() not in workers
    given.clear()
    refine_files(images / "0.png", masks / "0.png", out / "one.png", SETTINGS, threads=2)
    assert given == [2]


def test_failures_are_reported_with_names_and_the_rest_continues(folders):
    images, masks, out = folders
    (images / "1.png").write_bytes(b"broken")
    Image.fromarray(np.zeros((9, 24), np.uint8)).save(masks / "3.png")
    Image.fromarray(np.zeros((2, 2), np.uint8)).save(masks / "alone.png")
    Image.fromarray(np.zeros((2, 2), np.uint8)).save(images / "unmasked.png")
    refined = refine_files(images, masks, out, SETTINGS)
    assert sorted(path.name for path in out.iterdir()) == ["0.png", "2.png", "4.png"]
    broken, size, alone = refined.failures
    assert str(images / "1.png") in broken and "not an image" in broken
    assert f"{images / '3.png'} has 24 × 18 pixels (width × height), but {masks / '3.png'} has 24 × 9" in size
    assert str(masks / "alone.png") in alone and "no image" in alone
    assert [path.name for path in refined.pairing.images_alone] == ["unmasked.png"]


def test_errors_of_inference_name_the_mask(folders):
    images, masks, out = folders
    (failure, *_) = refine_files(images, masks, out, RefineSettings(CRF(KERNELS), confidence=0.4)).failures
    assert failure.startswith(f"{masks / '0.png'}: confidence is 0.4")


def test_a_result_that_cannot_be_written_is_reported(folders):
    images, masks, out = folders
    out.mkdir()
    (out / "2.png").mkdir()
    refined = refine_files(images, masks, out, SETTINGS)
    assert len(refined.failures) == 1 and "2.png" in refined.failures[0]
    assert sorted(path.name for path in out.iterdir()) == [f"{n}.png" for n in range(5)]


def test_an_interrupted_run_resumes_with_the_missing_results(folders):
    images, masks, out = folders
    refine_files(images, masks, out, SETTINGS)
    (out / "3.png").unlink()
    (out / "1.png").write_bytes(b"kept")
    refined = refine_files(images, masks, out, SETTINGS, skip_existing=True)
    assert [outcome.pair.out.name for outcome in refined.outcomes] == ["3.png"] and len(refined.skipped) == 4
    assert (out / "1.png").read_bytes() == b"kept" and (out / "3.png").exists()
    assert len(refine_files(images, masks, out, SETTINGS).outcomes) == 5  # without it, all pairs are refined again
    assert labels_in(out / "1.png").shape == (18, 24)


def test_previews_show_both_masks_in_the_colours_of_the_palette(folders):
    images, masks, out = folders
    refine_files(images, masks, out, SETTINGS, preview=out.with_name("previews"))
    assert len(list(out.with_name("previews").iterdir())) == 5
    photo, mask = scene(7002)
    palette = np.array([[0, 0, 0], [9, 99, 199]], np.uint8)
    expected = draw_preview(photo, mask.astype(int), labels_in(out / "2.png"), palette)
    assert np.array_equal(labels_in(out.with_name("previews") / "2.png"), expected)


def test_explain_is_called_if_requested(folders):
    images, masks, out = folders
    quiet = refine_files(images, masks, out, SETTINGS)
    spoken = refine_files(images, masks, out, RefineSettings(CRF(KERNELS), explain=True))
    assert all(outcome.findings == () for outcome in quiet.outcomes)
    assert all(outcome.findings[-1].what.startswith("No problem found") for outcome in spoken.outcomes)


def test_explain_reports_wrong_axes_although_the_pair_fails(folders):
    images, masks, out = folders
    np.save(masks / "p.npy", np.full((18, 24, 2), 0.5, np.float32))
    refined = refine_files(images / "0.png", masks / "p.npy", out / "0.png", RefineSettings(CRF(KERNELS), explain=True))
    assert "classes last" in refined.outcomes[0].findings[0].what
    assert "numpy.moveaxis(array, -1, 0)" in refined.failures[0]


def test_a_rotated_photo_accepts_masks_in_stored_and_displayed_orientation(tmp_path):
    photo, mask = scene(6917)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(photo).save(tmp_path / "photo.png", exif=exif)
    for name, turned in (("stored", mask), ("shown", np.rot90(mask, -1))):
        Image.fromarray(np.ascontiguousarray(turned)).save(tmp_path / f"{name}.png")
        refined = refine_files(tmp_path / "photo.png", tmp_path / f"{name}.png", tmp_path / f"{name}-out.png", SETTINGS)
        assert refined.failures == []
    stored, shown = labels_in(tmp_path / "stored-out.png"), labels_in(tmp_path / "shown-out.png")
    # The lattice differs slightly for (x, y) and (y, x).
    assert stored.shape == (18, 24) and shown.shape == (24, 18) and (np.rot90(stored, -1) != shown).mean() < 0.02


def test_voc_masks_keep_their_palette_and_lose_void_pixels(shared, tmp_path):
    voc = shared / "data" / "VOCdevkit" / "VOC2012"
    mask = sorted((voc / "SegmentationClass").glob("*.png"))[11]
    refined = refine_files(voc / "JPEGImages" / f"{mask.stem}.jpg", mask, tmp_path / "out.png")
    assert refined.failures == []
    with Image.open(mask) as before, Image.open(tmp_path / "out.png") as after:
        assert after.mode == "P" and after.getpalette() == before.getpalette()
        was, now = np.asarray(before), np.asarray(after)
    assert (was == 255).any() and not (now == 255).any()
    assert (was == now)[was != 255].mean() > 0.9


def test_empty_folders_and_invalid_threads_raise(folders):
    images, masks, out = folders
    with pytest.raises(InputError, match="threads is 0"):
        refine_files(images, masks, out, SETTINGS, threads=0)
    for path in masks.iterdir():
        path.unlink()
    with pytest.raises(InputError, match="no image in"):
        refine_files(images, masks, out, SETTINGS)


@pytest.mark.parametrize("value", [127, 128, 254, 255])
def test_binary_masks_keep_their_two_values(tmp_path, value):
    photo, mask = scene(6311)
    Image.fromarray(photo).save(tmp_path / "photo.png")
    Image.fromarray(mask * np.uint8(value)).save(tmp_path / "mask.png")
    refined = refine_files(tmp_path / "photo.png", tmp_path / "mask.png", tmp_path / "out.png", SETTINGS)
    assert refined.failures == [] and refined.outcomes[0].form == "binary"
    expected = value * refine(photo, labels=mask, kernels=KERNELS).argmax(0)
    assert np.array_equal(labels_in(tmp_path / "out.png"), expected)


def test_a_16_bit_tiff_keeps_more_than_255_labels(tmp_path):
    photo, mask = scene(6323)
    labels = np.where(mask == 1, 299, 255).astype(np.uint16)  # 255 is a label, since there are more than 255 classes
    labels[0, :5] = [7, 256, 257, 1, 30]
    Image.fromarray(photo).save(tmp_path / "photo.png")
    Image.fromarray(labels).save(tmp_path / "mask.tif")
    refined = refine_files(
        tmp_path / "photo.png",
        tmp_path / "mask.tif",
        tmp_path / "out.tif",
        RefineSettings(CRF(KERNELS), num_classes=300),
    )
    assert refined.failures == []
    with Image.open(tmp_path / "out.tif") as picture:
        assert picture.format == "TIFF" and picture.mode == "I;16"
        result = np.asarray(picture)
    assert np.array_equal(result, refine(photo, labels=labels, num_classes=300, kernels=KERNELS).argmax(0))
    assert set(np.unique(result)) <= set(np.unique(labels)) and {255, 299} <= set(np.unique(result))


def test_high_label_numbers_need_no_memory_for_unused_ones(tmp_path):
    photo, mask = scene(6337)
    photo, mask = np.tile(photo, (20, 20, 1)), np.tile(mask, (20, 20))
    labels = np.where(mask == 1, 40001, 7).astype(np.uint16)
    labels[5:10] = 0
    Image.fromarray(photo).save(tmp_path / "photo.png")
    Image.fromarray(labels).save(tmp_path / "mask.png")
    settings = RefineSettings(CRF(KERNELS), void=0)
    # 40002 rows of 360 × 480 float32 would be 28 GB.
    refined = refine_files(
        tmp_path / "photo.png", tmp_path / "mask.png", tmp_path / "o.png", settings, preview=tmp_path / "p.png"
    )
    assert refined.failures == []
    few = np.where(labels == 0, 255, mask).astype(np.uint8)
    expected = np.array([7, 40001])[refine(photo, labels=few, kernels=KERNELS).argmax(0)]
    assert np.array_equal(labels_in(tmp_path / "o.png"), expected)
    (failure,) = refine_files(
        tmp_path / "photo.png", tmp_path / "mask.png", tmp_path / "o.png", RefineSettings(num_classes=300)
    ).failures
    assert "labels range from 0 to 40001, expected 0 to 299" in failure


def test_images_of_16_bits_are_read_as_0_to_255_without_a_warning_about_their_range(tmp_path):
    photo, mask = scene(6329)
    deep = (photo[..., 0].astype(np.uint16) // 255 + 1) * 257 * 255 // 2
    Image.fromarray(deep.astype(np.uint16)).save(tmp_path / "photo.tif")
    Image.fromarray(mask).save(tmp_path / "mask.png")
    settings = RefineSettings(CRF(KERNELS), explain=True)
    assert refine_files(tmp_path / "photo.tif", tmp_path / "mask.png", tmp_path / "out.png", settings).failures == []


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_a_picture_of_12_bits_in_16_is_refined_as_one_of_8_bits(tmp_path, suffix):
    rows, columns = np.indices((120, 140))
    truth = np.hypot(rows - 60, columns - 70) < 35
    rough = np.hypot(rows - 57, columns - 65) < 33
    noise = np.random.default_rng(6330).standard_normal(truth.shape)
    Image.fromarray(rough.astype(np.uint8)).save(tmp_path / "mask.png")

    def wrong(values: np.ndarray, name: str) -> int:
        Image.fromarray(values).save(tmp_path / name)
        assert refine_files(tmp_path / name, tmp_path / "mask.png", tmp_path / "out.png").failures == []
        return int((labels_in(tmp_path / "out.png") != truth).sum())

    whole = wrong(np.clip(60 + 120 * truth + 5 * noise, 0, 255).astype(np.uint8), "photo8.png")
    with pytest.warns(InputWarning, match=r"less than a quarter of 0…65535: the percentiles 0.5 and 99.5 of each"):
        deep = wrong(np.clip(900 + 1900 * truth + 80 * noise, 0, 4095).astype(np.uint16), f"photo12.{suffix}")
    assert int((rough != truth).sum()) > 500 and deep <= whole + 10 < 60


@pytest.mark.parametrize("kind", [RuntimeError, IndexError, TypeError, MemoryError, ZeroDivisionError, OSError])
def test_an_error_in_one_pair_does_not_stop_the_others(folders, monkeypatch, kind):
    images, masks, out = folders
    real = pair_refining.read_image

    def sometimes(path: Path, size: tuple[int, int]) -> object:
        if path.name == "2.png":
            raise kind("two\nlines")
        return real(path, size)

    monkeypatch.setattr(pair_refining, "read_image", sometimes)
    refined = refine_files(images, masks, out, SETTINGS)
    assert sorted(path.name for path in out.iterdir()) == ["0.png", "1.png", "3.png", "4.png"]
    (failure,) = refined.failures
    assert failure.startswith(f"{masks / '2.png'}: ") and "two lines" in failure


def test_failures_are_reported_as_they_happen(folders):
    images, masks, out = folders
    (masks / "1.png").write_bytes(b"broken")
    Image.fromarray(np.zeros((2, 2), np.uint8)).save(masks / "alone.png")
    calls: list[object] = []
    refined = refine_files(
        images, masks, out, SETTINGS, threads=1, progress=lambda done, _: calls.append(done), failed=calls.append
    )
    alone, start, first, broken, *rest = calls
    assert f"{masks / 'alone.png'}: no image" in alone and str(masks / "1.png") in broken
    assert [start, first, *rest] == [0, 1, 2, 3, 4, 5]
    assert set(refined.failures) == {alone, broken}


def test_subfolders_and_suffixes_are_paired(folders):
    images, masks, out = folders
    (images / "in").mkdir()
    for number in range(5):
        (images / f"{number}.png").rename(images / "in" / f"{number}.png")
        (masks / f"{number}.png").rename(images / "in" / f"{number}_m.png")
    refined = refine_files(images, images, out, SETTINGS, recursive=True, mask_suffix="_m")
    assert refined.failures == []
    assert sorted(path.name for path in (out / "in").iterdir()) == [f"{number}_m.png" for number in range(5)]
