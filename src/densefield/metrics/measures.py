"""Measures of counts: each takes a Tally (…) and gives a number for each entry of its leading axes.

A label that is neither true nor predicted anywhere has no intersection over union: it is NaN, and left out of means.
So is whatever has no pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError
from densefield.metrics.boundaries import BANDS
from densefield.metrics.tally import Tally

Array = npt.NDArray[np.float64]
Measure = Callable[[Tally], Array]


def iou(tally: Tally) -> Array:
    """Intersection over union of each label, (…, L)."""
    return _iou(tally.overlap.sum(axis=-2), tally.truth.sum(axis=-2), tally.predicted.sum(axis=-2))


def mean_iou(tally: Tally) -> Array:
    """The mean of the intersections over unions of the labels that are there."""
    return _mean(iou(tally))


def frequency_weighted_iou(tally: Tally) -> Array:
    """Intersections over unions, weighted by the share of pixels that truly have the label."""
    weights = tally.truth.sum(axis=-2)
    each = np.where(weights > 0, iou(tally), 0.0)
    return _ratio((weights * each).sum(axis=-1), weights.sum(axis=-1))


def pixel_accuracy(tally: Tally) -> Array:
    """The share of pixels whose label is right."""
    return _ratio(tally.overlap.sum(axis=(-2, -1)), tally.truth.sum(axis=(-2, -1)))


def trimap_iou(tally: Tally) -> Array:
    """The mean intersection over union within 1, 2, … 20 pixels of the true boundaries, (…, 20)."""
    return _mean(_iou(_bands(tally.overlap), _bands(tally.truth), _bands(tally.predicted)))


def trimap_accuracy(tally: Tally) -> Array:
    """The share of right pixels within 1, 2, … 20 pixels of the true boundaries, (…, 20)."""
    return _ratio(_bands(tally.overlap).sum(axis=-1), _bands(tally.truth).sum(axis=-1))


def negative_log_likelihood(tally: Tally) -> Array:
    """-log q_i(y_i), the mean over pixels (paper, Eq. 6); NaN where only labels were given."""
    return _ratio(tally.log_loss, tally.bins[..., 0].sum(axis=-1))


def calibration_error(tally: Tally) -> Array:
    """How far confidence is from accuracy, the mean over pixels in 15 bins of confidence; NaN without marginals."""
    gap = np.abs(tally.bins[..., 2] - tally.bins[..., 1]).sum(axis=-1)
    return _ratio(gap, tally.bins[..., 0].sum(axis=-1))


MEASURES: dict[str, Measure] = {
    measure.__name__: measure
    for measure in (
        iou,
        mean_iou,
        frequency_weighted_iou,
        pixel_accuracy,
        trimap_iou,
        trimap_accuracy,
        negative_log_likelihood,
        calibration_error,
    )
}
LOWER_IS_BETTER = (negative_log_likelihood, calibration_error)


def checked_measure(measure: object) -> Measure:
    """The measure of that name, or the function itself."""
    if callable(measure):
        return measure
    if not isinstance(measure, str) or measure not in MEASURES:
        raise InputError(f"measure is {measure!r}, expected one of {', '.join(MEASURES)}, or a function of a Tally.")
    return MEASURES[measure]


def _bands(rings: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Within r pixels, for r = 1…20, from counts at distance 1, 2, … and beyond: (…, 20, L)."""
    return np.cumsum(rings[..., :BANDS, :], axis=-2)


def _iou(overlap: npt.NDArray[Any], truth: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> Array:
    return _ratio(overlap, truth + predicted - overlap)


def _mean(values: Array) -> Array:
    """Over the last axis, of those that are not NaN; NaN if there is none."""
    there = ~np.isnan(values)
    return _ratio(np.where(there, values, 0.0).sum(axis=-1), there.sum(axis=-1))


def _ratio(above: npt.NDArray[Any], below: npt.NDArray[Any]) -> Array:
    """NaN where there is nothing below."""
    whole = np.asarray(below, np.float64)
    ratio: Array = np.divide(above, whole, out=np.full(whole.shape, np.nan), where=whole > 0)
    return ratio
