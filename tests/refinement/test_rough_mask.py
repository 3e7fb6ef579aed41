"""refine() on rough masks of synthetic photos."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield import refine
from tests.support.textured_photos import SHAPE, blob, blocks, dilated, photo, shifted

TRUTH = blob()
IMAGE = photo(TRUTH)
THREE = np.where(blob(SHAPE, 20, (45, 125)), 2, TRUTH.astype(np.uint8))
THREE_IMAGE = photo(THREE)
ROUGH = {
    "blocks of 8": blocks(TRUTH, 8),
    "blocks of 16": blocks(TRUTH, 16),
    "dilated by 5": dilated(TRUTH, 5),
    "eroded by 5": dilated(TRUTH, -5),
    "shifted": shifted(TRUTH, 4, -3),
}


def refined(image: np.ndarray, mask: np.ndarray, **options: Any) -> np.ndarray:
    return refine(image, labels=mask.astype(np.uint8) if mask.dtype == bool else mask, **options).argmax(axis=0)


@pytest.mark.parametrize("name", ROUGH)
def test_rough_masks_move_to_the_edge(name):
    wrong = (ROUGH[name] != TRUTH).sum()
    assert (refined(IMAGE, ROUGH[name]) != TRUTH).sum() < 0.05 * wrong


@pytest.mark.parametrize("seed", [9203, 9209, 9221])
def test_a_correct_mask_stays(seed):
    truth = blob(radius=25 + seed % 9, centre=(58, 77))
    assert (refined(photo(truth, seed, noise=15), truth) != truth).mean() < 0.005
    assert (refined(photo(THREE, seed, noise=15), THREE) != THREE).mean() < 0.005


@pytest.mark.parametrize("spacing", [(1.0, 1.0), (4.0, 1.0), (1.0, 4.0), (0.01, 0.01), (7.0, 7.0)])
@pytest.mark.parametrize("roughness", [None, 6.0, 30.0])
def test_a_flat_image_leaves_the_mask_unchanged(spacing, roughness):
    for mask in (THREE, blocks(THREE, 8)):
        assert np.array_equal(refined(np.full_like(IMAGE, 90), mask, spacing=spacing, roughness=roughness), mask)


def test_pixels_far_from_edges_never_change():
    noise = np.random.default_rng(1009).integers(0, 256, (200, 260, 3)).astype(np.uint8)
    mask = np.zeros((200, 260), np.uint8)
    mask[60:140, 80:180] = 1
    q = refine(noise, labels=mask, roughness=4.0)
    far = np.ones_like(mask, bool)
    far[20:180, 40:220] = False
    far[100:101, 120:140] = True
    assert np.array_equal(q.argmax(axis=0)[far], mask[far])
    assert len(np.unique(q[:, far])) == 2  # certain


def test_small_objects_survive():
    truth = np.zeros(SHAPE, np.uint8)
    for place, size in enumerate((3, 4, 6, 9)):
        truth[20 + 20 * place : 20 + 20 * place + size, 30 : 30 + size] = place % 2 + 1
    found = refined(photo(truth), truth)
    for place, size in enumerate((3, 4, 6, 9)):
        here = np.s_[20 + 20 * place : 20 + 20 * place + size, 30 : 30 + size]
        assert (found[here] == place % 2 + 1).mean() > 0.8


@pytest.mark.parametrize("numbers", [(1, 0, 2), (2, 1, 0), (9, 4, 200), (0, 1, 254)])
def test_the_numbers_of_labels_do_not_matter(numbers):
    order = np.array(numbers)
    for mask in (dilated(THREE == 2, 4) * 2, blocks(THREE, 8)):
        mask = np.where(mask == 0, THREE == 1, mask)
        plain, renumbered = refine(THREE_IMAGE, labels=mask), refine(THREE_IMAGE, labels=order[mask])
        assert np.allclose(renumbered[order], plain, atol=1e-5)  # sums over labels in another order


def test_labels_of_equal_area_may_be_swapped():
    mask = np.zeros((80, 100), np.uint8)
    mask[:, 50:] = 1
    image = photo(np.roll(mask, 3, axis=1))
    plain, swapped = refine(image, labels=mask), refine(image, labels=1 - mask)
    assert np.array_equal(swapped.argmax(axis=0), 1 - plain.argmax(axis=0))


@pytest.mark.parametrize("name", [*ROUGH, "three labels"])
def test_nothing_depends_on_the_number_of_threads(name):
    image, mask = (THREE_IMAGE, blocks(THREE, 8)) if name == "three labels" else (IMAGE, ROUGH[name].astype(np.uint8))
    one = refine(image, labels=mask, threads=1)
    for threads in (2, 3):
        assert np.array_equal(refine(image, labels=mask, threads=threads), one)  # bit for bit


def test_unknown_pixels_get_the_label_of_their_colour():
    mask = THREE.copy()
    mask[dilated(TRUTH, 4) & ~dilated(TRUTH, -4)] = 255
    mask[:30, 100:] = 255
    q = refine(THREE_IMAGE, labels=mask)
    assert q.shape[0] == 3 and (q.argmax(axis=0) != THREE).mean() < 0.005


@pytest.mark.parametrize("name", ["blocks of 8", "dilated by 5"])
def test_ignored_pixels_have_no_effect(name):
    out = np.zeros(SHAPE, bool)
    out[50:64, 40:70] = True
    out[::17, ::13] = True
    mask, image = ROUGH[name].astype(np.uint8), IMAGE.astype(np.float32)
    expected = refine(image, labels=mask, ignore=out)
    other, wrong = image.copy(), mask.copy()
    other[out], wrong[out] = 31.0, 1 - wrong[out]
    assert np.array_equal(refine(other, labels=wrong, ignore=out), expected)
    right = expected.argmax(axis=0) == TRUTH
    assert right[~out].mean() > 0.995
    assert np.allclose(expected.sum(axis=0), 1, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6, 13])
def test_any_number_of_channels_is_accepted(channels):
    image = photo(TRUTH)[..., np.arange(channels) % 3]
    image = np.clip(image + np.random.default_rng(channels).normal(0, 3, image.shape), 0, 255).astype(np.uint8)
    for each in (image, image[..., 0] if channels == 1 else image.astype(np.float32)):
        found = refined(each, ROUGH["dilated by 5"])
        assert (found != TRUTH).sum() < 0.15 * (ROUGH["dilated by 5"] != TRUTH).sum()


@pytest.mark.parametrize("name", ["blocks of 8", "dilated by 5", "shifted"])
@pytest.mark.parametrize(
    "dtype, data_range", [(np.float32, 1.0), (np.uint16, 65535), (np.float64, 1e-3), (np.float32, 1e9)]
)
def test_images_of_another_range_give_nearly_the_same(name, dtype, data_range):
    image = (IMAGE * (data_range / 255)).astype(dtype)
    expected = refined(IMAGE, ROUGH[name])
    assert (refined(image, ROUGH[name], data_range=data_range) != expected).mean() < 0.002


def test_each_channel_has_its_own_range():
    noise = np.random.default_rng(40_423).uniform(0, 51, SHAPE)
    levels, mask = np.stack([IMAGE[..., 0].astype(np.float64), noise], axis=-1), ROUGH["dilated by 5"]
    expected = refined(levels, mask)
    assert (expected != TRUTH).sum() < 0.15 * (mask != TRUTH).sum()
    found = refined(levels * [1 / 255, 257], mask, data_range=(1, 65535))
    assert (found != expected).mean() < 0.002


def test_masks_of_many_labels_are_refined_too():
    mask = dilated(TRUTH, 5).astype(np.int64)
    mask[0, :80] = np.arange(2, 82)  # 82 labels
    found = refined(IMAGE, mask)
    assert (found[10:] != TRUTH[10:]).sum() < 0.05 * (mask[10:] != TRUTH[10:]).sum()


@pytest.mark.parametrize("spacing", [0.125, 4.0, 1024.0])
@pytest.mark.parametrize("name", ["blocks of 16", "dilated by 5", "shifted"])
def test_the_unit_of_the_spacing_does_not_matter(name, spacing):
    expected = refined(IMAGE, ROUGH[name])
    assert (refined(IMAGE, ROUGH[name], spacing=(spacing, spacing)) != expected).mean() < 0.002


def test_volumes_move_to_the_edge():
    distance = np.sqrt(
        sum((each - 12.0) ** 2 * step for each, step in zip(np.indices((25, 40, 44)), (4, 1, 1), strict=True))
    )
    truth, mask = distance < 11, distance < 14
    image = photo(truth.reshape(25, -1), seed=29).reshape(*truth.shape, 3)
    found = refined(image, mask.astype(np.uint8), spacing=(1.0, 1.0, 2.0))
    assert (found != truth).sum() < 0.15 * (mask != truth).sum()
    assert np.array_equal(refined(np.full_like(image, 9), mask.astype(np.uint8), spacing=(1.0, 1.0, 2.0)), mask)


def test_very_rough_masks_keep_a_row_for_labels_that_vanish():
    truth = np.zeros((240, 320), np.uint8)
    truth[blob(truth.shape, 75, (120, 150))] = 1
    mask = blocks(truth, 40)
    mask[200:240, 280:320] = 3  # in the colour of the background
    q = refine(photo(truth), labels=mask, num_classes=5)
    assert q.shape == (5, 240, 320) and np.allclose(q.sum(axis=0), 1, atol=1e-5)
    assert not q[2].any() and not q[4].any() and q[3].any()
    assert (q.argmax(axis=0) == truth)[:, :270].mean() > 0.99


@pytest.mark.parametrize("roughness", [9.5, 20.0, 400.0])
def test_a_large_roughness_is_accepted_for_any_number_of_labels(roughness):
    for mask in (THREE, THREE == 1, blocks(THREE, 16)):
        found = refined(THREE_IMAGE, mask, roughness=roughness)
        assert found.shape == SHAPE and (found != mask).mean() < 0.2


@pytest.mark.parametrize("roughness", [1e-3, 1e-9, 1e-100])
def test_a_tiny_roughness_keeps_the_mask(roughness):
    assert np.array_equal(refined(IMAGE, TRUTH, roughness=roughness), TRUTH)


@pytest.mark.parametrize("name", ROUGH)
def test_a_transposed_photo_gives_nearly_the_transposed_mask(name):
    expected = refined(IMAGE, ROUGH[name])
    found = refined(IMAGE.transpose(1, 0, 2), ROUGH[name].T)
    assert (expected != found.T).mean() < 0.002  # equally near edges are chosen in the order of the axes


# Blocks of 16 do not fill 120 rows: mirrored, the first block is smaller than the others.
@pytest.mark.parametrize("name", [*(each for each in ROUGH if each != "blocks of 16"), "blocks of 40"])
def test_a_mirrored_photo_gives_nearly_the_mirrored_mask(name):
    truth = blob((240, 320), 75, (120, 150)) if name == "blocks of 40" else TRUTH
    mask, image = (blocks(truth, 40), photo(truth)) if name == "blocks of 40" else (ROUGH[name], IMAGE)
    expected = refined(image, mask)
    found = refined(image[::-1, ::-1], mask[::-1, ::-1])
    assert (found[::-1, ::-1] != expected).mean() < 0.002


@pytest.mark.parametrize("name", ROUGH)
def test_probabilities_sum_to_one(name):
    q = refine(IMAGE, labels=ROUGH[name].astype(np.uint8))
    assert q.dtype == np.float32 and q.flags.c_contiguous
    assert np.allclose(q.sum(axis=0), 1, atol=1e-5) and q.min() >= 0


def test_strided_arrays_give_the_same():
    mask = ROUGH["dilated by 5"].astype(np.uint8)
    expected = refine(IMAGE, labels=mask)
    wide = np.repeat(np.repeat(IMAGE, 2, axis=0), 3, axis=1)[::2, ::3]
    gaps = np.repeat(mask, 5, axis=1)[:, ::5]
    assert not wide.flags.c_contiguous and not gaps.flags.c_contiguous
    assert np.array_equal(refine(wide, labels=gaps), expected)
    assert np.array_equal(refine(np.asfortranarray(IMAGE), labels=np.asfortranarray(mask)), expected)
    read_only = IMAGE.copy()
    read_only.flags.writeable = False
    assert np.array_equal(refine(read_only, labels=mask), expected)
