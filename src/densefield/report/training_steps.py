"""The number of steps for which a network was trained, over both stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def _source(training: Training, known: Mapping[Path, Training]) -> Training | None:
    """The run with whose weights a training started: `training.start_from` of its settings."""
    try:
        table = read_toml(training.folder / SETTINGS, "the settings of a run").get("training")
    except InputError:
        return None
    start = table.get("start_from") if isinstance(table, Mapping) else None
    if not isinstance(start, str) or "\0" in start:
        return None
    path = Path(start)
    return next((known[place] for place in (path, *list(path.parents)[:2]) if place in known), None)  # or a checkpoint
