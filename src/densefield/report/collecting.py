"""Logs, settings, evaluations and tunings in the folders of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeVar

from densefield.errors import InputError, InputTypeError
from densefield.evaluation.evaluation import RESULT, read_evaluation
from densefield.evaluation.result import EvaluationResult
from densefield.io.files import read_json
from densefield.io.messages import cause
from densefield.metrics.metrics import SegmentationResult
from densefield.report.arguments import check_folder, check_names, named_folders
from densefield.report.result_checks import check_evaluation, check_tuning
from densefield.runs.run_folder import SETTINGS
from densefield.training.log import TABLE, read_log

METHODS = {"network": "network", "crf": "CRF"}  # titles

# Folders, each as NAME=FOLDER or alone; or folders, and results without files, by name.
Folder = str | PathLike[str]
Runs = Sequence[Folder] | Mapping[str, Folder | EvaluationResult]

T = TypeVar("T")


def titled(name: str, part: str) -> str:
    """A run and a part of it, such as one of its methods; a run that is named after the part is not "network, network".

    >>> titled("joint", "CRF"), titled("Network", "network"), titled("joint", "")
    ('joint, CRF', 'Network', 'joint')
    """
    return name if name.lower() == part.lower() or not part else f"{name}, {part}"


@dataclass(frozen=True)
class Training:
    """The log of a run, each column a list with None for blank cells."""

    name: str
    stage: int
    columns: dict[str, list[float | None]]
    settings: str
    folder: Path = Path()

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
    training: Training | None = None  # of the run that was evaluated, if its log was found

    @property
    def title(self) -> str:
        """The title in tables and legends."""
        return titled(self.name, METHODS[self.method])

    @property
    def phrase(self) -> str:
        """The method in a sentence."""
        named = titled(self.name, METHODS[self.method]) != self.name
        if self.method == "network":
            return f"the network alone ({self.name})" if named else "the network alone"
        return f"the CRF of {self.name}" if named else "the CRF"


@dataclass(frozen=True)
class Findings:
    """The content of the folders, in the order in which they were named."""

    trainings: list[Training] = field(default_factory=list)
    evaluations: list[tuple[str, Path, dict[str, Any]]] = field(default_factory=list)  # name, folder, result.json
    methods: list[Evaluated] = field(default_factory=list)
    tunings: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, the same in all evaluations; empty if there is none."""
        return tuple(self.evaluations[0][2]["classes"]) if self.evaluations else ()

    @property
    def class_titles(self) -> tuple[str, ...]:
        """The classes on the page: "label 5" for one whose name is just its number."""
        numbered = self.are_numbered
        return tuple(f"label {name}" if numbered else name for name in self.classes)

    @property
    def are_numbered(self) -> bool:
        """Whether the classes have no names: each is called by its number."""
        return self.classes == tuple(map(str, range(len(self.classes))))


def _check_types(runs: object) -> None:
    """Raises unless runs are folders, or a dict of names with folders or results."""
    expected = "folders in a list, or a dict of names with folders or results, such as {'crf': result}"
    if isinstance(runs, str | PathLike | EvaluationResult) or not isinstance(runs, Sequence | Mapping):
        came = repr(runs) if isinstance(runs, str) else f"of type {type(runs).__name__}"
        raise InputTypeError(f"runs is {came}, expected {expected}.")
    for each in runs.values() if isinstance(runs, Mapping) else runs:
        has_name = isinstance(runs, Mapping) and isinstance(each, EvaluationResult)
        if not has_name and not isinstance(each, str | PathLike):
            raise InputTypeError(f"a run is of type {type(each).__name__}, expected {expected}.")


