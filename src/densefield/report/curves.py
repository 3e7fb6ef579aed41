"""The figures of the report."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from io import BytesIO
from statistics import fmean
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from densefield.io.messages import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from densefield.report.collecting import Evaluated, Training

# Distinguishable with colour-vision deficiency (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#555555")
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

P = ParamSpec("P")
T = TypeVar("T")


def _styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Draws with STYLE, without changing matplotlib's global style."""

    @wraps(draw)
    def drawn(*arguments: P.args, **options: P.kwargs) -> T:
        import matplotlib

        with matplotlib.rc_context(STYLE):
            return draw(*arguments, **options)

    return drawn


@_styled
def training_curves(trainings: Sequence[Training]) -> Figure | None:
    """IoU on validation and in training over the steps of both stages (paper, Fig. 4)."""
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
                    percent = [100 * value for value in values]
                    axes.plot(
                        steps,
                        percent,
                        line,
                        color=colour,
                        label=legend_text(f"{training.name}, {what}"),
                        marker=_dot(steps),
                    )
        axes.set_title(f"Stage {stage}: {'network alone' if stage == 1 else 'network and CRF'}")
        axes.set_xlabel("step")
        axes.set_xlim(left=0)
        axes.legend()
    panels[0].set_ylabel("mean IoU, %")
    return figure


@_styled
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
            steps, values = training.curve(name)
            colour = COLOURS[number % len(COLOURS)]
            label = legend_text(parameter_title(name).replace(" weight", ""))
            axes.plot(steps, values, color=colour, label=label)
        axes.set_title(title)
        axes.set_xlabel("step")
        axes.set_xlim(left=0)
        _scale(axes, [value for name in group for value in training.curve(name)[1]])
        axes.legend()
    return figure


@_styled
def trimap_curves(methods: Sequence[Evaluated]) -> Figure | None:
    """Mean IoU in bands of 1 to 20 pixels around the true boundaries."""
    if not methods:
        return None
    figure, (axes,) = _panels(1, height=3.6, width=5.4)
    for number, method in enumerate(methods):
        values = [None if value is None else 100 * value for value in method.summary["trimap_iou"]]
        known = [(width, value) for width, value in enumerate(values, start=1) if value is not None]
        if known:
            axes.plot(*zip(*known, strict=True), **_line(number, methods), label=legend_text(method.title))
    axes.set_xlabel("width of the band, pixels")
    axes.set_ylabel("mean IoU, %")
    axes.set_xticks(range(0, 21, 5))
    axes.legend()
    return figure


@_styled
def reliability_diagram(methods: Sequence[Evaluated]) -> Figure | None:
    """Accuracy over confidence: calibrated marginals are on the diagonal."""
    if not methods:
        return None
    figure, (axes,) = _panels(1, height=3.6, width=5.4)
    axes.plot([0, 100], [0, 100], color="#999999", linewidth=1, linestyle=":", label="calibrated")
    for number, method in enumerate(methods):
        bins = method.summary["reliability"]
        pixels = sum(bins["pixels"])
        known = [
            (100 * confidence, 100 * accuracy)
            for confidence, accuracy, count in zip(bins["confidence"], bins["accuracy"], bins["pixels"], strict=True)
            if confidence is not None and count > 1e-4 * pixels
        ]
        if known:
            axes.plot(
                *zip(*known, strict=True),
                **_line(number, methods),
                marker="o",
                markersize=3.5,
                label=legend_text(method.title),
            )
    axes.set_xlabel("confidence, %")
    axes.set_ylabel("accuracy, %")
    axes.legend()
    return figure


def legend_text(name: str) -> str:
    """A name in a legend: matplotlib leaves out names that begin with an underscore.

    >>> legend_text("_run") == "_run", legend_text("run")
    (False, 'run')
    """
    shown = printable(name)
    return f"\u200b{shown}" if shown.startswith("_") else shown


@_styled
def to_svg(figure: Figure) -> bytes:
    """The figure as SVG, for the page."""
    buffer = BytesIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return buffer.getvalue()


def to_png(figure: Figure) -> bytes:
    """The figure as PNG, for slides."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=200, facecolor="white")
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


def _line(number: int, methods: Sequence[Evaluated]) -> dict[str, Any]:
    """One colour for each run; the network alone is dashed."""
    names = list(dict.fromkeys(method.name for method in methods))
    method = methods[number]
    dashed = method.method == "network" and any(
        other.name == method.name and other.method != "network" for other in methods
    )
    return {"color": COLOURS[names.index(method.name) % len(COLOURS)], "linestyle": "--" if dashed else "-"}


def _dot(steps: Sequence[float]) -> str | None:
    return "." if len(steps) <= MAX_MARKERS else None  # a curve of one point is visible too


def _averaged(training: Training) -> Training:
    """The mean of a kernel's weights in place of one for each class, which would be too many curves."""
    columns: dict[str, list[float | None]] = {}
    of_labels: dict[str, list[list[float | None]]] = {}
    for name, values in training.columns.items():
        weight = re.fullmatch(r"(.+\.weight)\.\d+", name)
        if weight:
            of_labels.setdefault(f"{weight[1]}.mean", []).append(values)
        else:
            columns[name] = values
    for name, group in of_labels.items():
        columns[name] = [_mean(row) for row in zip(*group, strict=True)]
    return replace(training, columns=columns)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


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
