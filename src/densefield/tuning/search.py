"""Search for kernel widths and weights: on a grid or at random, with options and a file of trials."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from densefield.crf.kernels import Bilateral, Kernel, Spatial
from densefield.errors import InputError
from densefield.io.files import write_atomically
from densefield.io.progress import Progress
from densefield.metrics.metrics import LOWER_IS_BETTER, METRICS, SegmentationResult

Criterion = Literal["negative_log_likelihood", "mean_iou", "pixel_accuracy"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
Search = Literal["random", "grid", "none"]


@dataclass(frozen=True)
class Setting:
    """Two kernels, each with equal widths for both axes and for all colours."""

    spatial_sigma: float = 3.0
    spatial_weight: float = 3.0
    bilateral_sigma_xy: float = 60.0
    bilateral_sigma_rgb: float = 10.0
    bilateral_weight: float = 5.0

    def kernels(self, shrink: int = 1) -> list[Kernel]:
        """The kernels, for images at 1/shrink of their size."""
        return [
            Spatial(self.spatial_sigma / shrink, weight=self.spatial_weight),
            Bilateral(self.bilateral_sigma_xy / shrink, self.bilateral_sigma_rgb, weight=self.bilateral_weight),
        ]


# A CRF that hardly changes the network's marginals.
FAINT = Setting(spatial_weight=0.01, bilateral_weight=0.01)


@dataclass(frozen=True)
class Space:
    """The search space: the grid's values of each field; random values lie between their extremes.

    Parameters
    ----------
    spatial_sigma, spatial_weight
        Widths and weights of the spatial kernel.
    bilateral_sigma_xy, bilateral_sigma_rgb, bilateral_weight
        Widths and weights of the bilateral kernel.
    """

    spatial_sigma: tuple[float, ...] = (1.0, 3.0, 9.0)
    spatial_weight: tuple[float, ...] = (0.1, 1.0, 6.0)
    bilateral_sigma_xy: tuple[float, ...] = (10.0, 40.0, 120.0)
    bilateral_sigma_rgb: tuple[float, ...] = (3.0, 10.0, 30.0)
    bilateral_weight: tuple[float, ...] = (0.1, 1.0, 8.0)

    def __post_init__(self) -> None:
        """Checks all values."""
        for name, values in asdict(self).items():
            if not values or not all(math.isfinite(value) and value > 0 for value in values):
                raise InputError(f"{name} is {list(values)}, expected finite numbers above 0.")

    def grid(self) -> Iterator[Setting]:
        """Every combination; the last field varies fastest.

        >>> len(list(Space().grid()))
        243
        """
        return (Setting(*values) for values in itertools.product(*astuple(self)))

    def random(self, seed: int) -> Iterator[Setting]:
        """An endless stream of settings, log-uniform; the default and FAINT first, if the given ranges hold them.

        Random setting number n depends on the `seed` and n only.

        >>> settings = list(itertools.islice(Space().random(seed=31), 3))
        >>> settings[0] == Setting(), 1 <= settings[2].spatial_sigma <= 9
        (True, True)
        """
        yield from (setting for setting in (Setting(), FAINT) if self._holds(setting))
        ends = np.log([(min(values), max(values)) for values in astuple(self)])
        for number in itertools.count(2):
            values = np.exp(np.random.default_rng([seed, number]).uniform(ends[:, 0], ends[:, 1]))
            yield Setting(*(float(f"{value:.4g}") for value in values))

    def _holds(self, setting: Setting) -> bool:
        """Whether a setting lies within all ranges that are not the default ones."""
        return all(
            min(values) <= value <= max(values)
            for values, value, default in zip(astuple(self), astuple(setting), astuple(_DEFAULT_SPACE), strict=True)
            if values != default
        )


_DEFAULT_SPACE = Space()


@dataclass(frozen=True)
class TuningOptions:
    """The options of tune_crf().

    Settings are tried on images at 1/shrink of their size and compared by `criterion`. From the best one, L-BFGS learns
    all widths and weights on the log-likelihood.

    Parameters
    ----------
    search
        "random", "grid", or "none" for the default setting only.
    trials
        Number of trials of a random search.
    criterion
        The metric that settings are compared by.
    space
        The search space.
    shrink
        The factor by which images are shrunk for the search and for most of the learning.
    evaluations
        Maximum number of evaluations of the loss on shrunk images, and a third of it at full size; 0 learns nothing.
    iterations
        Number of mean-field iterations.
    images
        Maximum number of images, half of them for learning; all by default.
    seed
        Random seed.
    """

    search: Search = "random"
    trials: int = 24
    criterion: Criterion = "negative_log_likelihood"
    space: Space = field(default_factory=Space)
    shrink: int = 2
    evaluations: int = 24
    iterations: int = 5
    images: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Checks all options that do not depend on data."""
        if self.search not in get_args(Search):
            raise InputError(f"search is {self.search!r}, expected one of {', '.join(get_args(Search))}.")
        if self.criterion not in CRITERIA:
            raise InputError(f"the criterion is {self.criterion!r}, expected one of {', '.join(CRITERIA)}.")
        least = {"trials": 1, "shrink": 1, "evaluations": 0, "iterations": 1, "seed": 0}
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                raise InputError(f"{name} is {getattr(self, name)}, expected {lowest} or more.")
        if self.search == "none" and self.space != _DEFAULT_SPACE:
            raise InputError(
                "search is 'none', which tries the default setting alone, but ranges are given too: leave one of them "
                "out."
            )

    def settings(self) -> list[Setting]:
        """The settings to try."""
        if self.search == "none":
            return [Setting()]
        if self.search == "grid":
            return list(self.space.grid())
        return list(itertools.islice(self.space.random(self.seed), self.trials))


