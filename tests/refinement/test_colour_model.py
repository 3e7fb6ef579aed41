"""Mixtures of the colours of each label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield import _core
from densefield.refinement.colour_model import LEAST_PIXELS, MANY_LABELS, ColourModel, colour_model
from tests.support import colour_mixture_reference as reference

RANDOM = np.random.default_rng(47_501)
PIXELS = 1500
LABELS = (np.arange(PIXELS) % 3).astype(np.int32)
LEAST = -20.0


def colours(channels: int, dtype: type = np.uint8) -> np.ndarray:
    """Each label has clusters of its own; the last one is the widest."""
    rng = np.random.default_rng(9173 + channels)
    centres = rng.uniform(30, 220, (3, 4, channels))
    chosen = centres[LABELS, rng.integers(0, 4, PIXELS)]
    values = chosen + rng.normal(0, 1, (PIXELS, channels)) * np.array([3.0, 8.0, 20.0])[LABELS, None]
    return np.clip(values, 0, 255).astype(dtype)


def mixtures(image: np.ndarray, labels: np.ndarray = LABELS, **changes: Any) -> _core.ColourMixtures:
    options = {"num_labels": 3, "low": [0.0] * image.shape[1], "scale": [16 / 256] * image.shape[1], "levels": 16}
    options |= {"components": 4, "iterations": 3, "least_variance": 10.0, "threads": 2}
    return _core.ColourMixtures(image, labels, **(options | changes))


def native_logs(image: np.ndarray, labels: np.ndarray = LABELS, least: float = LEAST, **changes: Any) -> np.ndarray:
    found = mixtures(image, labels, **changes)
    scores = np.zeros((changes.get("num_labels", 3), len(image)), np.float32)
    found.add_log_likelihoods(image, None, least, 1.0, scores, 2)
    return scores


def twin_logs(image: np.ndarray, labels: np.ndarray = LABELS, **changes: Any) -> np.ndarray:
    count = image.shape[1]
    return reference.log_likelihoods(
        image,
        labels,
        changes.get("num_labels", 3),
        changes.get("low", [0.0] * count),
        changes.get("scale", [16 / 256] * count),
        changes.get("levels", 16),
        changes.get("components", 4),
        changes.get("iterations", 3),
        10.0,
        changes.get("least", LEAST),
    )


# Densities are computed in float32, where exponents of up to 20 have errors of 1e-5.
CLOSE = {"rtol": 0, "atol": 1e-4}


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("components, iterations", [(1, 0), (4, 0), (4, 3), (8, 1)])
def test_log_likelihoods_equal_their_twin(channels, dtype, components, iterations):
    image = colours(channels, dtype)
    options = {"components": components, "iterations": iterations}
    found = native_logs(image, **options)
    assert np.allclose(found, twin_logs(image, **options), **CLOSE)
    assert np.abs(found).max() > 2


def test_pixels_without_a_label_do_not_count():
    image, labels = colours(3), LABELS.copy()
    labels[::4] = -1
    found = native_logs(image, labels)
    assert np.allclose(found, twin_logs(image, labels), **CLOSE)
    image[::4] = 255 - image[::4]
    again = native_logs(image, labels)
    assert np.array_equal(np.delete(found, np.s_[::4], axis=1), np.delete(again, np.s_[::4], axis=1))


@pytest.mark.parametrize("levels, low, scale", [(16, -40.0, 16 / 350), (7, 20.0, 7 / 150), (256, 0.0, 1.0)])
def test_bins_of_any_size_equal_their_twin(levels, low, scale):
    image = colours(2, np.float32)
    options = {"levels": levels, "low": [low] * 2, "scale": [scale] * 2}
    assert np.allclose(native_logs(image, **options), twin_logs(image, **options), **CLOSE)


def test_a_label_without_pixels_has_all_colours():
    image = colours(3)
    found = native_logs(image, num_labels=4)
    assert np.allclose(found, twin_logs(image, num_labels=4), **CLOSE)


def test_the_least_likelihood_bounds_the_influence_of_unseen_colours():
    image = colours(3)
    image[:3] = 255
    unbounded, bounded = native_logs(image, least=-1e6), native_logs(image, least=-18.0)
    assert np.ptp(unbounded[:, 0]) > np.ptp(bounded[:, 0])
    assert np.ptp(bounded, axis=0).max() < 18.0 - 5.0  # no density is above exp(-5)


def test_only_the_given_points_are_scored():
    image = colours(3)
    found, everywhere = mixtures(image), native_logs(image)
    points = RANDOM.permutation(PIXELS)[:700].astype(np.int32)
    scores = np.full((3, 700), 5.0, np.float32)
    found.add_log_likelihoods(image, points, LEAST, 0.25, scores, 3)
    assert np.allclose(scores, 5 + 0.25 * everywhere[:, points], rtol=0, atol=2e-6)  # rounding of 5 + x


def test_results_do_not_depend_on_the_number_of_threads():
    image = colours(3)
    one, many = (np.empty((3, 4, 10), np.float32) for _ in range(2))
    mixtures(image, threads=1).gaussians(one)
    mixtures(image, threads=7).gaussians(many)
    assert np.array_equal(one, many)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, -3e38])
def test_any_colours_are_accepted(value):
    image = colours(3, np.float32)
    image[::5, 1] = value
    found = native_logs(image)
    assert np.isfinite(found).all() and np.allclose(found, twin_logs(image), **CLOSE)


def test_equal_colours_say_nothing():
    found = native_logs(np.full((PIXELS, 3), 77, np.uint8))
    assert np.abs(found).max() < 1e-5


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"num_labels": 2}, "labels must be -1 to num_labels - 1"),
        ({"num_labels": 0}, "num_labels must be 1 to 65536"),
        ({"levels": 0}, "levels must be 1 to 256"),
        ({"levels": 257}, "levels must be 1 to 256"),
        ({"components": 0}, "components must be 1 to 64"),
        ({"components": 65}, "components must be 1 to 64"),
        ({"iterations": -1}, "iterations must be 0 to 1000"),
        ({"least_variance": 0.0}, "least_variance must be above 0"),
        ({"least_variance": np.nan}, "least_variance must be above 0"),
        ({"low": [0.0] * 2}, "one bound and one scale per channel"),
        ({"scale": []}, "one bound and one scale per channel"),
        ({"low": [0.0] * 4, "scale": [1.0] * 4}, "at most three channels"),
        ({"low": [0.0] * 2, "scale": [1.0] * 2}, "one channel per bound"),
        ({"labels": LABELS[1:]}, "the same pixels"),
        ({"labels": LABELS - 2}, "labels must be -1"),
        ({"image": np.zeros((PIXELS, 3), np.uint16)}, "uint8 or float32"),
        ({"threads": 0}, "threads"),
    ],
)
def test_invalid_arguments_are_rejected(changes, message):
    with pytest.raises(ValueError, match=message):
        mixtures(**({"image": colours(3)} | changes))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"image": np.zeros((PIXELS, 2), np.uint8)}, "one channel per bound"),
        ({"points": np.arange(1, PIXELS + 1, dtype=np.int32)}, "points must be pixels"),
        ({"points": np.arange(-1, PIXELS - 1, dtype=np.int32)}, "points must be pixels"),
        ({"scores": np.zeros((3, PIXELS - 1), np.float32)}, r"scores must be \(labels, points\)"),
        ({"scores": np.zeros((2, PIXELS), np.float32)}, r"scores must be \(labels, points\)"),
        ({"least": -np.inf}, "least and weight must be finite"),
        ({"weight": np.nan}, "least and weight must be finite"),
        ({"threads": 2000}, "threads"),
    ],
)
def test_invalid_points_and_scores_are_rejected(changes, message):
    found, options = mixtures(colours(3)), {"points": None, "least": LEAST, "weight": 1.0, "threads": 1}
    options |= {"image": colours(3), "scores": np.zeros((3, PIXELS), np.float32)}
    with pytest.raises(ValueError, match=message):
        found.add_log_likelihoods(**(options | changes))
    with pytest.raises(ValueError, match="out must be"):
        found.gaussians(np.empty((3, 4, 9), np.float32))


def scores_of(model: ColourModel, num_labels: int = 3, weight: float = 1.0) -> np.ndarray:
    scores = np.zeros((num_labels, len(model.channels)), np.float32)
    model.add_to(scores, weight)
    return scores


def test_the_weight_is_a_factor():
    model = colour_model(colours(3), LABELS, 3, 2)
    assert np.array_equal(scores_of(model, weight=0.5), scores_of(model) / 2)


def test_labels_with_few_pixels_inside_use_all_their_pixels():
    image, inside = colours(3), np.ones(PIXELS, bool)
    inside[LABELS == 1] = False
    own = np.flatnonzero(LABELS == 1)
    inside[own[: LEAST_PIXELS - 1]] = True
    assert np.array_equal(
        scores_of(colour_model(image, LABELS, 3, 1, inside)), scores_of(colour_model(image, LABELS, 3, 1))
    )
    inside[own[:LEAST_PIXELS]] = True
    few = scores_of(colour_model(image, LABELS, 3, 1, inside))
    assert not np.array_equal(few, scores_of(colour_model(image, LABELS, 3, 1)))


def test_float_images_of_0_to_255_have_the_same_colours():
    image = colours(3)
    expected = scores_of(colour_model(image, LABELS, 3, 1))
    for dtype in (np.float32, np.float64, np.int16):
        assert np.array_equal(scores_of(colour_model(image.astype(dtype), LABELS, 3, 1)), expected)


@pytest.mark.parametrize("shift, factor", [(-400.0, 1.0), (3000.0, 7.0)])
def test_colours_outside_the_range_are_binned_from_the_lowest_to_the_highest(shift, factor):
    image = colours(2).astype(np.float32)
    image = 256 * (image - image.min(axis=0)) / np.ptp(image, axis=0)
    scores = scores_of(colour_model(image * factor + shift, LABELS, 3, 1))
    low, levels = [0.0, 0.0], 32
    expected = twin_logs(
        image, low=low, scale=[levels / 256] * 2, levels=levels, components=8, iterations=4, least=np.log(0.01 / 256**3)
    )
    # Rounding moves colours across the ends of bins, which changes densities by little.
    assert np.abs(scores - expected).max() < 0.3 and np.abs(scores - expected).mean() < 5e-3


@pytest.mark.parametrize("constant", [[0], [0, 2], [0, 1, 2]])
@pytest.mark.parametrize("offset", [0.0, -5e6])
def test_constant_channels_have_no_effect(constant, offset):
    image = colours(3).astype(np.float32)
    image[:, constant] = 77 + offset
    scores = scores_of(colour_model(image, LABELS, 3, 1))
    assert np.isfinite(scores).all()
    if len(constant) == 3:
        assert np.abs(scores).max() < 1e-3
    else:
        assert (scores.argmax(axis=0) == LABELS).mean() > 0.5


def test_more_than_three_channels_are_reduced_to_three():
    image = np.repeat(colours(3), 3, axis=1)
    model = colour_model(image, LABELS, 3, 1)
    assert model.channels.shape == (PIXELS, 3) and model.channels.dtype == np.float32
    three = scores_of(colour_model(colours(3), LABELS, 3, 1))
    assert (scores_of(model).argmax(axis=0) == three.argmax(axis=0)).mean() > 0.95


def test_many_labels_have_coarser_bins():
    count = MANY_LABELS + 1
    labels = (np.arange(PIXELS) % count).astype(np.int32)
    image = (3 * labels[:, None] + np.zeros(3)).astype(np.uint8)
    scores = scores_of(colour_model(image, labels, count, 2), count)
    assert (scores.argmax(axis=0) == labels).mean() > 0.99
