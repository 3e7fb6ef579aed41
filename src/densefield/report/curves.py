"""The curves of the report as numbers, which `charts` draws on the page and `figures` as PNG."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from densefield.report.collecting import METHODS, Evaluated, Training

SOLID, DASHED, DOTTED = "solid", "dashed", "dotted"
MAX_MARKERS = 20  # curves with at most this number of points have markers
BEST = "best of stage 1"
LOG_RATIO = 10  # of the largest and smallest value, from which on an axis is logarithmic

Point = tuple[float, float]


@dataclass(frozen=True)
class Curve:
    """The points of a curve. Curves of the same name have the same colour and one entry in the legend."""

    name: str
    points: list[Point]
    line: str = SOLID
    part: str = ""  # what the line stands for, such as "validation"
    colour: int | None = None  # the index of a colour; None is grey


@dataclass(frozen=True)
class Panel:
    """Curves with the same axes."""

    title: str
    x_label: str
    y_label: str
    curves: list[Curve] = field(default_factory=list)
    from_zero: bool = False  # the axis of values starts at 0, or is logarithmic for values of very different size
    x_limits: Point | None = None

    @property
    def y_title(self) -> str:
        """The label of the axis of values, with its scale if it is not linear."""
        return ", ".join(filter(None, (self.y_label, "log scale" if self.logarithmic else "")))

    @property
    def logarithmic(self) -> bool:
        """Whether the axis of values is logarithmic.

        >>> Panel("", "", "", [Curve("a", [(1, 0.5), (2, 40)])], from_zero=True).logarithmic
        True
        """
        values = finite(y for curve in self.curves for _, y in curve.points)
        return self.from_zero and min(values, default=0) > 0 and max(values) >= LOG_RATIO * min(values)


def finite(values: Iterable[float]) -> list[float]:
    """The finite ones: those of a diverged run are not."""
    return [value for value in values if math.isfinite(value)]


def training_curves(trainings: Sequence[Training]) -> list[Panel]:
    """IoU on validation and training images over the steps of both stages (paper, Fig. 4).

    The panel of stage 2 has the best validation IoU of each run of stage 1 as a line: the network alone.
    """
    panels = []
    colours = {training.name: number for number, training in enumerate(trainings)}  # the same in both panels
    for stage in sorted({training.stage for training in trainings if training.curve("iou")[0]}):
        curves = []
        for training in (each for each in trainings if each.stage == stage):
            for column, line, part in (("iou", SOLID, "validation"), ("train_iou", DASHED, "training")):
                points = [(step, 100 * value) for step, value in zip(*training.curve(column), strict=True)]
                if points:
                    curves.append(Curve(training.name, points, line, part, colours[training.name]))
        if stage == 2:
            last = max(x for curve in curves for x, _ in curve.points)
            drawn: set[float] = set()
            for training in (each for each in trainings if each.stage == 1):
                best = max(training.curve("iou")[1], default=None)
                if best is not None and best not in drawn:  # copies of a run have the same line
                    drawn.add(best)
                    ends = [(0.0, 100 * best), (last, 100 * best)]
                    curves.append(Curve(training.name, ends, DOTTED, BEST, colours[training.name]))
        title = "Stage 1: network alone" if stage == 1 else f"Stage {stage}: network and CRF"
        panels.append(Panel(title, "step", "mean IoU, %", curves))
    return panels


def parameter_curves(training: Training) -> list[Panel]:
    """The CRF's widths and weights over the steps, with the mean of weights per class; none if the run has no CRF."""
    training = _averaged(training)
    names = [name for name in training.columns if "." in name]
    groups = {
        ("Weights", "weight"): [name for name in names if ".weight" in name],
        ("Widths in pixels", "pixels"): [name for name in names if _is_pixel_width(name)],
        ("Widths in colours", "levels of 0…255"): [
            name for name in names if ".sigma" in name and not _is_pixel_width(name)
        ],
    }
    panels = []
    for (title, unit), group in groups.items():
        curves = [
            Curve(
                parameter_title(name).replace(" weight", ""),
                list(zip(*training.curve(name), strict=True)),
                SOLID,
                "",
                n,
            )
            for n, name in enumerate(group)
        ]
        if any(curve.points for curve in curves):
            panels.append(Panel(title, "step", unit, curves, from_zero=True))
    return panels


def trimap_curves(methods: Sequence[Evaluated]) -> Panel:
    """Mean IoU in bands of 1 to 20 pixels around the true boundaries."""
    curves = []
    for method in methods:
        values = enumerate(method.summary["trimap_iou"], start=1)
        points = [(float(width), 100 * value) for width, value in values if value is not None]
        curves.append(_of_method(method, methods, points))
    return Panel("Mean IoU at boundaries", "width of the band, pixels", "mean IoU, %", curves, x_limits=(0, 20))


def reliability_diagram(methods: Sequence[Evaluated]) -> Panel:
    """Accuracy over confidence: calibrated marginals are on the diagonal."""
    curves = [Curve("calibrated", [(0.0, 0.0), (100.0, 100.0)], DOTTED)]
    for method in methods:
        bins = method.summary["reliability"]
        pixels = sum(bins["pixels"])
        points = [
            (100 * confidence, 100 * accuracy)
            for confidence, accuracy, count in zip(bins["confidence"], bins["accuracy"], bins["pixels"], strict=True)
            if None not in (confidence, accuracy) and count > 1e-4 * pixels
        ]
        curves.append(_of_method(method, methods, points))
    return Panel("Accuracy by confidence", "confidence, %", "accuracy, %", curves, True, (0, 100))


def parameter_unit(name: str) -> str:
    """The unit of a width; weights have none.

    >>> parameter_unit("spatial.sigma.0"), parameter_unit("bilateral.sigma.3"), parameter_unit("spatial.weight")
    ('pixels', 'levels', '')
    """
    if ".sigma" not in name:
        return ""
    return "pixels" if _is_pixel_width(name) else "levels"


def _of_method(method: Evaluated, methods: Sequence[Evaluated], points: list[Point]) -> Curve:
    """One colour for each run; the network alone is dashed if its run has a CRF."""
    names = list(dict.fromkeys(each.name for each in methods))
    colour = names.index(method.name)
    if {other.method for other in methods if other.name == method.name} == {"network"}:
        return Curve(method.title, points, SOLID, "", colour)
    line = DASHED if method.method == "network" else SOLID
    return Curve(method.name, points, line, METHODS[method.method], colour)


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
