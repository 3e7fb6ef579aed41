"""How the results came about: commands, dates, seconds, versions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import fmean
from typing import Any

from densefield.evaluation.cases import CASES
from densefield.evaluation.views import read_crf_seconds
from densefield.io.folders import path_inside
from densefield.report.collecting import METHODS, Findings, Training, titled
from densefield.report.training_steps import seconds_of, start_of
from densefield.runs.run_folder import SETTINGS
from densefield.training.log import TABLE

FINGERPRINT = re.compile(r"[0-9a-f]{16}")  # of weights, or of names, sizes and times of files


@dataclass(frozen=True)
class Step:
    """A training, a tuning or an evaluation, with facts by title."""

    name: str
    kind: str
    command: str  # "" if it was not stored
    facts: dict[str, str]
    settings: str = ""
    repeats: bool = False  # the command repeats the step; what was typed is not stored


def steps(found: Findings) -> list[Step]:
    """Trainings of stage 1 and then of stage 2, tunings, and evaluations."""
    trainings = sorted(found.trainings, key=lambda training: training.stage)
    return [
        *(_training(training) for training in trainings),
        *(Step(name, "tuning", _command(result), _tuning_facts(result)) for name, result in found.tunings),
        *(_evaluation(name, folder, result) for name, folder, result in found.evaluations),
    ]


def environments(found: Findings) -> list[dict[str, Any]]:
    """The hardware and versions of results, each once."""
    known: list[dict[str, Any]] = []
    for result in [result for _, _, result in found.evaluations] + [result for _, result in found.tunings]:
        if result["machine"] not in known:
            known.append(result["machine"])
    return known


def temperature_note(found: Findings) -> str:
    """Which methods have log marginals that were divided by a temperature; "" if none has."""
    divided = [
        f"{titled(name, METHODS[method])} by {temperature:.3g}"
        for name, _, result in found.evaluations
        for method, temperature in result.get("temperatures", {}).items()
        if temperature != 1
    ]
    if not divided:
        return ""
    return f"Log marginals are divided by a temperature, which changes NLL and calibration: {', '.join(divided)}."


def _training(training: Training) -> Step:
    settings = training.folder / SETTINGS
    words = ["densefield", "train", str(settings), "--run", f"{training.folder}-again"]
    if (start := start_of(training)) is not None:
        words += ["--from", start]
    facts = {"steps": f"{max((step for step in training.columns['step'] if step is not None), default=0):g}"}
    log = training.folder / TABLE
    if log.exists():
        facts["last entry of the log"] = _date(datetime.fromtimestamp(log.stat().st_mtime, timezone.utc))
    speeds = training.curve("images_per_second")[1]
    if speeds:
        facts["images per second"] = f"{fmean(speeds):.1f}"
    seconds = seconds_of(training)
    if seconds is not None:
        facts["time of training steps"] = _duration(seconds)
    command = shlex.join(words) if training.settings else ""
    return Step(training.name, f"training, stage {training.stage}", command, facts, training.settings, repeats=True)


def _tuning_facts(result: Mapping[str, Any]) -> dict[str, str]:
    return _date_of(result) | {"seconds": f"{result['seconds']:g}"} | _about(result)


def _evaluation(name: str, folder: Path, result: Mapping[str, Any]) -> Step:
    facts = {"images": str(len(result["images"]))}
    if result.get("left_out"):
        facts["images left out"] = str(len(result["left_out"]))
    facts |= _date_of(result)
    facts["seconds of the last command"] = f"{result['seconds']:g}"
    seconds = _crf_seconds(folder, result["images"]) if "crf" in result["methods"] else []
    if seconds:
        mean = fmean(seconds)
        facts["seconds in the CRF"] = f"{sum(seconds):.1f} for {len(seconds)} images, {1000 * mean:.0f} ms for each"
    facts |= _about(result)
    return Step(name, "evaluation", _command(result), facts, result.get("crf") or "")


def _crf_seconds(folder: Path, images: Sequence[str]) -> list[float]:
    """The seconds that the CRF took for each image, of those that have them."""
    known = (read_crf_seconds(path_inside(folder / CASES, f"{id}.npz")) for id in images)
    return [seconds for seconds in known if seconds is not None]


def _about(result: Mapping[str, Any]) -> dict[str, str]:
    """What was evaluated; hashes of files and weights are named fingerprints."""
    about = result.get("about", {})
    facts = {str(key): str(value) for key, value in about.items()} if isinstance(about, dict) else {}
    return {f"fingerprint of {key}" if FINGERPRINT.fullmatch(value) else key: value for key, value in facts.items()}


def _date_of(result: Mapping[str, Any]) -> dict[str, str]:
    date = result.get("date")
    return {"date": _written(date)} if isinstance(date, str) else {}


def _command(result: Mapping[str, Any]) -> str:
    command = result.get("command", "")
    return command if isinstance(command, str) else ""


def _duration(seconds: float) -> str:
    """Seconds, or minutes and seconds, or hours and minutes, which are not broken into lines.

    >>> [_duration(seconds).replace("\\xa0", " ") for seconds in (0.42, 59.96, 161.7, 40000)]
    ['0.4 s', '1 min 0 s', '2 min 42 s', '11 h 6 min']
    """
    whole = round(seconds)
    text = f"{seconds:.1f} s"
    if whole >= 3600:
        text = f"{whole // 3600} h {whole % 3600 // 60} min"
    elif whole >= 60:
        text = f"{whole // 60} min {whole % 60} s"
    return text.replace(" ", "\xa0")


def _written(date: str) -> str:
    """A date of ISO 8601 to the minute; other text as it is.

    >>> _written("2026-11-19T20:06:04+01:00").replace("\\xa0", " "), _written("yesterday")
    ('2026-11-19 19:06 UTC', 'yesterday')
    """
    try:
        return _date(datetime.fromisoformat(date).astimezone(timezone.utc))
    except (ValueError, OverflowError):
        return date


def _date(moment: datetime) -> str:
    """A date to the minute, which is not broken into lines.

    >>> _date(datetime(2026, 3, 1, 12, 30, 15, tzinfo=timezone.utc)).replace("\\xa0", " ")
    '2026-03-01 12:30 UTC'
    """
    return f"{moment:%Y-%m-%d %H:%M} UTC".replace(" ", "\xa0")
