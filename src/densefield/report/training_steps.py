"""The steps for which a network was trained, over both stages, and the time they took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from densefield.crf.crf_file import read_toml
from densefield.errors import InputError
from densefield.report.collecting import Training
from densefield.runs.run_folder import SETTINGS


def steps_of(training: Training | None, trainings: Sequence[Training]) -> str:
    """The steps of each stage, such as "60 + 20", or "20 in stage 2" if the page has no run of its stage 1.

    Without a log it is "".

    >>> steps_of(Training("a", 1, {"step": [1.0, 60.0]}, ""), [])
    '60'
    """
    if training is None:
        return ""
    known = {each.folder.resolve(): each for each in trainings}
    counts, seen, run = [_steps(training)], {training.folder.resolve()}, training
    while (source := _source(run, known)) is not None and source.folder.resolve() not in seen:
        seen.add(source.folder.resolve())
        counts.insert(0, _steps(source))
        run = source
    text = " + ".join(f"{count:g}" for count in counts)
    return text if run.stage == 1 else f"{text} in stage {run.stage}"


def _steps(training: Training) -> float:
    return max((step for step in training.columns["step"] if step is not None), default=0.0)


def start_of(training: Training) -> str | None:
    """The run or checkpoint with whose weights a training started: `training.start_from` of its settings."""
    start = _training_settings(training).get("start_from")
    return start if isinstance(start, str) and "\0" not in start else None


def seconds_of(training: Training) -> float | None:
    """The seconds of all steps, without those of validation; None if the log or the settings do not tell."""
    batch = _training_settings(training).get("batch")
    speeds = dict(zip(*training.curve("images_per_second"), strict=True))
    if type(batch) is not int or not speeds or min(speeds.values()) <= 0:
        return None
    return sum((step - before) * batch / speeds[step] for before, step in pairwise([0.0, *speeds]))


def _training_settings(training: Training) -> Mapping[str, object]:
    try:
        table = read_toml(training.folder / SETTINGS, "the settings of a run").get("training")
    except InputError:
        return {}
    return table if isinstance(table, Mapping) else {}


def _source(training: Training, known: Mapping[Path, Training]) -> Training | None:
    """The run with whose weights a training started."""
    start = start_of(training)
    if start is None:
        return None
    path = Path(start)
    return next((known[place] for place in (path, *list(path.parents)[:2]) if place in known), None)  # or a checkpoint
