"""The roughness of masks."""

from __future__ import annotations

import numpy as np
import pytest

from densefield.crf.label_mask import label_mask
from densefield.refinement.rough_mask import mask_edges
from densefield.refinement.roughness import ROUGH, SHARP, Roughness, estimate_roughness
from tests.support.textured_photos import blob, blocks, dilated, photo, shifted

TRUTH = blob()
IMAGE = photo(TRUTH)


def roughness(
    mask: np.ndarray, image: np.ndarray = IMAGE, given: float | None = None, spacing: float = 1.0
) -> Roughness | None:
    steps = (spacing,) * mask.ndim
    return estimate_roughness(
        mask_edges(label_mask(mask.astype(np.uint8)), image.reshape(mask.size, -1), steps, 1), given
    )


def careless() -> np.ndarray:
    """A disc in place of the shape with bays: its edge is up to seven pixels away."""
    rows, columns = np.indices(TRUTH.shape)
    return np.hypot(rows - 60, columns - 80) < 32


def test_a_flat_image_has_no_edges_to_follow():
    assert roughness(TRUTH, np.full_like(IMAGE, 90)) is None
    assert roughness(TRUTH, np.full_like(IMAGE, 90), given=3.0) is None
    weak = np.broadcast_to(np.linspace(90, 100, TRUTH.shape[1]), TRUTH.shape)  # less than half a level per pixel
    assert roughness(TRUTH, np.repeat(weak[..., None], 3, axis=2).astype(np.float32)) is None


@pytest.mark.parametrize("size", [6, 8, 13, 16])
def test_the_roughness_of_blocks_is_half_their_size(size):
    found = roughness(blocks(TRUTH, size))
    assert found is not None and found.block == pytest.approx(size, rel=0.03)
    assert found.width == found.block / 2 and found.displacements == ()


def test_a_mask_whose_edges_agree_with_those_of_the_image_is_sharp():
    sharp, rough = roughness(TRUTH), roughness(careless())
    assert sharp is not None and rough is not None
    assert sharp.width == pytest.approx(SHARP, abs=0.05) and sharp.block is None
    assert rough.width == pytest.approx(ROUGH, abs=0.2)
    noise = np.random.default_rng(60_013).integers(0, 256, IMAGE.shape).astype(np.uint8)
    unrelated = roughness(TRUTH, noise)
    assert unrelated is not None and unrelated.width > 0.8 * ROUGH  # the agreement with noise is about 1


@pytest.mark.parametrize("given", [0.7, 1.0, 3.0, 12.0])
def test_a_given_roughness_is_honoured(given):
    for mask in (TRUTH, blocks(TRUTH, 8)):
        found = roughness(mask, given=given)
        assert found is not None and found.width == given
    moved = roughness(dilated(TRUTH, 5), given=given)
    assert moved is not None and moved.width <= given
    assert all(abs(each.offset) + np.hypot(*each.shift) <= given for each in moved.displacements)


def test_a_displacement_within_the_given_roughness_leaves_the_rest():
    found = roughness(dilated(TRUTH, 5), given=8.0)
    assert found is not None and found.displacements[0].offset == pytest.approx(5, abs=1)
    assert found.width == pytest.approx(SHARP, abs=0.1)


@pytest.mark.parametrize("factor", [1, 2])
def test_roughness_grows_with_the_size_of_the_image(factor):
    truth = blob((375 * factor, 500 * factor), 100.0 * factor, (180 * factor, 240 * factor))
    found = roughness(truth, photo(truth))
    assert found is not None and found.width == pytest.approx(factor * SHARP, rel=0.01)
    moved = roughness(shifted(truth, 0, 4 * factor), photo(truth))
    assert moved is not None and moved.displacements[0].shift == pytest.approx((0, -4), abs=1)  # in units


@pytest.mark.parametrize("spacing", [0.25, 4.0, 64.0])
def test_roughness_is_in_pixels_for_any_spacing(spacing):
    for mask in (TRUTH, blocks(TRUTH, 8), dilated(TRUTH, 5)):
        assert roughness(mask) is not None and roughness(mask, spacing=spacing) == roughness(mask)
