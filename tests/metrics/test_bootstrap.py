"""Intervals and comparisons equal explicit resampling and known distributions, and reject invalid input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield import InputError, InputTypeError
from densefield.metrics import (
    METRICS,
    Counts,
    SegmentationResult,
    bootstrap,
    bootstrap_interval,
    compare_methods,
    metrics,
)
from tests.support.segmentations import random_log_marginals, random_truth

CLASSES = 4


def result_of(overlap: Any, truth: Any, predicted: Any, log_loss: Any = 0.0, names: Any = None) -> SegmentationResult:
    """A result of counts (N, L), all in the first ring."""
    shape = (len(truth), 21, np.shape(truth)[1])
    counts = [np.zeros(shape) for _ in range(3)]
    for whole, given in zip(counts, (overlap, truth, predicted), strict=True):
        whole[:, 0] = given
    bins = np.zeros((len(truth), 15, 3))
    bins[:, 7, 0] = np.sum(truth, axis=1)
    losses = np.broadcast_to(log_loss, len(truth)).astype(float)
    names = (None,) * len(truth) if names is None else tuple(names)
    return SegmentationResult(Counts(*counts, losses, bins), np.zeros(shape[1:], int)[: shape[2]], names)


def right_or_wrong(right: Any, names: Any = None) -> SegmentationResult:
    """Images of one pixel of label 0."""
    right = np.asarray(right)[:, None]
    return result_of(np.hstack([right, 0 * right]), [[1, 0]] * len(right), np.hstack([right, 1 - right]), names=names)


@pytest.fixture(scope="module")
def results() -> tuple[SegmentationResult, SegmentationResult]:
    """Two methods on nine images; label 3 is in only one of them."""
    torch = pytest.importorskip("torch")
    from densefield.metrics import SegmentationMetrics

    both = SegmentationMetrics(CLASSES), SegmentationMetrics(CLASSES)
    for n in range(9):
        there = [0, 3] if n == 4 else [0, 1, 2]
        truth = random_truth(14, 15 + n, there, seed=2087 + n)
        for method, counting in enumerate(both):
            log_q = random_log_marginals(truth, CLASSES, seed=100 * method + n, labels=there)
            counting.update(torch.tensor(log_q)[None], torch.tensor(truth)[None], [str(n)])
    return both[0].compute(), both[1].compute()


def measured_in_a_loop(result: SegmentationResult, name: str, samples: int, seed: int) -> Any:
    """The metric of every resample, computed image by image."""
    values = []
    for times in bootstrap._resamples(result.per_image, samples, seed):
        for row in times:
            drawn = [n for n in range(result.images) for _ in range(row[n])]
            assert len(drawn) == result.images
            values.append(METRICS[name](result.per_image.taken(np.array(drawn)).total()))
    return np.array(values)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_an_interval_equals_explicit_resampling(results, name):
    values = measured_in_a_loop(results[0], name, samples=200, seed=1733)
    interval = bootstrap_interval(results[0], name, samples=200, seed=1733, level=0.9)
    ordered = np.sort(values, axis=0).reshape(200, -1)
    for place, (low, high) in enumerate(zip(np.ravel(interval.low), np.ravel(interval.high), strict=True)):
        column = ordered[~np.isnan(ordered[:, place]), place]
        inside = ((column >= low - 1e-12) & (column <= high + 1e-12)).mean()
        # The requested number, up to one more value at each end, and ties.
        assert inside >= 0.9
        assert ((column > low + 1e-12) & (column < high - 1e-12)).mean() <= 0.9
        # Logarithms are summed in another order.
        assert np.isclose(column, low, rtol=1e-12, atol=0).any() and np.isclose(column, high, rtol=1e-12, atol=0).any()
    assert np.ravel(interval.value) == pytest.approx(np.ravel(getattr(results[0], name)), rel=1e-15)


@pytest.mark.parametrize("name", ["mean_iou", "calibration_error", "trimap_accuracy"])
def test_a_comparison_equals_explicit_resampling(results, name):
    a, b = (measured_in_a_loop(each, name, samples=150, seed=919) for each in results)
    # Both use the same resamples.
    comparison = compare_methods(*results, name, samples=150, seed=919)
    better = b > a if name == "calibration_error" else a > b
    assert comparison.wins == pytest.approx((better + 0.5 * (a == b)).mean(axis=0))
    assert comparison.difference == pytest.approx(getattr(results[0], name) - getattr(results[1], name))
    assert np.isclose(a - b, comparison.low, rtol=0, atol=1e-12).any(axis=0).all()
    assert np.isclose(a - b, comparison.high, rtol=0, atol=1e-12).any(axis=0).all()


def test_the_interval_of_binary_outcomes_is_binomial():
    binomial = pytest.importorskip("scipy.stats").binom(60, 42 / 60)
    interval = bootstrap_interval(right_or_wrong([1] * 42 + [0] * 18), "pixel_accuracy", samples=20000, seed=4513)
    assert interval.value == 0.7
    # 500 ± 22 of 20,000 resamples are beyond each end: 0.022 to 0.028 is within three standard deviations.
    assert binomial.cdf(round(60 * interval.low) - 1) <= 0.028 and binomial.cdf(round(60 * interval.low)) >= 0.022
    assert binomial.sf(round(60 * interval.high)) <= 0.028 and binomial.sf(round(60 * interval.high) - 1) >= 0.022


def test_pairing_makes_a_small_but_consistent_difference_significant():
    random = np.random.default_rng(3559)
    truth = np.full((30, 1), 1000)
    worse = random.integers(100, 900, (30, 1))
    a, b = (result_of(each, truth, truth) for each in (worse + random.integers(5, 15, (30, 1)), worse))
    comparison = compare_methods(a, b, "pixel_accuracy")
    assert 0.005 <= comparison.low <= comparison.difference <= comparison.high <= 0.015
    assert comparison.wins == 1
    alone = bootstrap_interval(b, "pixel_accuracy")
    assert alone.high - alone.low > 0.1  # each interval alone is wide


def test_lower_is_better_for_log_loss():
    a, b = (result_of([[5, 0]] * 3, [[5, 0]] * 3, [[5, 0]] * 3, log_loss) for log_loss in (1.0, 2.0))
    assert compare_methods(a, b, "negative_log_likelihood").wins == 1
    assert compare_methods(a, b, metrics.negative_log_likelihood).wins == 1
    assert compare_methods(b, a, "negative_log_likelihood").wins == 0


def test_equal_methods_win_half_the_time():
    comparison = compare_methods(right_or_wrong([1, 0, 1]), right_or_wrong([1, 0, 1]), "pixel_accuracy")
    assert (comparison.low, comparison.difference, comparison.high, comparison.wins) == (0, 0, 0, 0.5)


def test_images_are_paired_by_name():
    random = np.random.default_rng(877)
    right, order = random.integers(2, size=40), random.permutation(40)
    names = np.array([str(n) for n in range(40)])
    a, shuffled = right_or_wrong(right, names), right_or_wrong(right[order], names[order])
    by_name = compare_methods(a, shuffled, "pixel_accuracy")
    assert (by_name.low, by_name.high) == (0, 0)
    by_order = compare_methods(a, right_or_wrong(right[order]), "pixel_accuracy")  # the second has no names
    assert by_order.high > 0


def test_a_label_is_excluded_from_resamples_without_it(results):
    interval = bootstrap_interval(results[0], "iou", samples=300)
    assert np.isfinite(interval.low).all()  # label 3 too, which is absent from a third of the resamples
    with_absent = result_of([[3, 0, 0]] * 4, [[3, 0, 0]] * 4, [[3, 0, 0]] * 4)
    interval = bootstrap_interval(with_absent, "iou")
    assert interval.low.tolist() == pytest.approx([1, np.nan, np.nan], nan_ok=True)
    assert bootstrap_interval(with_absent, "mean_iou") == bootstrap.Interval(1.0, 1.0, 1.0)


def test_an_absent_class_is_nan_without_a_warning():
    nothing = result_of([[0, 0]] * 3, [[0, 0]] * 3, [[0, 0]] * 3)
    interval, comparison = bootstrap_interval(nothing), compare_methods(nothing, nothing)
    assert np.isnan([interval.value, interval.low, interval.high, comparison.difference, comparison.wins]).all()


def test_an_infinite_log_loss_affects_only_resamples_with_its_image():
    counts = [[4, 0]] * 3
    result = result_of(counts, counts, counts, [1.0, 2.0, np.inf])
    interval = bootstrap_interval(result, "negative_log_likelihood")
    assert (interval.value, interval.low, interval.high) == (np.inf, 0.25, np.inf)
    assert np.isnan(compare_methods(result, result, "negative_log_likelihood").difference)


def test_a_metric_may_be_a_function():
    result = right_or_wrong([1, 0, 1, 1])
    wrong = bootstrap_interval(result, lambda counts: 1 - metrics.pixel_accuracy(counts), seed=61)
    right = bootstrap_interval(result, "pixel_accuracy", seed=61)
    assert (wrong.value, wrong.low, wrong.high) == (1 - right.value, 1 - right.high, 1 - right.low)


def test_a_seed_fixes_the_result_and_blocks_do_not_matter(results, monkeypatch):
    first = bootstrap_interval(results[0], samples=70, seed=5)
    assert bootstrap_interval(results[0], samples=70, seed=5) == first
    assert bootstrap_interval(results[0], samples=70, seed=6) != first
    monkeypatch.setattr(bootstrap, "_BLOCK", 1)  # one resample at a time
    assert bootstrap_interval(results[0], samples=70, seed=5) == first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "accuracy"}, "metric is 'accuracy', expected one of iou, mean_iou"),
        ({"metric": 3}, "metric is 3"),
        ({"metric": lambda counts: counts.truth.sum()}, r"shape \(\) for 1000 resamples"),
        ({"samples": 0}, "samples is 0, expected an integer"),
        ({"samples": 10.0}, "samples is 10.0"),
        ({"level": 95}, "level is 95, expected a fraction between 0 and 1"),
        ({"level": 1}, "level is 1"),
    ],
)
def test_wrong_options_are_an_error(options, message):
    result = right_or_wrong([1, 0, 1])
    with pytest.raises(InputError, match=message):
        bootstrap_interval(result, **options)
    with pytest.raises(InputError, match=message):
        compare_methods(result, result, **options)


def test_one_image_has_no_interval():
    with pytest.raises(InputError, match="there is 1 image"):
        bootstrap_interval(right_or_wrong([1]))


def test_other_types_have_no_interval():
    with pytest.raises(InputTypeError, match=r"got an object of type dict, expected a SegmentationResult.*compute\(\)"):
        bootstrap_interval({})


@pytest.mark.parametrize(
    ("b", "message"),
    [
        (right_or_wrong([1, 0]), "a has 3 images and b 2"),
        (right_or_wrong([1, 0, 1], [7, 8, 9]), "1 of 3 images of a are not in b"),
        (result_of([[1, 0, 0]] * 3, [[1, 0, 0]] * 3, [[1, 0, 0]] * 3), "a has 2 classes and b 3"),
        (result_of([[1, 0]] * 3, [[1, 0], [1, 1], [1, 0]], [[1, 0]] * 3), "1 of 3 images have other true labels"),
    ],
)
def test_other_images_cannot_be_compared(b, message):
    with pytest.raises(InputError, match=message):
        compare_methods(right_or_wrong([1, 0, 1], [6, 7, 8]), b)
