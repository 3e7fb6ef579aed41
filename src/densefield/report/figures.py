"""The curves of the report drawn by matplotlib, for papers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from densefield.io.messages import printable
from densefield.report.curves import DASHED, DOTTED, MAX_MARKERS, SOLID, Curve, Panel, finite

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Distinguishable with colour-vision deficiency (the first seven are those of Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#555555", "#7B4FBF", "#A03030", "#4F8A10")
GREY = "#777777"
LINES = {SOLID: "-", DASHED: "--", DOTTED: ":"}
LEGEND_WIDTH = 110  # characters in a row of the legend
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
    """The panels side by side; each legend is below its panel, and makes the figure higher if it is long."""
    from matplotlib.figure import Figure

    width = 10.8 if len(panels) > 1 else 5.6
    columns = [max(1, int(LEGEND_WIDTH / len(panels) / (6 + _longest(panel)))) for panel in panels]
    rows = max(math.ceil(_entries(panel) / count) for panel, count in zip(panels, columns, strict=True))
    figure = Figure(figsize=(width, height + ROW * rows), layout="constrained")
    for axes, panel, count in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, columns, strict=True):
        for curve in panel.curves:
            _plot(axes, curve)
        axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
        axes.set_xlim(left=0) if panel.x_limits is None else axes.set_xlim(*panel.x_limits)
        _scale(axes, panel)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=BELOW, ncols=count)
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
    if not curve.points:
        return
    dot = "." if 1 <= len(curve.points) <= MAX_MARKERS and curve.line != DOTTED else None  # one point is visible too
    colour = GREY if curve.colour is None else COLOURS[curve.colour % len(COLOURS)]
    xs, ys = zip(*curve.points, strict=True)
    axes.plot(xs, ys, LINES[curve.line], color=colour, label=legend_text(_label(curve)), marker=dot)


def _label(curve: Curve) -> str:
    return f"{curve.name}, {curve.part}" if curve.part else curve.name


def _longest(panel: Panel) -> int:
    return max(len(_label(curve)) for curve in panel.curves)


def _entries(panel: Panel) -> int:
    return sum(bool(curve.points) for curve in panel.curves)


def _scale(axes: Axes, panel: Panel) -> None:
    """An axis from zero for values of similar size; a logarithmic axis otherwise."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    if not panel.from_zero:
        return
    if not panel.logarithmic:
        axes.set_ylim(bottom=min(0.0, *finite(y for curve in panel.curves for _, y in curve.points), 0.0))
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