def collect(runs: Runs) -> Findings:
    """Reads folders and their subfolders; a run is given as NAME=FOLDER, or as a folder.

    A dict of names has folders, or results of `evaluate` and `tune_crf` without files.
    """
    _check_types(runs)
    found = Findings()
    named = runs.items() if isinstance(runs, Mapping) else named_folders([fspath(run) for run in runs])
    for name, each in named:
        if isinstance(each, EvaluationResult):
            _add_result(found, name, each)
            continue
        folder = Path(each)
        check_folder(folder)
        logs = [(place, columns) for place in _places(folder, TABLE) if (columns := _columns(place))]
        results = [(place, read_json(place / RESULT)) for place in _places(folder, RESULT)]
        evaluated = [(place, result) for place, result in results if result.get("kind") == "evaluation"]
        tuned = [(place, result) for place, result in results if result.get("kind") == "tuning"]
        if not (logs or evaluated or tuned):
            raise InputError(
                f"{folder} has neither {TABLE} nor {RESULT} in it or in its folders: expected the files of "
                "`densefield train`, `eval` or `tune`."
            )
        for full, place, columns in _named(name, folder, logs):
            path = place / SETTINGS
            settings = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
            found.trainings.append(Training(full, int(columns["stage"][0] or 1), columns, settings, place))
        for full, place, result in _named(name, folder, evaluated):
            check_evaluation(place / RESULT, result)
            found.evaluations.append((full, place, result))
            _check_classes(place, result, found)
            _, by_method = read_evaluation(place)
            for method, metrics in by_method.items():
                found.methods.append(Evaluated(full, method, result["methods"][method], metrics))
        for full, place, result in _named(name, folder, tuned):
            check_tuning(place / RESULT, result)
            found.tunings.append((full, result))
    check_names([training.name for training in found.trainings])
    check_names([name for name, _, _ in found.evaluations])
    check_names([name for name, _ in found.tunings])
    trained = {training.folder.resolve(): training for training in found.trainings}
    of_run = {name: _training_of(folder, result, trained) for name, folder, result in found.evaluations}
    return replace(found, methods=[replace(method, training=of_run[method.name]) for method in found.methods])


def _training_of(folder: Path, result: Mapping[str, Any], trained: Mapping[Path, Training]) -> Training | None:
    """The training of the evaluated run: the one in the folder of the evaluation, above it, or of its scores."""
    about = result["about"].get("scores", "")
    scores = Path(about) if isinstance(about, str) and "\0" not in about else folder
    places = [folder.resolve(), folder.resolve().parent, scores, *list(scores.parents)[:2]]  # a checkpoint, or its run
    return next((trained[place] for place in places if place in trained), None)


def by_stage(methods: Sequence[Evaluated]) -> list[Evaluated]:
    """The methods as tables list them: those of stage 1 first, otherwise in their order."""
    return sorted(methods, key=lambda method: method.training is None or method.training.stage > 1)


def _add_result(found: Findings, name: str, result: EvaluationResult) -> None:
    """Adds the result of an evaluation, or of tuning, which has no folder."""
    if result["kind"] == "tuning":
        found.tunings.append((name, result.content))
        return
    found.evaluations.append((name, Path(name), result.content))
    _check_classes(name, result.content, found)
    for method, metrics in result.methods.items():
        found.methods.append(Evaluated(name, method, result["methods"][method], metrics))


def _check_classes(source: Path | str, result: Mapping[str, Any], found: Findings) -> None:
    """Raises unless the classes are those of the first evaluation."""
    if tuple(result["classes"]) != found.classes:
        raise InputError(
            f"{source} has the classes {', '.join(result['classes'])}, previous evaluations "
            f"{', '.join(found.classes)}: make separate reports."
        )


def _places(folder: Path, file: str) -> list[Path]:
    """The folders that have the file: the folder itself, and those one and two levels below."""
    return [path.parent for depth in ("", "*/", "*/*/") for path in sorted(folder.glob(f"{depth}{file}"))]


def _named(name: str, folder: Path, found: Sequence[tuple[Path, T]]) -> list[tuple[str, Path, T]]:
    """The items of a run with their names: that of the run, and for several items also their subfolders."""
    alone = len(found) == 1
    return [
        (name if alone or place == folder else f"{name}/{place.relative_to(folder).as_posix()}", place, content)
        for place, content in found
    ]


def _columns(folder: Path) -> dict[str, list[float | None]]:
    """The columns of a folder's log; none if it has no rows yet, or is another table."""
    try:
        rows = read_log(folder)
        if not rows or not {"step", "stage"} <= set(rows[0]):
            return {}
        return {column: [float(row[column]) if row[column] else None for row in rows] for column in rows[0]}
    except Exception as error:  # rows of other lengths, text instead of numbers, bytes that are not text
        raise InputError(f"{folder / TABLE} cannot be read: {cause(error)}.") from error