@dataclass(frozen=True)
class Trial:
    """A setting and its metrics on the learning images."""

    setting: Setting
    negative_log_likelihood: float
    mean_iou: float
    pixel_accuracy: float


def search(
    settings: Sequence[Setting],
    evaluate: Callable[[Setting], SegmentationResult],
    trials_file: Path | None,
    progress: Progress | None = None,
) -> list[Trial]:
    """Tries every setting; each trial is appended to the file, if any, and those in it are not tried again.

    A setting whose kernels cannot be computed counts as infinitely bad.
    """
    from densefield.runs.scored_images import Uncomputable

    known = {trial.setting: trial for trial in ([] if trials_file is None else _read(trials_file))}
    trials = []
    for number, setting in enumerate(settings, start=1):
        if setting not in known:
            try:
                known[setting] = Trial(setting, **metrics_of(evaluate(setting)))
            except Uncomputable:
                known[setting] = Trial(setting, math.inf, 0.0, 0.0)
            if trials_file is not None:
                _append(trials_file, known[setting])
        trials.append(known[setting])
        if progress is not None:
            progress(number, len(settings))
    return trials


def best(trials: Sequence[Trial], criterion: Criterion) -> Trial:
    """The best trial by a metric; the first of equal ones."""
    if all(math.isnan(trial.negative_log_likelihood) for trial in trials):
        raise InputError("the images to learn from have no labelled pixel: all labels are 255, which is void.")
    if not any(math.isfinite(trial.negative_log_likelihood) for trial in trials):
        raise InputError(
            f"none of {len(trials)} settings could be computed, expected one or more: are their widths far too narrow "
            "for these images?"
        )
    return min(trials, key=lambda trial: cost(trial, criterion))


def cost(metrics: Trial | SegmentationResult, criterion: Criterion) -> float:
    """A number that is lower for better results by this metric."""
    value: float = getattr(metrics, criterion)
    return value if METRICS[criterion] in LOWER_IS_BETTER else -value


def metrics_of(result: SegmentationResult) -> dict[str, float]:
    """The metrics of a result that settings can be compared by."""
    return {name: getattr(result, name) for name in CRITERIA}


_FIELDS = [each.name for each in fields(Setting)]
_COLUMNS = [*_FIELDS, *CRITERIA]


def _append(path: Path, trial: Trial) -> None:
    if not path.exists():
        write_atomically(path, (",".join(_COLUMNS) + "\n").encode())
    values = [*astuple(trial.setting), *(getattr(trial, criterion) for criterion in CRITERIA)]
    with path.open("a", encoding="utf-8") as file:
        file.write(",".join(repr(float(value)) for value in values) + "\n")


def _read(path: Path) -> list[Trial]:
    """The trials of a file; an incomplete last line is removed from it."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    complete = text[: text.rfind("\n") + 1]
    if complete != text:
        write_atomically(path, complete.encode())
    rows = list(csv.reader(complete.splitlines()))
    if not rows or rows[0] != _COLUMNS:
        raise InputError(f"{path} begins with {rows[:1]}, expected {','.join(_COLUMNS)}: move it away.")
    try:
        numbers = [[float(cell) for cell in row] for row in rows[1:]]
        count = len(_FIELDS)
        return [Trial(Setting(*row[:count]), **dict(zip(CRITERIA, row[count:], strict=True))) for row in numbers]
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} holds a line that is not a trial: {error}. Remove it.") from error
