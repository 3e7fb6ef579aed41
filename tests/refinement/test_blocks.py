"""The size of the blocks of masks that were enlarged without interpolation."""

from __future__ import annotations

import numpy as np
import pytest

from densefield.refinement.blocks import block_size
from tests.support.textured_photos import blob, blocks


def shape_of(seed: int, shape: tuple[int, int] = (300, 400)) -> np.ndarray:
    random = np.random.default_rng(seed)
    centre = random.uniform(0.4, 0.6, 2) * shape
    return blob(shape, random.uniform(0.25, 0.35) * min(shape), (centre[0], centre[1]))


@pytest.mark.parametrize("size", [4, 5, 8, 11, 16, 23, 32, 40])
@pytest.mark.parametrize("seed", [31_013, 31_019, 31_033])
def test_the_size_of_blocks_is_found(size, seed):
    found = block_size(blocks(shape_of(seed), size).astype(np.uint8))
    assert found == pytest.approx(size, rel=0.02)  # the width of the peak of a transform over 300 pixels


@pytest.mark.parametrize("size", [7.3, 9.6, 400 / 33, 18.75, 31.4])
@pytest.mark.parametrize("seed", [31_013, 31_019])
def test_the_size_need_not_be_an_integer(size, seed):
    found = block_size(blocks(shape_of(seed), size).astype(np.uint8))
    assert found == pytest.approx(size, rel=0.03)  # edges are rounded to pixels, which hides smaller sizes


def test_labels_and_dtypes_do_not_matter():
    coarse = np.random.default_rng(8111).integers(0, 5, (12, 15))
    mask = coarse.repeat(14, axis=0).repeat(14, axis=1)
    for labels in (mask.astype(np.uint8), mask.astype(np.int32), 900 - 17 * mask, mask == 2):
        assert block_size(labels) == 14.0
    assert block_size(mask.T) == 14.0


@pytest.mark.parametrize("seed", range(52_003, 52_015))
def test_smooth_shapes_have_no_blocks(seed):
    assert block_size(shape_of(seed).astype(np.uint8)) is None
    assert block_size(shape_of(seed, (60, 80)).astype(np.uint8)) is None


def test_rectangles_have_no_blocks():
    random = np.random.default_rng(3361)
    for _ in range(30):
        mask = np.zeros((200, 260), np.uint8)
        top, left = random.integers(5, 90, 2)
        height, width = random.integers(10, 100, 2)
        mask[top : top + height, left : left + width] = 1
        assert block_size(mask) is None
    half = np.zeros((90, 120), np.uint8)
    half[:, 60:] = 1
    assert block_size(half) is None


def test_pixels_are_not_blocks():
    random = np.random.default_rng(9029)
    assert block_size(random.integers(0, 2, (80, 90))) is None
    assert block_size(random.integers(0, 2, (40, 45)).repeat(2, axis=0).repeat(2, axis=1)) is None


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 1), (2, 2), (3, 4), (6, 6)])
def test_tiny_masks_have_no_blocks(shape):
    assert block_size(np.zeros(shape, np.uint8)) is None
    assert block_size(np.random.default_rng(1709).integers(0, 2, shape)) is None
    assert block_size(np.arange(shape[0] * shape[1]).reshape(shape)) is None


def test_a_mask_of_one_label_has_no_blocks():
    assert block_size(np.full((60, 70), 4, np.int32)) is None
