"""The tables of the page: all methods by all metrics, and by all classes (paper, Table 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from densefield.metrics.bootstrap import compare_methods
from densefield.metrics.summary import (
    FRACTIONS,
    HEADLINES,
    TITLES,
    lower_is_better,
    summarise_comparison,
)
from densefield.report.collecting import Evaluated, by_stage
from densefield.report.differences import difference_text, effect, interval_text

PARTS = ("value", "low", "high")


@dataclass(frozen=True)
class Cell:
    """A number, its confidence interval, and its relation to others."""

    text: str
    interval: str = ""
    best: bool = False
    value: float | None = None  # to sort by; a share of 1 in tables with bars
    low: float | None = None
    high: float | None = None
    gain: str = ""  # over the first row
    clear: str = ""  # "better" or "worse" if the interval of the gain, as it is shown, does not include 0


@dataclass(frozen=True)
class Table:
    """Column titles, and rows with their titles."""

    columns: list[str]
    rows: list[tuple[str, list[Cell]]]
    lower_is_better: list[bool] = field(default_factory=list)  # of each column


def headline_table(methods: Sequence[Evaluated]) -> Table:
    """One row for each method, one column for each metric; gains are over the first method on the same images.

    Methods of stage 1 come first.
    """
    rows = []
    for method in by_stage(methods):
        gains = _gains(method, methods[0])
        cells = []
        for name in HEADLINES:
            numbers, best = method.summary[name], _best([each.summary[name]["value"] for each in methods], name)
            cells.append(_cell(name, numbers, best, gains.get(name)))
        rows.append((method.title, cells))
    return Table([TITLES[name] for name in HEADLINES], rows, [lower_is_better(name) for name in HEADLINES])


def effect_table(methods: Sequence[Evaluated]) -> Table:
    """One row for each evaluation of network and CRF: what the CRF changes in each metric, on the same images."""
    rows = []
    for method in by_stage(methods):
        alone = next((each for each in methods if (each.name, each.method) == (method.name, "network")), None)
        if method.method == "crf" and alone is not None and method.result.images > 1:
            rows.append((method.name, gain_cells(summarise_comparison(method.result, alone.result))))
    return Table([TITLES[name] for name in HEADLINES], rows)


def gain_cells(compared: Mapping[str, Any]) -> list[Cell]:
    """A cell with the difference and its interval for each metric of a comparison."""
    cells = []
    for name in HEADLINES:
        gain = compared.get(name, {})
        if None in (gain.get("difference"), gain.get("low"), gain.get("high")):
            cells.append(Cell("–"))
            continue
        cells.append(_gain_cell(name, gain))
    return cells


def _gain_cell(name: str, gain: Mapping[str, Any]) -> Cell:
    difference = gain["difference"]
    return Cell(
        difference_text(name, difference), interval_text(name, gain), clear=effect(name, gain), value=difference
    )


def difference_table(methods: Sequence[Evaluated]) -> Table:
    """The mean IoU of the method of a row minus that of a column, on the same images."""
    methods = by_stage(methods)
    rows = []
    for number, method in enumerate(methods[1:], start=1):
        before = [_difference(method, other) for other in methods[:number]]
        rows.append((method.title, before + [Cell("")] * (len(methods) - 1 - number)))
    return Table([method.title for method in methods[:-1]], rows)


def iou_table(methods: Sequence[Evaluated], classes: Sequence[str]) -> Table:
    """One row for each class and one for the mean, one column for each method (paper, Table 1)."""
    methods = by_stage(methods)
    rows = []
    for label, name in enumerate(classes):
        ious = [method.summary["iou"] for method in methods]
        rows.append((name, _row([{part: iou[part][label] for part in PARTS} for iou in ious])))
    rows.append(("mean", _row([method.summary["mean_iou"] for method in methods])))
    return Table([method.title for method in methods], rows)


def transposed(table: Table) -> Table:
    """Columns as rows; the last row becomes the first column."""
    rows = [table.rows[-1], *table.rows[:-1]]
    return Table(
        [title for title, _ in rows],
        [(title, [cells[place] for _, cells in rows]) for place, title in enumerate(table.columns)],
    )


def interval_note(table: Table) -> str:
    """Why numbers of a table have no interval, and dashes no number; "" if all have both.

    >>> interval_note(Table([], [("cat", [Cell("50.0", "40.0 … 60.0", value=0.5)])]))
    ''
    >>> interval_note(Table([], [("cat", [Cell("–")])]))
    'A dash is no finite number, such as the IoU of a class that is nowhere true nor predicted.'
    """
    cells = [cell for _, row in table.rows for cell in row]
    notes = []
    if any(cell.value is not None and not cell.interval for cell in cells):
        notes.append(
            "A number without an interval is the same in every resample of the images: that of a single image, or of a "
            "class that is never found or that one image alone has."
        )
    if any(cell.value is None for cell in cells):
        notes.append("A dash is no finite number, such as the IoU of a class that is nowhere true nor predicted.")
    return " ".join(notes)


def _row(ious: Sequence[dict[str, Any]]) -> list[Cell]:
    best = _best([iou["value"] for iou in ious], "mean_iou")
    return [_cell("mean_iou", iou, best) for iou in ious]


def _cell(name: str, numbers: Mapping[str, Any], best: str | None, gain: Mapping[str, Any] | None = None) -> Cell:
    text = _text(name, numbers["value"])
    return Cell(
        text,
        _interval(name, numbers),
        text == best,
        numbers["value"],
        numbers["low"],
        numbers["high"],
        gain="" if gain is None else difference_text(name, gain["difference"]),
        clear="" if gain is None else effect(name, gain),
    )


def _gains(method: Evaluated, baseline: Evaluated) -> dict[str, Any]:
    """The gains over the baseline on the same images at the same size; empty for the baseline itself."""
    if method is baseline or not same_images(method, baseline):
        return {}
    compared = summarise_comparison(method.result, baseline.result)
    return {
        name: gain for name, gain in compared.items() if None not in (gain["difference"], gain["low"], gain["high"])
    }


def same_images(one: Evaluated, other: Evaluated) -> bool:
    """Whether two methods were evaluated on the same images at the same size, two or more."""
    first, second = one.result, other.result
    if first.images < 2 or set(first.names) != set(second.names):
        return False
    order = [second.names.index(name) for name in first.names]
    # Images of another size have other counts of true labels.
    return np.array_equal(first.per_image.truth, second.per_image.truth[order])


def _difference(method: Evaluated, other: Evaluated) -> Cell:
    """The gain in mean IoU; blank for other images or sizes."""
    if not same_images(method, other):
        return Cell("")
    compared = compare_methods(method.result, other.result)
    return _gain_cell("mean_iou", {part: float(getattr(compared, part)) for part in ("difference", "low", "high")})


def _best(values: Sequence[float | None], name: str) -> str | None:
    """The text of the best value; None if there is no other value, or if several are shown as the best.

    >>> _best([0.7, 0.9, 0.8], "mean_iou"), _best([0.9, 0.9, 0.8], "mean_iou"), _best([0.9], "mean_iou")
    ('90.0', None, None)
    """
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    best = _text(name, min(known) if lower_is_better(name) else max(known))
    return best if [_text(name, value) for value in known].count(best) == 1 else None


def _text(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.1f}" if name in FRACTIONS else f"{value:.3f}"


def _interval(name: str, numbers: Mapping[str, Any]) -> str:
    low, high = numbers["low"], numbers["high"]
    if low is None or high is None or low == high:
        return ""
    return f"{_text(name, low)} … {_text(name, high)}"
