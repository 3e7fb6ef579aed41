"""Distances to true boundaries equal a search over all windows, and hand-drawn cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from densefield.metrics.boundaries import BANDS, boundary_distance


def distance_by_windows(truth: Any) -> Any:
    """The smallest r such that the square of side 2r + 1 around a pixel has another label; 21 if none."""
    distance = np.full(truth.shape, BANDS + 1)
    for row, column in np.ndindex(truth.shape):
        for r in range(BANDS, 0, -1):
            window = truth[max(0, row - r) : row + r + 1, max(0, column - r) : column + r + 1]
            if (window != truth[row, column]).any():
                distance[row, column] = r
    return distance


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 60), (60, 1), (2, 2), (31, 47), (50, 26)])
@pytest.mark.parametrize("marks", [1, 3, 40])
def test_it_is_the_radius_of_the_smallest_window_with_another_label(rows, columns, marks):
    random = np.random.default_rng(rows * 1009 + columns * 31 + marks)
    truth = np.zeros((rows, columns), np.uint8)
    for _ in range(marks):
        r, c = random.integers(rows), random.integers(columns)
        truth[r : r + 3, c : c + 2] = random.choice([1, 2, 255])
    assert np.array_equal(boundary_distance(truth), distance_by_windows(truth))


def test_around_one_pixel_the_bands_are_squares():
    truth = np.zeros((60, 60), np.uint8)
    truth[30, 30] = 1
    rows, columns = np.indices(truth.shape)
    expected = np.maximum(abs(rows - 30), abs(columns - 30))
    expected[30, 30] = 1  # its nearest other label is adjacent
    assert np.array_equal(boundary_distance(truth), np.minimum(expected, 21))


def test_void_is_a_boundary():
    assert boundary_distance(np.array([[0, 0, 255, 255, 0, 0]])).tolist() == [[2, 1, 1, 1, 1, 2]]


def test_an_image_of_one_label_has_no_boundary():
    assert (boundary_distance(np.full((30, 40), 7)) == 21).all()


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_an_image_without_pixels_has_no_distances(shape):
    assert boundary_distance(np.zeros(shape, np.uint8)).shape == shape


def test_on_voc_the_bands_are_around_void(shared: Path):
    """VOC covers boundaries with void, so dilating void, as DeepLab did, gives nearly the same bands."""
    image = pytest.importorskip("PIL.Image")
    ndimage = pytest.importorskip("scipy.ndimage")
    files = sorted((shared / "data/VOCdevkit/VOC2012/SegmentationClass").glob("*.png"))[:20]
    if not files:
        pytest.skip("no masks in the folder")
    ours, around_void, both = 0, 0, 0
    for path in files:
        truth = np.asarray(image.open(path))
        counted = truth != 255
        band = (boundary_distance(truth) <= 5) & counted
        grown = ndimage.maximum_filter(truth == 255, size=11) & counted
        ours, around_void, both = ours + band.sum(), around_void + grown.sum(), both + (band & grown).sum()
    assert both == around_void  # ours contains all of theirs
    assert ours < 1.01 * around_void  # and few others, where labels touch without void
