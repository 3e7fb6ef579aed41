"""Edge profiles, margins, bands and scores of the native core equal their readable twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield.refinement.mask_edges import IGNORED, KNOWN, UNKNOWN, MaskEdges
from tests.support import mask_edges_reference as reference

CASES = [  # shape, spacing along the axes of the grid, number of labels
    ((19, 26), (1.0, 1.0), 2),
    ((22, 17), (0.8, 0.8), 3),
    ((16, 24), (1.0, 1.0), 5),
    ((7, 11, 10), (1.0, 1.0, 1.0), 2),
    ((5, 12, 9), (2.6, 0.9, 0.9), 4),
    ((1, 40), (1.0, 1.0), 3),
    ((40, 1), (1.0, 1.0), 2),
    ((14, 15), (1.0, 1.0), 1),
]


def mask_of(shape: tuple[int, ...], labels: int, seed: int) -> np.ndarray:
    """Patches around a few random places."""
    random, axes = np.random.default_rng(seed), len(shape)
    seeds, at = random.uniform(0, 1, (2 * labels + 1, axes)) * shape, np.indices(shape).reshape(axes, -1).T
    owner = ((at[:, None] - seeds[None]) ** 2).sum(axis=2).argmin(axis=1)
    return (owner % labels).astype(np.int32).reshape(shape)


def example(
    shape: tuple[int, ...], spacing: tuple[float, ...], labels: int, *, dtype: Any = np.uint8, threads: int = 2
) -> tuple[MaskEdges, reference.Mask]:
    """The same mask and image in both, with a few ignored pixels."""
    random = np.random.default_rng(31_000 + 7 * labels + shape[-1])
    mask, channels = mask_of(shape, labels, seed=4421 + shape[0]), random.integers(0, 256, (mask_size(shape), 3))
    use = np.where(random.uniform(size=shape) < 0.02, IGNORED, KNOWN).astype(np.uint8)
    edges = MaskEdges(mask, use, channels.astype(dtype), spacing, threads, num_labels=labels)
    return edges, twin_of(edges)


def mask_size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape))


def twin_of(edges: MaskEdges) -> reference.Mask:
    steps = [1.0] * (3 - edges.num_axes) + [float(np.float32(each)) for each in edges.spacing]
    nearest = np.empty(edges.labels.size, np.int32)
    edges.native.distances(np.empty(edges.labels.size, np.float32), nearest)
    return reference.Mask(edges.labels, steps, edges.num_labels, nearest, edges.pairs)


def profile_of(edges: MaskEdges, width: float, shape: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    strengths, counts = np.full(shape, -7, np.int64), np.full(shape, -7, np.int64)
    edges.native.profile(edges.channels, edges.use, edges.pairs, width, strengths, counts, edges.threads)
    return strengths, counts


@pytest.mark.parametrize("shape, spacing, labels", CASES)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_edge_profiles_equal_their_twin(shape, spacing, labels, dtype):
    edges, twin = example(shape, spacing, labels, dtype=dtype)
    pairs = max(int(edges.pairs.max()) + 1, 1)
    for width, directions, bins in ((1.0, 16, 6), (0.7, 1, 9), (1.3, 8, 2)):
        strengths, counts = profile_of(edges, width, (pairs, directions, 2 * bins))
        expected, expected_counts = twin.profile(edges.channels, edges.use, width, pairs, directions, bins)
        assert np.array_equal(counts, expected_counts)
        # Strengths in float32 may be rounded to the next multiple of 1/256.
        assert (np.abs(strengths - expected) <= counts).all()
        assert np.abs(strengths - expected).sum() <= 0.02 * counts.sum()
    assert counts.any() == (labels > 1 and min(shape) > 2)


@pytest.mark.parametrize("shape, spacing, labels", CASES)
def test_margins_equal_their_twin(shape, spacing, labels):
    edges, twin = example(shape, spacing, labels)
    pairs = max(int(edges.pairs.max()) + 1, 1)
    moved = np.random.default_rng(771).normal(0, 3, (pairs, 3)).astype(np.float32)
    for displacements in (np.zeros((pairs, 3)), moved):
        margins = edges.margins(displacements)
        assert margins.shape == shape
        # A few operations in float32, on numbers up to 30.
        assert np.allclose(margins.reshape(-1), twin.margins(displacements), rtol=1e-6, atol=1e-5)
    assert np.array_equal(edges.margins(), edges.margins(np.zeros((pairs, 3))))
    assert np.isinf(edges.margins()).all() == (labels == 1)


@pytest.mark.parametrize("spacing", [(1.0, 4.0), (4.0, 1.0), (0.1, 0.3), (5.0, 5.0)])
def test_every_pixel_is_on_its_own_side_of_an_edge_that_was_not_moved(spacing):
    mask = mask_of((20, 25), 3, seed=9931)
    edges = MaskEdges(mask, np.full(mask.shape, KNOWN, np.uint8), np.zeros((500, 1), np.uint8), spacing, 1)
    assert (edges.margins() > 0).all()


def test_an_offset_moves_the_edge_into_the_smaller_label_and_a_shift_moves_it_as_a_whole():
    mask = np.zeros((21, 31), np.int32)
    mask[6:15, 9:22] = 1
    edges = MaskEdges(mask, np.full(mask.shape, KNOWN, np.uint8), np.zeros((mask.size, 1), np.uint8), (1.0, 1.0), 1)
    plain = edges.margins()
    assert plain[10, 8:11].tolist() == [0.5, 0.5, 1.5]
    eroded = edges.margins([[2.0, 0.0, 0.0]])
    assert eroded[10, 7:12].tolist() == [3.5, 2.5, -1.5, -0.5, 0.5]
    shifted = edges.margins([[0.0, 3.0, -1.0]])  # to the right, and up
    moved = np.where(shifted < 0, 1 - mask, mask)
    assert np.array_equal(np.flatnonzero(moved[10]), np.arange(12, 25))
    assert np.array_equal(np.flatnonzero(moved[:, 15]), np.arange(5, 14))


def test_pairs_are_symmetric_and_numbered_by_the_length_of_their_edges():
    edges, twin = example((16, 24), (1.0, 1.0), 5)
    pairs, lengths = edges.pairs, twin.edge_lengths(edges.use)
    both = lengths + lengths.T
    assert pairs.dtype == np.int32 and np.array_equal(pairs, pairs.T)
    assert np.array_equal(pairs >= 0, both > 0)
    ordered = [int(both[pairs == number].max()) for number in range(pairs.max() + 1)]
    assert len(ordered) > 2 and ordered == sorted(ordered, reverse=True)
    assert all((pairs == number).sum() == 2 for number in range(pairs.max() + 1))


def test_pairs_beyond_the_longest_32_are_left_out():
    mask = (np.arange(240 * 40).reshape(40, 240) % 240 // 6).astype(np.int32)  # 40 stripes: 39 edges
    mask[38:, 6 * 39 :] = 38  # the last edge is shorter
    edges = MaskEdges(mask, np.full(mask.shape, KNOWN, np.uint8), np.zeros((mask.size, 1), np.uint8), (1.0, 1.0), 1)
    assert edges.pairs.max() == 31 and (edges.pairs >= 0).sum() == 64
    assert edges.pairs[38, 39] == 0  # with the corner it is the longest
    assert len(edges.profiles) == 32 and edges.profiles == [None] * 32  # the image is flat
    assert np.array_equal(edges.margins()[0, 114:120], [0.5, 1.5, 2.5, 2.5, 1.5, 0.5])


@pytest.mark.parametrize("factor", [0.25, 4.0])
def test_pairs_do_not_depend_on_the_unit_of_the_spacing(factor):
    mask = mask_of((24, 30), 3, seed=2051)
    use, channels = np.full(mask.shape, KNOWN, np.uint8), np.zeros((mask.size, 1), np.uint8)
    one, other = (MaskEdges(mask, use, channels, (each, each), 1) for each in (1.0, factor))
    assert one.pairs.max() >= 1 and np.array_equal(other.pairs, one.pairs)
    assert np.array_equal(other.margins(), np.float32(factor) * one.margins())  # powers of two are exact


@pytest.mark.parametrize("shape, spacing, labels", CASES)
@pytest.mark.parametrize("limit", [-1.0, 0.5, 2.6, np.inf])
def test_the_band_holds_the_pixels_near_edges_that_are_not_ignored(shape, spacing, labels, limit):
    edges, _ = example(shape, spacing, labels)
    margins = edges.margins()
    points = edges.band(margins, limit)
    expected = (np.abs(margins).reshape(-1) <= limit) & (edges.use != IGNORED)
    assert points.dtype == np.int32 and np.array_equal(np.sort(points), np.flatnonzero(expected))


@pytest.mark.parametrize("shape, spacing, labels", CASES)
def test_features_are_positions_and_colours(shape, spacing, labels):
    edges, _ = example(shape, spacing, labels)
    points = edges.band(edges.margins(), 3.0)
    features = edges.features(points)
    at = np.indices(shape).reshape(len(shape), -1)[::-1, points].T * np.array(spacing[::-1])
    assert np.allclose(features[:, : len(shape)], at, rtol=1e-6)
    assert np.array_equal(features[:, len(shape) :], edges.channels[points])


@pytest.mark.parametrize("shape, spacing, labels", CASES)
def test_scores_and_assembled_marginals_equal_their_twins(shape, spacing, labels):
    edges, twin = example(shape, spacing, labels)
    random = np.random.default_rng(66_113)
    edges.use[::13] = UNKNOWN
    margins = edges.margins(np.full((max(int(edges.pairs.max()) + 1, 1), 3), 0.6))
    points = random.permutation(edges.labels.size)[: edges.labels.size // 2].astype(np.int32)
    scores = np.empty((labels, len(points)), np.float32)
    flat = margins.reshape(-1)
    edges.native.scores(edges.use, flat, 4.7, 2.2, points, scores, 2)
    expected = twin.scores(edges.use, flat, 4.7, 2.2)
    assert np.allclose(scores, expected[:, points], rtol=0, atol=2e-6)  # float32, numbers up to 4.7

    marginals, out = random.uniform(size=(labels, len(points))).astype(np.float32), np.empty((labels, flat.size), "f4")
    edges.native.assemble(flat, points, marginals, 0.9, out, 2)
    assert np.allclose(out, twin.assembled(flat, points, marginals, 0.9), rtol=0, atol=1e-7)
    assert np.array_equal(out[:, points], marginals)


@pytest.mark.parametrize("shape", [(90, 130), (6, 50, 40)])
def test_nothing_depends_on_the_number_of_threads(shape):
    results = []
    for threads in (1, 2, 3):
        edges, _ = example(shape, (1.0,) * len(shape), 4, threads=threads)
        margins = edges.margins(np.arange(3.0 * (edges.pairs.max() + 1)).reshape(-1, 3) / 7)
        points = edges.band(margins, 3.0)
        scores = np.empty((4, len(points)), np.float32)
        edges.native.scores(edges.use, margins.reshape(-1), 4.0, 2.0, points, scores, threads)
        profiles = profile_of(edges, 1.0, (int(edges.pairs.max()) + 1, 16, 48))
        results.append([margins, points, scores, *profiles])
    for other in results[1:]:
        for first, second in zip(results[0], other, strict=True):
            assert np.array_equal(first, second)  # bit for bit


@pytest.mark.parametrize(
    "shape, spacing", [((18, 23), (1.0, 1.0)), ((15, 20), (2.0, 0.7)), ((5, 8, 9), (3.0, 1.0, 1.0))]
)
def test_unknown_and_ignored_pixels_get_the_nearest_known_label(shape, spacing):
    random = np.random.default_rng(5051)
    mask, use = mask_of(shape, 3, seed=8807), random.choice([KNOWN, UNKNOWN, IGNORED], shape, p=[0.2, 0.6, 0.2])
    edges = MaskEdges(mask, use.astype(np.uint8), np.zeros((mask.size, 1), np.uint8), spacing, 2, num_labels=3)
    filled, known = edges.labels.reshape(-1), (use == KNOWN).reshape(-1)
    assert not edges.all_known and np.array_equal(filled[known], mask.reshape(-1)[known])
    at = np.indices(shape).reshape(len(shape), -1).T * np.array(spacing)
    squared = ((at[:, None] - at[None, known]) ** 2).sum(axis=2)
    for pixel in np.flatnonzero(~known):
        near = squared[pixel] <= squared[pixel].min() * (1 + 1e-6)  # one of those that are equally near
        assert filled[pixel] in mask.reshape(-1)[known][near]


def test_parts_and_other_masks_of_an_image_keep_its_unit_and_labels():
    mask = np.zeros((1200, 40), np.int32)
    mask[300:700, 10:31] = 2
    channels = np.random.default_rng(12_007).integers(0, 256, (mask.size, 3)).astype(np.uint8)
    edges = MaskEdges(mask, np.full(mask.shape, KNOWN, np.uint8), channels, (0.5, 0.5), 1, num_labels=6)
    assert edges.unit == pytest.approx(0.5 * np.hypot(1200, 40) / 625)
    part, other = edges.every(7), edges.with_labels(np.zeros_like(mask))
    for each in (part, other):
        assert each.unit == edges.unit and each.num_labels == 6 and each.all_known
    assert part.shape == (172, 6) and part.spacing == (3.5, 3.5) and other.shape == mask.shape
    assert np.array_equal(part.labels[0], mask[::7, ::7])
    assert np.array_equal(part.channels, channels.reshape(1200, 40, 3)[::7, ::7].reshape(-1, 3))
    assert part.pairs[0, 2] == 0, "a part has the edges of the whole"
    assert np.isinf(other.margins()).all() and other.profiles == []
