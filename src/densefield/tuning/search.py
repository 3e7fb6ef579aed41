"""Kernel shapes and weights found by trying them."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from densefield.errors import InputError
from densefield.io.files import write_atomically
from densefield.metrics.metrics import LOWER_IS_BETTER, METRICS, SegmentationResult
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.score_sources import Uncomputable
from densefield.tuning.space import CRITERIA, Criterion, Setting


@dataclass(frozen=True)
class Trial:
    """A setting, and how good it is on the learning images."""

    setting: Setting
    negative_log_likelihood: float
    mean_iou: float
    pixel_accuracy: float

    def better_than(self, other: Trial, criterion: Criterion) -> bool:
        """By that measure."""
        mine, others = getattr(self, criterion), getattr(other, criterion)
        return bool(mine < others if METRICS[criterion] in LOWER_IS_BETTER else mine > others)


def search(
    settings: Sequence[Setting],
    evaluate: Callable[[DenseCRF], SegmentationResult],
    make_crf: Callable[[Setting], DenseCRF],
    trials_file: Path,
    progress: Callable[[int, int], None] | None = None,
) -> list[Trial]:
    """Tries every setting; each trial is added to the file when it is done, and what is in the file is not tried again.

    A setting whose kernels cannot be computed counts as infinitely bad.
    """
    known = {trial.setting: trial for trial in _read(trials_file)}
    trials = []
    for number, setting in enumerate(settings, start=1):
        if setting not in known:
            known[setting] = _tried(setting, evaluate, make_crf)
            _append(trials_file, known[setting])
        trials.append(known[setting])
        if progress is not None:
            progress(number, len(settings))
    return trials


def best(trials: Sequence[Trial], criterion: Criterion) -> Trial:
    """The best trial by a measure; of equal ones the first."""
    if not any(math.isfinite(trial.negative_log_likelihood) for trial in trials):
        raise InputError(
            f"none of {len(trials)} settings could be computed, expected one or more: are their widths far too narrow "
            "for these images?"
        )
    found = trials[0]
    for trial in trials[1:]:
        if trial.better_than(found, criterion):
            found = trial
    return found


def _tried(
    setting: Setting, evaluate: Callable[[DenseCRF], SegmentationResult], make_crf: Callable[[Setting], DenseCRF]
) -> Trial:
    try:
        result = evaluate(make_crf(setting))
    except Uncomputable:
        return Trial(setting, math.inf, 0.0, 0.0)
    return Trial(setting, result.negative_log_likelihood, result.mean_iou, result.pixel_accuracy)


_PARTS = [field.name for field in fields(Setting)]
_COLUMNS = [*_PARTS, *CRITERIA]


def _append(path: Path, trial: Trial) -> None:
    if not path.exists():
        write_atomically(path, (",".join(_COLUMNS) + "\n").encode())
    values = [*astuple(trial.setting), *(getattr(trial, criterion) for criterion in CRITERIA)]
    with path.open("a", encoding="utf-8") as file:
        file.write(",".join(repr(float(value)) for value in values) + "\n")


def _read(path: Path) -> list[Trial]:
    """The trials of a file; a last line that was cut off is removed from it."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        write_atomically(path, whole.encode())
    rows = list(csv.reader(whole.splitlines()))
    if not rows or rows[0] != _COLUMNS:
        raise InputError(f"{path} begins with {rows[:1]}, expected {','.join(_COLUMNS)}: move it away.")
    try:
        numbers = [[float(cell) for cell in row] for row in rows[1:]]
        count = len(_PARTS)
        return [Trial(Setting(*row[:count]), **dict(zip(CRITERIA, row[count:], strict=True))) for row in numbers]
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} holds a line that is no trial: {error}. Remove it.") from error
