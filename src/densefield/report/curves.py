"""The figures of the report."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from statistics import fmean
from typing import TYPE_CHECKING, Any

from densefield.io.messages import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from densefield.report.collecting import Evaluated, Training

# Distinguishable with colour-vision deficiency (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#555555")
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
    "svg.fonttype": "path",
    "text.usetex": False,
    "text.parse_math": False,  # names of runs are text, also with "$" in them
    "svg.hashsalt": "densefield",  # the same bytes for the same figure
}

MAX_MARKERS = 20  # curves with at most this number of points have markers
LOG_RATIO = 10  # of the largest and smallest value, from which on an axis is logarithmic


def training_curves(trainings: Sequence[Training]) -> Figure | None:
    """IoU on validation and training images over the steps of both stages (paper, Fig. 4).

    The panel of stage 2 has the best validation IoU of each run of stage 1 as a line: the network alone.
    """
    stages = sorted({training.stage for training in trainings if training.curve("iou")[0]})
    if not stages:
        return None
    figure, panels = _panels(len(stages), height=3.4)
    for axes, stage in zip(panels, stages, strict=True):
        for number, training in enumerate(each for each in trainings if each.stage == stage):
            colour = COLOURS[number % len(COLOURS)]
            for column, line, what in (("iou", "-", "validation"), ("train_iou", "--", "training")):
                steps, values = training.curve(column)
                if steps:
                    label = legend_text(f"{training.name}, {what}")
                    dot = "." if len(steps) <= MAX_MARKERS else None  # a curve of one point is visible too
                    axes.plot(steps, [100 * value for value in values], line, color=colour, label=label, marker=dot)
        if stage == 2:
            for training in (each for each in trainings if each.stage == 1):
                best = max(training.curve("iou")[1], default=None)
                if best is not None:
                    label = legend_text(f"{training.name}, best of stage 1")
                    axes.axhline(100 * best, color="#555555", linewidth=1.2, linestyle=":", label=label)
        axes.set(title=f"Stage {stage}: {'network alone' if stage == 1 else 'network and CRF'}", xlabel="step")
        axes.set_xlim(left=0)
        axes.legend()
    panels[0].set_ylabel("mean IoU, %")
    return figure


def parameter_curves(training: Training) -> Figure | None:
    """The CRF's widths and weights over the steps, with the mean of weights per class; None if the run has no CRF."""
    training = _averaged(training)
    names = [name for name in training.columns if "." in name]
    groups = {
        "weights": [name for name in names if ".weight" in name],
        "widths in pixels": [name for name in names if _is_pixel_width(name)],
        "widths in colours": [name for name in names if ".sigma" in name and not _is_pixel_width(name)],
    }
    shown = {title: group for title, group in groups.items() if group}
    if not shown:
        return None
    figure, panels = _panels(len(shown), height=3.0)
    for axes, (title, group) in zip(panels, shown.items(), strict=True):
        for number, name in enumerate(group):
            label = legend_text(parameter_title(name).replace(" weight", ""))
            axes.plot(*training.curve(name), color=COLOURS[number % len(COLOURS)], label=label)
        axes.set(title=title, xlabel="step")
        axes.set_xlim(left=0)
        _scale(axes, [value for name in group for value in training.curve(name)[1]])
        axes.legend()
    return figure


def trimap_curves(methods: Sequence[Evaluated]) -> Figure | None:
    """Mean IoU in bands of 1 to 20 pixels around the true boundaries."""
    if not methods:
        return None
    figure, (axes,) = _panels(1, height=3.6, width=5.4)
    for method in methods:
        values = enumerate(method.summary["trimap_iou"], start=1)
        _plot_method(axes, method, methods, [(width, 100 * value) for width, value in values if value is not None])
    axes.set(xlabel="width of the band, pixels", ylabel="mean IoU, %", xticks=range(0, 21, 5))
    axes.legend()
    return figure


