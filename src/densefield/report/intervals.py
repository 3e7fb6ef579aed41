"""The chart of mean IoU: each method with its confidence interval, on one axis."""

from __future__ import annotations

from dataclasses import dataclass

from densefield.report.charts import Axis, Tick, round_steps
from densefield.report.tables import Cell, Table


@dataclass(frozen=True)
class Bar:
    """A method: its places in percent of the axis."""

    title: str
    text: str
    place: float
    low: float | None
    width: float


@dataclass(frozen=True)
class Intervals:
    """The bars, and the ticks of their axis."""

    bars: list[Bar]
    ticks: list[Tick]


def interval_chart(table: Table) -> Intervals | None:
    """The first column of the table of results as a chart; None without numbers."""
    cells = [(title, row[0]) for title, row in table.rows if row[0].value is not None]
    ends = [100 * end for _, cell in cells for end in (cell.value, cell.low, cell.high) if end is not None]
    if not ends:
        return None
    steps = round_steps(min(ends), max(ends))
    axis = Axis(steps[0], steps[-1], steps)
    return Intervals([_bar(title, cell, axis) for title, cell in cells], axis.drawn())


def _bar(title: str, cell: Cell, axis: Axis) -> Bar:
    def place(value: float) -> float:
        return round(100 * axis.place(100 * value), 2)

    middle = 0.0 if cell.value is None else place(cell.value)
    if cell.low is None or cell.high is None:
        return Bar(title, cell.text, middle, None, 0.0)
    low = place(cell.low)
    return Bar(title, cell.text, middle, low, place(cell.high) - low)
