"""Histograms of the colours of each label."""

from __future__ import annotations

import numpy as np
import pytest

from densefield.refinement.colour_model import LEAST_PIXELS, LEVELS, UNSEEN, ColourModel, colour_model
from densefield.refinement.mask_edges import IGNORED, KNOWN, UNKNOWN, MaskEdges
from tests.support import mask_edges_reference as reference

SHAPE = (30, 37)
RANDOM = np.random.default_rng(47_501)
MASK = (np.indices(SHAPE)[1] // 13).astype(np.int32)  # three stripes
USE = RANDOM.choice([KNOWN, UNKNOWN, IGNORED], SHAPE, p=[0.9, 0.05, 0.05]).astype(np.uint8)


def edges_of(channels: np.ndarray, mask: np.ndarray = MASK, use: np.ndarray | None = None) -> MaskEdges:
    known = np.full(mask.shape, KNOWN, np.uint8) if use is None else use
    return MaskEdges(mask, known, channels, (1.0, 1.0), 2, num_labels=int(mask.max()) + 1)


def colours(channels: int, low: int = 0, high: int = 256, mask: np.ndarray = MASK) -> np.ndarray:
    """Random colours, darker for the first label than for the others."""
    values = np.random.default_rng(9173 + channels).integers(low, high, (mask.size, channels))
    return np.where(mask.reshape(-1, 1) == 0, values // 2, values).astype(np.uint8)


def model_of(edges: MaskEdges, core: float = 2.0, weight: float = 1.0) -> ColourModel:
    return colour_model(edges, edges.margins(), core, weight)


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("core", [-np.inf, 0.5, 3.0])
def test_counts_equal_their_twin(channels, dtype, core):
    values = RANDOM.integers(0, 256, (MASK.size, channels)).astype(dtype)
    edges, levels = edges_of(values, use=USE), 7
    low, scale = [20.0] * channels, [levels / 230] * channels
    margins, counts = edges.margins().reshape(-1), np.full((3, levels**channels), -1, np.int64)
    edges.native.count_colours(values, edges.use, low, scale, levels, margins, core, counts, 3)
    nearest = np.full(MASK.size, -1)
    twin = reference.Mask(edges.labels, (1, 1, 1), 3, nearest, edges.pairs)
    assert np.array_equal(counts, twin.counts(values, edges.use, low, np.float32(scale), levels, margins, core))
    assert counts.sum() == ((edges.use == KNOWN) & (margins >= core)).sum() > 100


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 9])
def test_likelihoods_sum_to_one_before_they_are_centred(channels):
    model = model_of(edges_of(colours(channels)))
    used = min(channels, 3)
    assert model.channels.shape == (MASK.size, used) and model.levels == LEVELS[used]
    assert model.log_likelihoods.shape == (3, LEVELS[used] ** used)
    assert np.abs(model.log_likelihoods.mean(axis=0)).max() < 1e-5
    histogram = expected_histogram(model, edges_of(colours(channels)), core=2.0)
    assert histogram.sum(axis=1) == pytest.approx(1, abs=1e-6) and (histogram > 0).all()
    logs = np.log(histogram)
    assert np.allclose(model.log_likelihoods, logs - logs.mean(axis=0), atol=2e-4)  # smoothed in float32, small bins


def expected_histogram(model: ColourModel, edges: MaskEdges, core: float) -> np.ndarray:
    """Counts, smoothed twice by [1, 2, 1]/4 along each channel, and the share of unseen colours."""
    count, levels = model.channels.shape[1], model.levels
    bins = reference.colour_bins(model.channels, model.low, np.float32(model.scale), levels)
    inside = edges.margins().reshape(-1) >= core
    counts = np.zeros((edges.num_labels, levels**count))
    np.add.at(counts, (edges.labels.reshape(-1)[inside], bins[inside]), 1.0)
    blur = (np.eye(levels) * 2 + np.eye(levels, k=1) + np.eye(levels, k=-1)) / 4
    blur[0, 0] = blur[-1, -1] = 0.75  # the border repeats
    smooth = counts.reshape(-1, *(levels,) * count)
    for axis in range(1, count + 1):
        smooth = np.moveaxis(np.tensordot(blur @ blur, smooth, axes=(1, axis)), 0, axis)
    total = counts.sum(axis=1, keepdims=True)
    histogram = smooth.reshape(counts.shape) + UNSEEN * total / counts.shape[1]
    return histogram / histogram.sum(axis=1, keepdims=True)


