"""The curves of the report drawn by matplotlib, for papers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

from densefield.io.messages import printable
from densefield.report.charts import log_steps
from densefield.report.curves import DASHED, DOTTED, MAX_MARKERS, SOLID, Curve, Panel, finite

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# Distinguishable with colour-vision deficiency (the first seven are those of Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#555555", "#7B4FBF", "#A03030", "#4F8A10")
GREY = "#777777"
LINES = {SOLID: "-", DASHED: "--", DOTTED: ":"}
LETTERS = 12  # characters of a legend in an inch
ROW = 0.24  # inches: the height of a row of the legend
BELOW = 4.5  # font sizes: from the axes to the legend, past ticks and label
# For matplotlib.rc_context, in which all figures are drawn and saved.
STYLE: Any = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": "#333333",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "text.usetex": False,
    "text.parse_math": False,  # names of runs are text, also with "$" in them
}


def draw(panels: Sequence[Panel], height: float = 3.2) -> Figure:
    """The panels side by side.

    A legend is below its panel. Curves with parts, such as validation and training, have one legend for all panels: an
    entry for each run, and one for each part. A long legend makes the figure higher.
    """
    from matplotlib.figure import Figure

    width = 10.8 if len(panels) > 1 else 5.6
    together = any(curve.part for panel in panels for curve in panel.curves)
    legends = [_of_runs(panels)] if together else [_of_curves(panel) for panel in panels]
    columns = [_columns(legend, width / len(legends)) for legend in legends]
    rows = max(math.ceil(len(legend) / count) for legend, count in zip(legends, columns, strict=True))
    figure = Figure(figsize=(width, height + ROW * rows), layout="constrained")
    places = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, panel in zip(places, panels, strict=True):
        for curve in panel.curves:
            _plot(axes, curve)
        axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_title)
        axes.set_xlim(left=0) if panel.x_limits is None else axes.set_xlim(*panel.x_limits)
        _scale(axes, panel)
    if together:
        figure.legend(handles=_handles(legends[0]), loc="outside lower center", ncols=columns[0])
        return figure
    for axes, legend, count in zip(places, legends, columns, strict=True):
        handles = _handles(legend)
        axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=BELOW, ncols=count)
    return figure


def legend_text(name: str) -> str:
    """A name in a legend: matplotlib leaves out names that begin with an underscore.

    >>> legend_text("_run") == "_run", legend_text("run")
    (False, 'run')
    """
    shown = printable(name)
    return f"\u200b{shown}" if shown.startswith("_") else shown


def to_png(figure: Figure) -> bytes:
    """The content of a PNG file with the figure."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=200, facecolor="white")
    return buffer.getvalue()


def _plot(axes: Axes, curve: Curve) -> None:
    if curve.points:
        xs, ys = zip(*curve.points, strict=True)
        axes.plot(xs, ys, LINES[curve.line], color=_colour(curve), marker=_marker(curve))


def _of_curves(panel: Panel) -> list[Curve]:
    """The entries of a panel's own legend."""
    return [curve for curve in panel.curves if curve.points]


def _of_runs(panels: Sequence[Panel]) -> list[Curve]:
    """The entries of the legend of all panels: each run once, as a solid line, and each part once, in grey."""
    shown = [curve for panel in panels for curve in panel.curves if curve.points]
    runs = {each.name: replace(each, part="", line=SOLID if each.part else each.line) for each in shown}
    parts = {
        each.part: replace(each, name=f"{each.line}: {each.part}", part="", colour=None) for each in shown if each.part
    }
    return [*runs.values(), *parts.values()]


def _columns(legend: Sequence[Curve], width: float) -> int:
    """The number of columns of a legend in a width of inches."""
    longest = max((len(curve.name) for curve in legend), default=1)
    return max(1, min(len(legend), int(LETTERS * width / (6 + longest))))


def _handles(legend: Sequence[Curve]) -> list[Line2D]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], ls=LINES[curve.line], c=_colour(curve), marker=_marker(curve), label=legend_text(curve.name))
        for curve in legend
    ]


def _colour(curve: Curve) -> str:
    return GREY if curve.colour is None else COLOURS[curve.colour % len(COLOURS)]


def _marker(curve: Curve) -> str | None:
    return "." if len(curve.points) <= MAX_MARKERS and curve.line != DOTTED else None  # one point is visible too


def _scale(axes: Axes, panel: Panel) -> None:
    """An axis from zero for values of similar size; a logarithmic axis otherwise."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    if not panel.from_zero:
        return
    values = finite(y for curve in panel.curves for _, y in curve.points)
    if not panel.logarithmic:
        axes.set_ylim(bottom=min(0.0, *values, 0.0))
        return
    axes.set_yscale("log")
    steps = log_steps(min(values), max(values))
    axes.set_ylim(steps[0], steps[-1])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
