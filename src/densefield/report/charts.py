"""Curves as SVG paths: positions in per mille of the plot, ticks, and values to show at the pointer.

The SVG is stretched to the width of the page; ticks and legends are HTML text, so that their size stays readable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from densefield.report.collecting import titled
from densefield.report.curves import DOTTED, MAX_MARKERS, Curve, Panel, Point

COLOURS = 10  # colours of style.css, repeated
MAX_POINTS = 300  # of a curve on the page
TICKS = 5  # about this many, at round numbers


@dataclass(frozen=True)
class Tick:
    """A tick: its place in percent of the axis, and its text."""

    place: float
    text: str


@dataclass(frozen=True)
class Line:
    """A curve as an SVG path, with the style of its line and its entry in the legend."""

    name: str
    part: str
    style: str  # classes of style.css
    path: str
    dots: str  # a path with a dot at every point
    points: list[tuple[float, float, str, str]]  # place in percent from the left and from the bottom; x and y as text

    @property
    def title(self) -> str:
        """The entry in the legend, which has the words of the tables."""
        return titled(self.name, self.part)


@dataclass(frozen=True)
class Chart:
    """A panel that the template draws."""

    title: str
    x_label: str
    y_label: str
    lines: list[Line]
    x_ticks: list[Tick]
    y_ticks: list[Tick]

    @property
    def description(self) -> str:
        """The curves in words: the last value of each."""
        last = [f"{line.title}: {line.points[-1][3]}" for line in self.lines]
        return f"{self.title}; {self.y_label or 'value'} over {self.x_label}. At the end, {'; '.join(last)}."


@dataclass(frozen=True)
class Axis:
    """The ends of an axis, and the numbers at its ticks."""

    low: float
    high: float
    ticks: list[float]
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """The place of a value: 0 at the low end, 1 at the high end.

        >>> Axis(40, 60, []).place(45), round(Axis(1, 100, [], logarithmic=True).place(10), 9)
        (0.25, 0.5)
        """
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def drawn(self) -> list[Tick]:
        """The ticks as the template draws them."""
        return [Tick(round(100 * self.place(value), 2), number(value)) for value in self.ticks]


def draw_chart(panel: Panel) -> Chart:
    """The chart of a panel."""
    points = [[point for point in curve.points if all(map(math.isfinite, point))] for curve in panel.curves]
    steps = [x for each in points for x, _ in each] or [0.0, 1.0]
    values = [y for each in points for _, y in each] or [0.0, 1.0]
    low, high = panel.x_limits or (0.0, max(*steps, 1e-9))
    across = Axis(low, high, [value for value in round_steps(low, high) if low <= value <= high])
    up = _logarithmic_axis(values) if panel.logarithmic else _linear_axis(values, panel.from_zero)
    lines = [_line(curve, each, across, up) for curve, each in zip(panel.curves, points, strict=True) if each]
    return Chart(panel.title, panel.x_label, panel.y_title, lines, across.drawn(), up.drawn())


def _linear_axis(values: Sequence[float], from_zero: bool) -> Axis:
    ticks = round_steps(min(*values, 0.0) if from_zero else min(values), max(values))
    return Axis(ticks[0], ticks[-1], ticks)


def _logarithmic_axis(values: Sequence[float]) -> Axis:
    ticks = log_steps(min(values), max(values))
    if len(ticks) > 2 * TICKS:
        ticks = log_steps(min(values), max(values), (1,))
    return Axis(ticks[0], ticks[-1], ticks, logarithmic=True)


def _line(curve: Curve, points: list[Point], across: Axis, up: Axis) -> Line:
    shown = thinned(points)
    places = [(round(1000 * across.place(x), 1), round(1000 - 1000 * up.place(y), 1)) for x, y in shown]
    colour = "grey" if curve.colour is None else f"c{curve.colour % COLOURS}"
    marked = len(shown) <= MAX_MARKERS and curve.line != DOTTED
    return Line(
        curve.name,
        curve.part,
        f"{colour} {curve.line}",
        "M" + "L".join(f"{x:g} {y:g}" for x, y in places),
        "".join(f"M{x:g} {y:g}h0" for x, y in places) if marked else "",
        [
            (round(x / 10, 2), round(100 - y / 10, 2), number(step), number(value))
            for (x, y), (step, value) in zip(places, shown, strict=True)
        ],
    )


def thinned(points: Sequence[Point]) -> list[Point]:
    """At most MAX_POINTS points, evenly chosen, with the first and the last.

    >>> [x for x, _ in thinned([(float(x), 0.0) for x in range(1000)])][:3]
    [0.0, 3.0, 7.0]
    """
    if len(points) <= MAX_POINTS:
        return list(points)
    return [points[round(n * (len(points) - 1) / (MAX_POINTS - 1))] for n in range(MAX_POINTS)]


def round_steps(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 · 10ⁿ that enclose an interval.

    >>> round_steps(41.3, 67.9), round_steps(0, 2)
    ([40.0, 45.0, 50.0, 55.0, 60.0, 65.0, 70.0], [0.0, 0.5, 1.0, 1.5, 2.0])
    """
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        margin = abs(low) / 10 or 1.0
        low, high = low - margin, high + margin
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.75 * rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{place * step:.12g}") for place in range(first, last + 1)]


def log_steps(low: float, high: float, factors: Sequence[int] = (1, 2, 5)) -> list[float]:
    """1, 2 and 5 · 10ⁿ that enclose an interval.

    >>> log_steps(0.7, 41), log_steps(0.7, 41, (1,))
    ([0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0], [0.1, 1.0, 10.0, 100.0])
    """
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    values = [float(f"{factor * 10.0**power:.12g}") for power in powers for factor in factors]
    first = max(place for place, value in enumerate(values) if value <= low * (1 + 1e-9))
    last = min(place for place, value in enumerate(values) if value >= high * (1 - 1e-9))
    return values[first : last + 1]


def number(value: float) -> str:
    """A number with four digits and a proper minus sign.

    >>> number(-0.123456), number(12345.0), number(50.0)
    ('−0.1235', '12345', '50')
    """
    text = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return text.replace("-", "−")
