"""Results as plain numbers for JSON and tables, and comparisons in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from densefield.errors import InputError
from densefield.metrics.bootstrap import bootstrap_interval, compare_methods
from densefield.metrics.counts import Counts
from densefield.metrics.metrics import LOWER_IS_BETTER, METRICS, Metric, SegmentationResult, trimap_iou

Numbers = dict[str, Any]

TRIMAP = 3  # pixels: the band of the single trimap number
_NEGLIGIBLE = 5e-5  # a difference that rounds to 0 in every table


def trimap_iou_3px(counts: Counts) -> Any:
    """The mean intersection over union within 3 pixels of the true boundaries."""
    return trimap_iou(counts)[..., TRIMAP - 1]


# The titles of the metrics that methods are compared by, their functions, and fractions, which are shown in percent.
TITLES = {
    "mean_iou": "mean IoU",
    "pixel_accuracy": "pixel accuracy",
    "trimap_iou_3px": "trimap IoU, 3 px",
    "negative_log_likelihood": "NLL",
    "calibration_error": "calibration error",
}
HEADLINES: dict[str, Metric] = {name: METRICS.get(name, trimap_iou_3px) for name in TITLES}
FRACTIONS = ("mean_iou", "pixel_accuracy", "trimap_iou_3px")


def lower_is_better(name: str) -> bool:
    """Whether a lower value of this headline is better.

    >>> lower_is_better("negative_log_likelihood"), lower_is_better("mean_iou")
    (True, False)
    """
    return HEADLINES[name] in LOWER_IS_BETTER


def summarise(result: SegmentationResult) -> Numbers:
    """Every metric of a result; headlines and the IoU of each label with a confidence interval.

    NaN and infinity become None, since JSON has neither.
    """
    return {
        "images": result.images,
        "pixels": result.pixels,
        **{name: _with_interval(result, metric) for name, metric in HEADLINES.items()},
        "iou": _with_interval(result, "iou"),
        "frequency_weighted_iou": _plain(result.frequency_weighted_iou),
        "trimap_iou": _plain(result.trimap_iou),
        "trimap_accuracy": _plain(result.trimap_accuracy),
        "reliability": {name: _plain(value) for name, value in result.reliability._asdict().items()},
        "confusion": result.confusion.tolist(),
    }


def summarise_comparison(a: SegmentationResult, b: SegmentationResult) -> Numbers:
    """a against b on the same images, by every headline: the fields of `Comparison`."""
    if a.images < 2:
        raise InputError(f"there is {a.images} image, and comparing methods needs 2 or more.")
    compared = {name: compare_methods(a, b, metric) for name, metric in HEADLINES.items()}
    return {
        name: {part: _plain(getattr(each, part)) for part in ("a", "b", "difference", "low", "high", "wins")}
        for name, each in compared.items()
    }


def verdict(comparison: Numbers) -> str:
    """A comparison in words: by which metrics the CRF helps, by which it harms, and where the interval includes 0.

    >>> gain = {"difference": 0.012, "low": 0.004, "high": 0.02}
    >>> loss = {"difference": 0.02, "low": 0.01, "high": 0.03}
    >>> print(verdict({"mean_iou": gain, "negative_log_likelihood": loss}))
    The CRF helps in mean IoU (+1.20 points, 0.40 … 2.00); it harms NLL (+0.0200, 0.0100 … 0.0300).
    """
    found: dict[str, list[str]] = {"helps": [], "harms": [], "open": []}
    for name in HEADLINES:
        if name in comparison and comparison[name]["difference"] is not None:
            found[_effect(name, comparison[name])].append(f"{TITLES[name]} {_gain(name, comparison[name])}")
    parts = []
    if found["helps"]:
        parts.append(f"the CRF helps in {', '.join(found['helps'])}")
    elif found["harms"] or found["open"]:
        parts.append("the CRF does not help")
    if found["harms"]:
        parts.append(f"it harms {', '.join(found['harms'])}")
    if found["open"]:
        parts.append(f"no clear difference in {', '.join(found['open'])}")
    text = "; ".join(parts) or "nothing could be compared"
    return f"{text[0].upper()}{text[1:]}."


def format_difference(name: str, value: float, *, signed: bool = True) -> str:
    """A difference of a headline: in percentage points for fractions."""
    number, digits = (value * 100, 2) if name in FRACTIONS else (value, 4)
    return f"{number:+.{digits}f}" if signed else f"{number:.{digits}f}"


def comparison_table(methods: Numbers, comparisons: Numbers) -> tuple[list[str], list[list[str]]]:
    """Titles of columns, and a row for each headline: the value of each method, and the gains of compared methods.

    Parameters
    ----------
    methods
        Summaries by the name of the method.
    comparisons
        Comparisons by the name of the method whose gains they are.
    """
    columns = ["", *methods]
    for method in comparisons:
        columns += [f"gain of {method}", "95% interval"]
    rows = []
    for name in HEADLINES:
        values = [summary[name]["value"] for summary in methods.values()]
        row = [TITLES[name]]
        row += ["–" if value is None else format_difference(name, value, signed=False) for value in values]
        for comparison in comparisons.values():
            gain, low, high = (comparison[name][part] for part in ("difference", "low", "high"))
            if gain is None:
                row += ["", ""]
                continue
            ends = ("∞" if end is None else format_difference(name, end) for end in (low, high))
            row += [format_difference(name, gain), " … ".join(ends)]
        rows.append(row)
    return columns, rows


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as plain text: the first column on the left, the others on the right.

    >>> print(text_table(["", "network"], [["mean IoU", "58.77"], ["NLL", "0.3145"]]))
              network
    mean IoU    58.77
    NLL        0.3145
    """
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    lines = ([each.rjust(width) for each, width in zip(row[1:], widths[1:], strict=True)] for row in (columns, *rows))
    firsts = (row[0].ljust(widths[0]) for row in (columns, *rows))
    return "\n".join("  ".join([first, *line]) for first, line in zip(firsts, lines, strict=True))


def _gain(name: str, numbers: dict[str, float]) -> str:
    unit = " points" if name in FRACTIONS else ""
    low, high = (format_difference(name, numbers[end], signed=False) for end in ("low", "high"))
    return f"({format_difference(name, numbers['difference'])}{unit}, {low} … {high})"


def _effect(name: str, numbers: dict[str, float]) -> str:
    low, high = numbers["low"], numbers["high"]
    if low is None or high is None or low <= 0 <= high or abs(numbers["difference"]) < _NEGLIGIBLE:
        return "open"
    return "helps" if (high < 0) == lower_is_better(name) else "harms"


def _with_interval(result: SegmentationResult, metric: str | Callable[[Counts], Any]) -> Numbers:
    if result.images < 2:  # one image has no variance
        chosen = METRICS[metric] if isinstance(metric, str) else metric
        value = _plain(chosen(result.per_image.total()))
        return {"value": value, "low": value, "high": value}
    interval = bootstrap_interval(result, metric)
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
