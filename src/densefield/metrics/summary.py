"""Results in plain numbers, for JSON and for tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from densefield.errors import InputError
from densefield.metrics.bootstrap import bootstrap_interval, compare_methods
from densefield.metrics.measures import LOWER_IS_BETTER, MEASURES, Measure, trimap_iou
from densefield.metrics.result import SegmentationResult
from densefield.metrics.tally import Tally

Numbers = dict[str, Any]

TRIMAP = 3  # pixels: the band that single numbers are of


def trimap_iou_3px(tally: Tally) -> Any:
    """The mean intersection over union within 3 pixels of the true boundaries."""
    return trimap_iou(tally)[..., TRIMAP - 1]


# The measures that methods are compared by, and what people call them.
HEADLINES: dict[str, Measure] = {
    "mean_iou": MEASURES["mean_iou"],
    "pixel_accuracy": MEASURES["pixel_accuracy"],
    "trimap_iou_3px": trimap_iou_3px,
    "negative_log_likelihood": MEASURES["negative_log_likelihood"],
    "calibration_error": MEASURES["calibration_error"],
}
TITLES = {
    "mean_iou": "mean IoU",
    "pixel_accuracy": "pixel accuracy",
    "trimap_iou_3px": "trimap IoU, 3 px",
    "negative_log_likelihood": "NLL",
    "calibration_error": "calibration error",
}


def lower_is_better(name: str) -> bool:
    """Whether less of this measure is more.

    >>> lower_is_better("negative_log_likelihood"), lower_is_better("mean_iou")
    (True, False)
    """
    return HEADLINES[name] in LOWER_IS_BETTER


def summarise(result: SegmentationResult) -> Numbers:
    """Every measure of a result; the headlines and the IoU of each label with an interval, where there are images.

    What is NaN or infinite becomes None, which JSON knows.
    """
    reliability = result.reliability
    return {
        "images": result.images,
        "pixels": result.pixels,
        **{name: _with_interval(result, measure) for name, measure in HEADLINES.items()},
        "iou": _with_interval(result, "iou"),
        "frequency_weighted_iou": _plain(result.frequency_weighted_iou),
        "trimap_iou": _plain(result.trimap_iou),
        "trimap_accuracy": _plain(result.trimap_accuracy),
        "reliability": {name: _plain(value) for name, value in reliability._asdict().items()},
        "confusion": result.confusion.tolist(),
    }


def summarise_comparison(a: SegmentationResult, b: SegmentationResult) -> Numbers:
    """a against b on the same images, by every headline: both values, a - b with its interval, how often a wins."""
    if a.images < 2:
        raise InputError(f"there is {a.images} image, and comparing methods needs 2 or more.")
    compared = {name: compare_methods(a, b, measure) for name, measure in HEADLINES.items()}
    return {
        name: {part: _plain(getattr(each, part)) for part in ("a", "b", "difference", "low", "high", "wins")}
        for name, each in compared.items()
    }


def _with_interval(result: SegmentationResult, measure: str | Callable[[Tally], Any]) -> Numbers:
    if result.images < 2:  # one image does not vary
        chosen = MEASURES[measure] if isinstance(measure, str) else measure
        value = _plain(chosen(result.per_image.total()))
        return {"value": value, "low": value, "high": value}
    interval = bootstrap_interval(result, measure)
    return {part: _plain(getattr(interval, part)) for part in ("value", "low", "high")}


def _plain(value: Any) -> Any:
    """Numbers and lists of numbers.

    >>> import numpy as np
    >>> _plain(np.array([0.5, np.nan])), _plain(np.float64(2.0))
    ([0.5, None], 2.0)
    """
    if np.ndim(value):
        return [_plain(item) for item in value]
    number = float(value)
    return number if math.isfinite(number) else None
