"""What earlier stages wrote, found in the folders of runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from densefield.errors import InputError
from densefield.evaluation.evaluate import RESULT, read_evaluation
from densefield.metrics.result import SegmentationResult
from densefield.training.log import read_log

SETTINGS = "config.toml"

METHODS = {"network": "network", "crf": "CRF"}  # as people read them


@dataclass(frozen=True)
class Training:
    """The log of a run, each column a list with None where a cell is blank."""

    name: str
    stage: int
    columns: dict[str, list[float | None]]
    settings: str

    def curve(self, column: str) -> tuple[list[float], list[float]]:
        """The steps at which a column has a number, and the numbers.

        >>> Training("a", 1, {"step": [1.0, 2.0], "iou": [None, 0.5]}, "").curve("iou")
        ([2.0], [0.5])
        """
        pairs = zip(self.columns["step"], self.columns.get(column, []), strict=False)
        known = [(step, value) for step, value in pairs if step is not None and value is not None]
        return [step for step, _ in known], [value for _, value in known]


@dataclass(frozen=True)
class Evaluated:
    """One method of one evaluation."""

    name: str
    method: str
    summary: dict[str, Any]
    result: SegmentationResult

    @property
    def title(self) -> str:
        """As it stands in tables and legends."""
        return f"{self.name}, {METHODS[self.method]}"


@dataclass(frozen=True)
class Findings:
    """All that was found in the folders."""

    trainings: list[Training] = field(default_factory=list)
    evaluations: list[tuple[str, Path, dict[str, Any]]] = field(default_factory=list)  # name, folder, result.json
    methods: list[Evaluated] = field(default_factory=list)
    tunings: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    classes: tuple[str, ...] = ()


def collect(runs: Sequence[str]) -> Findings:
    """Logs, settings, evaluations and tunings in folders and their sub-folders; a run is named as NAME=FOLDER, or by
    the name of its folder.
    """
    found = Findings()
    classes: tuple[str, ...] = ()
    for run in runs:
        name, folder = split_name(run)
        if not folder.is_dir():
            raise InputError(f"there is no folder {folder}.")
        before = len(found.trainings) + len(found.methods) + len(found.tunings)
        if read_log(folder):
            found.trainings.append(_training(name, folder))
        results = [(path.parent, _read(path)) for path in _result_files(folder)]
        judged = [(place, result) for place, result in results if result.get("kind") == "evaluation"]
        for place, result in judged:
            several = name if len(judged) == 1 else f"{name}/{place.relative_to(folder)}"
            classes = _same_classes(classes, tuple(result["classes"]), place)
            _, by_method = read_evaluation(place)
            found.evaluations.append((several, place, result))
            for method, each in by_method.items():
                found.methods.append(Evaluated(several, method, result["methods"][method], each))
        found.tunings.extend((name, result) for _, result in results if result.get("kind") == "tuning")
        if len(found.trainings) + len(found.methods) + len(found.tunings) == before:
            raise InputError(
                f"{folder} has neither log.csv nor {RESULT} in it or in its folders: expected what `densefield train`, "
                "`eval` or `tune` wrote."
            )
    return Findings(found.trainings, found.evaluations, found.methods, found.tunings, classes)


def split_name(run: str) -> tuple[str, Path]:
    """NAME=FOLDER, or a folder that gives its own name.

    >>> split_name("joint=runs/7"), split_name("runs/7")
    (('joint', PosixPath('runs/7')), ('7', PosixPath('runs/7')))
    """
    name, equals, path = run.partition("=")
    if equals and not Path(run).exists():
        return name, Path(path)
    return Path(run).resolve().name, Path(run)


def _result_files(folder: Path) -> list[Path]:
    """In the folder itself, and one and two folders below."""
    return [path for depth in ("", "*/", "*/*/") for path in sorted(folder.glob(f"{depth}{RESULT}"))]


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from error
    return content if isinstance(content, dict) else {}


def _training(name: str, folder: Path) -> Training:
    rows = read_log(folder)
    columns: dict[str, list[float | None]] = {
        column: [float(row[column]) if row[column] else None for row in rows] for column in rows[0]
    }
    settings = folder / SETTINGS
    text = settings.read_text(encoding="utf-8") if settings.exists() else ""
    return Training(name, int(columns["stage"][0] or 1), columns, text)


def _same_classes(known: tuple[str, ...], classes: tuple[str, ...], place: Path) -> tuple[str, ...]:
    if known and known != classes:
        raise InputError(
            f"{place} has the labels {', '.join(classes)}, the evaluations before it {', '.join(known)}: make a report "
            "for each."
        )
    return classes
