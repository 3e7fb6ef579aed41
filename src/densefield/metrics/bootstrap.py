"""Confidence intervals of metrics over images, and two methods compared on the same images.

By hand, not by scipy.stats.bootstrap: resamples are sums of count matrices, which one matrix product per block gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError, InputTypeError
from densefield.metrics.counts import Counts
from densefield.metrics.metrics import LOWER_IS_BETTER, Metric, SegmentationResult, checked_metric, mean_without_nan

Array = npt.NDArray[np.float64]
Value = float | Array  # an array for metrics such as "iou" that give one

_BLOCK = 2**22  # numbers in a block of resamples


@dataclass(frozen=True)
class Interval:
    """The `value` of a metric over all images, and its confidence interval from `low` to `high`."""

    value: Value
    low: Value
    high: Value


@dataclass(frozen=True)
class Comparison:
    """The values `a` and `b` of two methods on the same images.

    The confidence interval of the `difference` a - b reaches from `low` to `high`; `wins` is the fraction of resamples
    in which a is better, ties counting half.
    """

    a: Value
    b: Value
    difference: Value
    low: Value
    high: Value
    wins: Value


def bootstrap_interval(
    result: SegmentationResult,
    metric: str | Metric = "mean_iou",
    *,
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """The bootstrap confidence interval of a metric: images are resampled with replacement.

    Parameters
    ----------
    result
        The result of two images or more.
    metric
        The name of a metric of SegmentationResult, or a function that takes Counts (S, …) and gives an array (S, …). A
        label that is absent from a resample is left out of its means.
    samples
        Number of resamples.
    level
        The fraction of resamples inside the interval.
    seed
        Random seed.

    Examples
    --------
    >>> import torch
    >>> from densefield.metrics import SegmentationMetrics
    >>> metrics = SegmentationMetrics(num_classes=2)
    >>> truth = torch.zeros(8, 1, 10, dtype=torch.int64)
    >>> metrics.update((torch.arange(8)[:, None, None] > torch.arange(10)).long(), truth)  # 0 to 7 of 10 are wrong
    >>> bootstrap_interval(metrics.compute(), "pixel_accuracy")
    Interval(value=0.65, low=0.5, high=0.8)
    """
    chosen, images = checked_metric(metric), _checked_result(result).per_image
    _check_options(samples, level)
    values = np.concatenate([_measured(chosen, images.resampled(times)) for times in _resamples(images, samples, seed)])
    low, high = _quantiles(values, level)
    return Interval(_value(chosen(images.total())), low, high)


def compare_methods(
    a: SegmentationResult,
    b: SegmentationResult,
    metric: str | Metric = "mean_iou",
    *,
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """The paired difference of two methods on the same images; both are evaluated on the same resamples.

    Parameters
    ----------
    a, b
        The results of the methods. Images are paired by name, or by order if not all have names.
    metric
        As in `bootstrap_interval`. Higher is better, except for "negative_log_likelihood" and "calibration_error".
    samples, level, seed
        As in `bootstrap_interval`.

    Examples
    --------
    >>> import torch
    >>> from densefield.metrics import SegmentationMetrics
    >>> truth = torch.zeros(8, 1, 10, dtype=torch.int64)
    >>> wrong = torch.arange(8)[:, None, None] > torch.arange(10)  # 0 to 7 of 10
    >>> a, b = SegmentationMetrics(num_classes=2), SegmentationMetrics(num_classes=2)
    >>> a.update(wrong.long(), truth)
    >>> b.update((wrong | (torch.arange(10) == 9)).long(), truth)  # one more wrong in each image
    >>> comparison = compare_methods(a.compute(), b.compute(), "pixel_accuracy")
    >>> round(comparison.difference, 4), round(comparison.low, 4), round(comparison.high, 4), comparison.wins
    (0.1, 0.1, 0.1, 1.0)
    """
    chosen = checked_metric(metric)
    _check_options(samples, level)
    first, second = _paired(_checked_result(a), _checked_result(b))
    differences = np.concatenate(
        [
            _difference(_measured(chosen, first.resampled(times)), _measured(chosen, second.resampled(times)))
            for times in _resamples(first, samples, seed)
        ]
    )
    low, high = _quantiles(differences, level)
    better = -differences if chosen in LOWER_IS_BETTER else differences
    wins = np.where(np.isnan(better), np.nan, (better > 0) + 0.5 * (better == 0))
    value_a, value_b = chosen(first.total()), chosen(second.total())
    difference = _value(_difference(value_a, value_b))
    return Comparison(
        _value(value_a), _value(value_b), difference, low, high, _value(mean_without_nan(np.moveaxis(wins, 0, -1)))
    )


def _resamples(images: Counts, samples: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    """How often each image is taken in each resample, in blocks (S, N) of limited size."""
    count = len(images)
    random = np.random.default_rng(seed)
    block = max(1, _BLOCK // max(count, images.overlap[0].size))
    for start in range(0, samples, block):
        size = min(block, samples - start)
        drawn = random.integers(count, size=(size, count)) + count * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * count).reshape(size, count)


def _measured(metric: Metric, counts: Counts) -> Array:
    values = np.asarray(metric(counts), np.float64)
    if values.shape[:1] != (len(counts),):
        raise InputError(
            f"the metric gives an array of shape {values.shape} for {len(counts)} resamples, expected one entry for "
            "each. Sum over the last axes of Counts only, such as axis=(-2, -1)."
        )
    return values


def _quantiles(values: Array, level: float) -> tuple[Value, Value]:
    """The ends of the interval that holds a fraction `level` of the values, rounded outwards to values that occur.

    NaN is left out.
    """
    ordered = np.sort(values, axis=0)  # NaN last
    last = np.maximum((~np.isnan(values)).sum(axis=0, keepdims=True) - 1, 0)
    low = np.floor((1 - level) / 2 * last).astype(np.int64)
    ends = [np.take_along_axis(ordered, place, axis=0)[0] for place in (low, last - low)]
    return _value(ends[0]), _value(ends[1])


def _difference(a: Array, b: Array) -> Array:
    """a - b; NaN where both are infinite."""
    with np.errstate(invalid="ignore"):
        return a - b


def _paired(a: SegmentationResult, b: SegmentationResult) -> tuple[Counts, Counts]:
    """Counts of the same images in the same order, that of a."""
    if a.confusion.shape != b.confusion.shape:
        raise InputError(f"a has {len(a.confusion)} classes and b {len(b.confusion)}, expected equal numbers.")
    if a.images != b.images:
        raise InputError(f"a has {a.images} images and b {b.images}, expected the same images.")
    first, second = a.per_image, b.per_image
    if None not in (*a.names, *b.names):
        places = {name: place for place, name in enumerate(b.names)}
        missing = [name for name in a.names if name not in places]
        if missing:
            raise InputError(f"{len(missing)} of {a.images} images of a are not in b, expected the same images.")
        second = second.taken([places[name] for name in a.names])
    others = (first.truth != second.truth).any(axis=(1, 2))
    if others.any():
        raise InputError(
            f"{int(others.sum())} of {len(others)} images have other true labels in a than in b, expected the same "
            "images at the same size, in the same order or with names."
        )
    return first, second


def _checked_result(result: object) -> SegmentationResult:
    if not isinstance(result, SegmentationResult):
        raise InputTypeError(
            f"got an object of type {type(result).__name__}, expected a SegmentationResult: the result of "
            "SegmentationMetrics.compute()."
        )
    if result.images < 2:
        raise InputError(f"there is {result.images} image, and a confidence interval needs 2 or more.")
    return result


def _check_options(samples: object, level: float) -> None:
    if isinstance(samples, bool) or not isinstance(samples, SupportsIndex) or samples.__index__() < 1:
        raise InputError(f"samples is {samples!r}, expected an integer, 1 or more.")
    if not 0 < level < 1:
        raise InputError(f"level is {level!r}, expected a fraction between 0 and 1, such as 0.95.")


def _value(value: npt.NDArray[Any]) -> Value:
    """A float for arrays without axes."""
    return float(value) if np.ndim(value) == 0 else value
