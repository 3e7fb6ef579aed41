"""The chart of intervals has an axis with round numbers."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="results are computed with torch")

from densefield.report.intervals import interval_chart
from densefield.report.tables import Cell, Table


def test_bars_are_on_an_axis_with_ticks():
    rows = [("a", [Cell("42.0", value=0.42, low=0.41, high=0.43)]), ("b", [Cell("49.0", value=0.49)])]
    drawn = interval_chart(Table(["mean IoU"], [*rows, ("c", [Cell("–")])]))
    ticks = [(0, "40"), (20, "42"), (40, "44"), (60, "46"), (80, "48"), (100, "50")]
    assert [(tick.place, tick.text) for tick in drawn.ticks] == ticks
    assert [(bar.title, bar.place, bar.low, bar.width) for bar in drawn.bars] == [("a", 20, 10, 20), ("b", 90, None, 0)]
    assert interval_chart(Table(["mean IoU"], [("c", [Cell("–")])])) is None
