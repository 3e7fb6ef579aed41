"""For each pixel the nearest pixel with another label, against all pairs of pixels and against scipy."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import _core
from tests.support.mask_edges_reference import places, squared_distances

GRIDS = [
    ((1, 17, 23), (1.0, 1.0, 1.0)),
    ((1, 20, 19), (1.0, 0.7, 2.3)),
    ((1, 1, 70), (1.0, 1.0, 0.3)),
    ((1, 70, 1), (1.0, 2.5, 1.0)),
    ((9, 1, 1), (0.6, 1.0, 1.0)),
    ((5, 9, 11), (1.0, 1.0, 1.0)),
    ((7, 6, 8), (3.7, 0.8, 1.1)),
    ((1, 1, 1), (1.0, 1.0, 1.0)),
    ((2, 1, 40), (0.1, 1.0, 5.0)),
]
ROUNDING = 4e-7  # of squares in float32, at most one for each of three axes


def found(labels: np.ndarray, spacing: tuple[float, ...], threads: int = 2) -> tuple[np.ndarray, np.ndarray]:
    squared, nearest = np.empty(labels.size, np.float32), np.empty(labels.size, np.int32)
    _core.MaskEdges(labels, list(spacing), int(labels.max()) + 1, threads).distances(squared, nearest)
    return squared, nearest


def patches(shape: tuple[int, ...], labels: int, seed: int) -> np.ndarray:
    """A mask of patches: each pixel has the label of the nearest of a few random places."""
    random = np.random.default_rng(seed)
    seeds, at = random.uniform(0, 1, (3 * labels, 3)) * shape, places(shape, (1, 1, 1))
    owner = ((at[:, None] - seeds[None]) ** 2).sum(axis=2).argmin(axis=1)
    return (owner % labels).astype(np.int32).reshape(shape)


def check(labels: np.ndarray, spacing: tuple[float, ...]) -> None:
    squared, nearest = found(labels, spacing)
    expected = squared_distances(labels, np.float32(spacing))
    assert np.allclose(squared, expected, rtol=ROUNDING, atol=0)
    flat, near = labels.reshape(-1), nearest >= 0
    assert np.array_equal(near, np.isfinite(expected))
    assert (flat[nearest[near]] != flat[near]).all()
    at = places(labels.shape, np.float32(spacing))
    reached = ((at[nearest[near]] - at[near]) ** 2).sum(axis=1)
    assert np.allclose(reached, expected[near], rtol=ROUNDING, atol=0)  # one of those that are equally near


@pytest.mark.parametrize("shape, spacing", GRIDS)
@pytest.mark.parametrize("labels", [1, 2, 3, 5])
def test_distances_equal_those_over_all_pairs_of_pixels(shape, spacing, labels):
    check(patches(shape, labels, seed=7103 + labels), spacing)
    scattered = np.random.default_rng(88_041 + labels).integers(0, labels, shape).astype(np.int32)
    check(scattered, spacing)


@pytest.mark.parametrize("shape", [(1, 25, 30), (6, 8, 9)])
def test_a_single_pixel_of_another_label_is_found_from_everywhere(shape):
    labels = np.zeros(shape, np.int32)
    labels[shape[0] // 2, 3, 5] = 1
    squared, nearest = found(labels, (1.0, 1.0, 1.0))
    alone = int(labels.argmax())
    assert (nearest[labels.reshape(-1) == 0] == alone).all()
    assert np.array_equal(squared, squared_distances(labels, (1, 1, 1)))  # integers are exact in float32
    assert squared[alone] == 1


def test_distances_over_thousands_of_pixels_are_exact():
    labels = np.zeros((1, 1, 4000), np.int32)
    labels[..., 3999] = 1
    squared, nearest = found(labels, (1.0, 1.0, 1.0))
    assert np.array_equal(squared[:-1], (3999 - np.arange(3999)) ** 2)  # below 2^24
    assert (nearest[:-1] == 3999).all() and nearest[-1] == 3998


@pytest.mark.parametrize("shape, spacing", GRIDS)
def test_one_label_alone_is_infinitely_far_from_others(shape, spacing):
    squared, nearest = found(np.full(shape, 3, np.int32), spacing)
    assert np.isinf(squared).all() and (nearest == -1).all()


@pytest.mark.parametrize("labels", [2, 4])
def test_distances_do_not_depend_on_the_number_of_threads(labels):
    mask = np.random.default_rng(5519).integers(0, labels, (3, 70, 90)).astype(np.int32)
    one = found(mask, (2.0, 1.0, 0.7), threads=1)
    for threads in (2, 3):
        for first, second in zip(one, found(mask, (2.0, 1.0, 0.7), threads), strict=True):
            assert np.array_equal(first, second)  # bit for bit


def test_reversed_axes_give_reversed_distances():
    labels = patches((4, 15, 18), 3, seed=61_211)
    squared = found(labels, (1.5, 1.0, 0.6))[0].reshape(labels.shape)
    for flip in (np.s_[::-1], np.s_[:, ::-1], np.s_[..., ::-1]):
        other = found(np.ascontiguousarray(labels[flip]), (1.5, 1.0, 0.6))[0].reshape(labels.shape)
        assert np.allclose(other[flip], squared, rtol=ROUNDING, atol=0)


@pytest.mark.parametrize("shape, spacing", [((1, 120, 150), (1.0, 1.0, 1.0)), ((12, 40, 30), (2.5, 0.9, 1.3))])
def test_distances_equal_those_of_scipy(shape, spacing):
    ndimage = pytest.importorskip("scipy.ndimage")
    labels = patches(shape, 4, seed=90_533)
    squared, _ = found(labels, spacing)
    expected = np.zeros(shape)
    for label in range(4):
        inside = labels == label
        expected[inside] = ndimage.distance_transform_edt(inside, sampling=np.float32(spacing))[inside]
    assert np.allclose(np.sqrt(squared).reshape(shape), expected, rtol=ROUNDING, atol=0)
