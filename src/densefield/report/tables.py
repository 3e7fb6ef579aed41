"""The tables of the page: all methods by all metrics, and by all classes (paper, Table 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from densefield.metrics.bootstrap import compare_methods
from densefield.metrics.summary import (
    FRACTIONS,
    HEADLINES,
    TITLES,
    format_difference,
    lower_is_better,
    summarise_comparison,
)

if TYPE_CHECKING:
    from densefield.report.collecting import Evaluated


@dataclass(frozen=True)
class Cell:
    """A number, its confidence interval, and its relation to others."""

    text: str
    interval: str = ""
    best: bool = False
    share: float = 0.0  # length of a bar behind the number, 0…1
    gain: str = ""  # over the first row
    clear: str = ""  # "better" or "worse" if the interval of the gain does not include 0


@dataclass(frozen=True)
class Table:
    """Column titles, and rows with their titles."""

    columns: list[str]
    rows: list[tuple[str, list[Cell]]]


def headline_table(methods: Sequence[Evaluated]) -> Table:
    """One row for each method, one column for each metric; gains are over the first row on the same images."""
    rows = []
    for method in methods:
        gains = _gains(method, methods[0])
        cells = []
        for name in HEADLINES:
            numbers = method.summary[name]
            gain = gains.get(name)
            cells.append(
                Cell(
                    _text(name, numbers["value"]),
                    _interval(name, numbers),
                    _is_best(name, method, methods),
                    gain="" if gain is None else format_difference(name, gain["difference"]),
                    clear="" if gain is None else _clear(name, gain),
                )
            )
        rows.append((method.title, cells))
    return Table([TITLES[name] for name in HEADLINES], rows)


def difference_table(methods: Sequence[Evaluated]) -> Table:
    """The mean IoU of the method of a row minus that of a column, on the same images."""
    rows = []
    for number, method in enumerate(methods[1:], start=1):
        before = [_difference(method, other) for other in methods[:number]]
        rows.append((method.title, before + [Cell("")] * (len(methods) - 1 - number)))
    return Table([method.title for method in methods[:-1]], rows)


def iou_table(methods: Sequence[Evaluated], classes: Sequence[str]) -> Table:
    """One row for each class and one for the mean, one column for each method (paper, Table 1)."""
    rows = []
    for label, name in enumerate(classes):
        ious = [method.summary["iou"] for method in methods]
        rows.append((name, _row([{part: iou[part][label] for part in ("value", "low", "high")} for iou in ious])))
    rows.append(("mean", _row([method.summary["mean_iou"] for method in methods])))
    return Table([method.title for method in methods], rows)


def _row(ious: Sequence[dict[str, Any]]) -> list[Cell]:
    values = [iou["value"] for iou in ious]
    most = max((value for value in values if value is not None), default=math.nan)
    return [
        Cell(_text("mean_iou", value), _interval("mean_iou", iou), value == most, value or 0.0)
        for value, iou in zip(values, ious, strict=True)
    ]


def _gains(method: Evaluated, baseline: Evaluated) -> dict[str, Any]:
    """The gains over the baseline on the same images at the same size; empty for the baseline itself."""
    if method is baseline or not _same_images(method, baseline):
        return {}
    compared = summarise_comparison(method.result, baseline.result)
    return {
        name: gain for name, gain in compared.items() if None not in (gain["difference"], gain["low"], gain["high"])
    }


def _same_images(one: Evaluated, other: Evaluated) -> bool:
    """Whether both have the same images at the same size, two or more."""
    first, second = one.result, other.result
    if first.images < 2 or set(first.names) != set(second.names):
        return False
    order = [second.names.index(name) for name in first.names]
    # Images of another size have other counts of true labels.
    return np.array_equal(first.per_image.truth, second.per_image.truth[order])


def _difference(method: Evaluated, other: Evaluated) -> Cell:
    """The gain in mean IoU; blank for other images or sizes."""
    if not _same_images(method, other):
        return Cell("")
    compared = compare_methods(method.result, other.result)
    gain = {"low": float(compared.low), "high": float(compared.high)}
    low, high = (format_difference("mean_iou", gain[end]) for end in ("low", "high"))
    return Cell(
        format_difference("mean_iou", float(compared.difference)), f"{low} … {high}", clear=_clear("mean_iou", gain)
    )


def _clear(name: str, gain: dict[str, float]) -> str:
    if gain["low"] <= 0 <= gain["high"]:
        return ""
    return "better" if (gain["high"] < 0) == lower_is_better(name) else "worse"


def _is_best(name: str, method: Evaluated, methods: Sequence[Evaluated]) -> bool:
    values = [each.summary[name]["value"] for each in methods]
    known = [value for value in values if value is not None]
    value = method.summary[name]["value"]
    return bool(len(known) > 1 and value == (min(known) if lower_is_better(name) else max(known)))


def _text(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.1f}" if name in FRACTIONS else f"{value:.3f}"


def _interval(name: str, numbers: dict[str, float | None]) -> str:
    low, high = numbers["low"], numbers["high"]
    if low is None or high is None or low == high:
        return ""
    return f"{_text(name, low)} – {_text(name, high)}"