def reliability_diagram(methods: Sequence[Evaluated]) -> Figure | None:
    """Accuracy over confidence: calibrated marginals are on the diagonal."""
    if not methods:
        return None
    figure, (axes,) = _panels(1, height=3.6, width=5.4)
    axes.plot([0, 100], [0, 100], color="#999999", linewidth=1, linestyle=":", label="calibrated")
    for method in methods:
        bins = method.summary["reliability"]
        pixels = sum(bins["pixels"])
        known = [
            (100 * confidence, 100 * accuracy)
            for confidence, accuracy, count in zip(bins["confidence"], bins["accuracy"], bins["pixels"], strict=True)
            if confidence is not None and count > 1e-4 * pixels
        ]
        _plot_method(axes, method, methods, known, marker="o", markersize=3.5)
    axes.set(xlabel="confidence, %", ylabel="accuracy, %")
    axes.legend()
    return figure


def legend_text(name: str) -> str:
    """A name in a legend: matplotlib leaves out names that begin with an underscore.

    >>> legend_text("_run") == "_run", legend_text("run")
    (False, 'run')
    """
    shown = printable(name)
    return f"\u200b{shown}" if shown.startswith("_") else shown


def to_bytes(figure: Figure, **options: Any) -> bytes:
    """The content of a file with the figure; the options are those of `Figure.savefig`."""
    buffer = BytesIO()
    figure.savefig(buffer, **options)
    return buffer.getvalue()


def _panels(count: int, height: float, width: float | None = None) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width or 10.8, height), layout="constrained")
    panels = figure.subplots(1, count, squeeze=False)
    return figure, list(panels[0])


def _scale(axes: Axes, values: Sequence[float]) -> None:
    """An axis from zero for values of similar size; a logarithmic axis otherwise."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    finite = [value for value in values if math.isfinite(value)]  # those of a diverged run are not
    if min(finite, default=0) <= 0 or max(finite) < LOG_RATIO * min(finite):
        axes.set_ylim(bottom=0)
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _plot_method(
    axes: Axes, method: Evaluated, methods: Sequence[Evaluated], points: list[tuple[float, float]], **options: Any
) -> None:
    """One colour for each run; the network alone is dashed if its run has a CRF."""
    if not points:
        return
    names = list(dict.fromkeys(each.name for each in methods))
    colour = COLOURS[names.index(method.name) % len(COLOURS)]
    has_crf = any(other.name == method.name and other.method != "network" for other in methods)
    line = "--" if has_crf and method.method == "network" else "-"
    axes.plot(*zip(*points, strict=True), line, color=colour, label=legend_text(method.title), **options)


def _averaged(training: Training) -> Training:
    """The mean of a kernel's weights in place of one for each class, which would be too many curves."""
    columns: dict[str, list[float | None]] = {}
    of_labels: dict[str, list[list[Any]]] = {}
    for name, values in training.columns.items():
        weight = re.fullmatch(r"(.+\.weight)\.\d+", name)
        if weight:
            of_labels.setdefault(f"{weight[1]}.mean", []).append(values)
        else:
            columns[name] = values
    for name, group in of_labels.items():
        columns[name] = [None if None in row else fmean(row) for row in zip(*group, strict=True)]
    return replace(training, columns=columns)


def _is_pixel_width(name: str) -> bool:
    kernel, _, rest = name.partition(".sigma")
    return bool(rest) and (kernel.startswith("spatial") or rest in (".0", ".1"))


def parameter_title(name: str) -> str:
    """The title of a parameter.

    >>> parameter_title("spatial.sigma.0"), parameter_title("bilateral.sigma.3"), parameter_title("spatial.weight")
    ('spatial x', 'bilateral green', 'spatial weight')
    >>> parameter_title("spatial.weight.mean")
    'spatial weight, mean of classes'
    """
    kernel, _, rest = name.partition(".")
    if rest == "weight.mean":
        return f"{kernel} weight, mean of classes"
    place = re.fullmatch(r"sigma\.(\d)", rest)
    if place and int(place[1]) < 5:
        return f"{kernel} {('x', 'y', 'red', 'green', 'blue')[int(place[1])]}"
    return f"{kernel} {rest.replace('.', ' ')}"