def test_the_weight_is_a_factor():
    edges = edges_of(colours(3))
    one, half = model_of(edges), model_of(edges, weight=0.5)
    assert np.array_equal(half.log_likelihoods, one.log_likelihoods / 2)
    assert not model_of(edges, weight=0.0).log_likelihoods.any()


def test_labels_with_few_pixels_inside_use_all_their_pixels():
    mask = np.zeros(SHAPE, np.int32)
    mask[10:14, 12:17] = 1  # 20 pixels, the innermost 1.5 from the edge
    values = np.where(mask.reshape(-1, 1) == 1, 200, 40).astype(np.uint8)
    edges = edges_of(values, mask)
    assert (edges.margins()[mask == 1] >= 1.5).sum() < LEAST_PIXELS <= (mask == 1).sum()
    model = model_of(edges, core=1.5)
    bright, dark = int(200 / 4), int(40 / 4)  # 64 bins of 4 levels
    assert model.log_likelihoods[1, bright] > 1 and model.log_likelihoods[0, dark] > 1
    everywhere = model_of(edges, core=-np.inf).log_likelihoods
    alone = np.diff(model.log_likelihoods, axis=0) - np.diff(everywhere, axis=0)
    assert np.abs(alone).max() < 0.05  # only the first label has other pixels now, of the same colour


def test_a_label_without_pixels_has_all_colours():
    edges = MaskEdges(MASK, np.full(SHAPE, KNOWN, np.uint8), colours(3), (1.0, 1.0), 1, num_labels=4)
    model = model_of(edges)
    assert np.isfinite(model.log_likelihoods).all() and len(model.log_likelihoods) == 4


def test_float_images_of_0_to_255_have_the_same_colours():
    values = colours(3)
    assert np.array_equal(
        model_of(edges_of(values.astype(np.float32))).log_likelihoods, model_of(edges_of(values)).log_likelihoods
    )


@pytest.mark.parametrize("shift, factor", [(-400.0, 1.0), (3000.0, 7.0)])
def test_colours_outside_the_range_are_binned_from_the_lowest_to_the_highest(shift, factor):
    values = colours(2).astype(np.float32) * factor + shift
    model = model_of(edges_of(values))
    assert model.low == values.min(axis=0).tolist()
    assert np.isfinite(model.log_likelihoods).all() and np.abs(model.log_likelihoods).max() > 0.5
    bins = reference.colour_bins(values, model.low, model.scale, model.levels)
    assert bins.min() >= 0 and len(np.unique(bins)) > 300


@pytest.mark.parametrize("constant", [[0], [0, 2], [0, 1, 2]])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_constant_channels_have_no_effect(constant, dtype):
    values = colours(3).astype(dtype)
    values[:, constant] = 77
    model = model_of(edges_of(values))
    assert np.isfinite(model.log_likelihoods).all()
    bins = reference.colour_bins(values, model.low, model.scale, model.levels)
    expected = 0.0 if len(constant) == 3 else 0.1
    assert np.ptp(model.log_likelihoods[:, bins], axis=0).max() >= expected
    if len(constant) == 3:  # all labels have the same colour: all likelihoods are equal
        assert np.abs(model.log_likelihoods).max() < 1e-3


def test_a_constant_image_far_outside_the_range_says_nothing():
    model = model_of(edges_of(np.full((MASK.size, 3), -5e6, np.float32)))
    assert np.abs(model.log_likelihoods).max() < 1e-3


def test_scores_use_the_bins_of_the_model():
    edges = edges_of(colours(5).astype(np.float32), use=USE)
    model, margins = model_of(edges, weight=0.3), edges.margins()
    points = edges.band(margins, np.inf)
    scores = np.empty((3, len(points)), np.float32)
    model.write_scores(edges, margins, points, 0.0, 1.0, scores)
    bins = reference.colour_bins(model.channels, np.float32(model.low), np.float32(model.scale), model.levels)
    agree = np.isclose(scores, model.log_likelihoods[:, bins[points]], atol=1e-6).all(axis=0)
    assert agree.mean() > 0.999  # colours at the very edge of a bin may be rounded into the next
