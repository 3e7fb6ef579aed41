"""Scores of a network in files: the logits or probabilities of one image in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from densefield.crf.unary import kind_of_scores
from densefield.datasets.folder import list_split
from densefield.errors import InputError, warn
from densefield.io.untrusted import read_array
from densefield.runs.references import names_function
from densefield.runs.run_folder import CHECKPOINTS, checkpoint_file

SUFFIXES = (".npz", ".npy")
FIRST = 3  # files: if none of them can be used, all are taken to be wrong
LOGITS, PROBABILITIES = "logits", "probabilities"


class FileScores(NamedTuple):
    """Scores (L, rows, columns) of a file, and whether they are probabilities."""

    values: npt.NDArray[np.float32]
    are_probabilities: bool


def check_sources(scores: Path, data: Path | None, split: str | None, probabilities: bool = False) -> None:
    """Raises the errors of `open_scores` that can be found within a second, without torch."""
    if not names_score_files(scores, probabilities):
        checkpoint_file(scores)
        if data is not None and not names_function(data):
            list_split(data, split)
        return
    if data is None:
        raise InputError(f"{scores} holds scores without images: name the folder of the data too.")
    if names_function(data):
        return
    ids = [entry.id for entry in list_split(data, split).entries]
    files = find_score_files(scores)
    read_first([files[name] for name in images_with_scores(scores, files, ids)], None, probabilities)


def split_list(splits: str | None) -> list[str | None]:
    """The splits in a list such as "train,val"; None for the default split.

    >>> split_list("train, val"), split_list(None)
    (['train', 'val'], [None])
    """
    if splits is None:
        return [None]
    names = [name.strip() for name in splits.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise InputError(f"split is {splits!r}, expected a name, or different names such as train,val.")
    return [*names]


def names_score_files(scores: Path, probabilities: bool) -> bool:
    """Whether the path is a folder of score files; raises if it is neither that nor a run or checkpoint."""
    if scores.is_dir() and not (scores / CHECKPOINTS).is_dir():
        if any(each.suffix in SUFFIXES for each in scores.iterdir()):
            return True
        kinds = " or ".join(f"ID{suffix}" for suffix in SUFFIXES)
        raise InputError(f"{scores} is neither a run with a checkpoint nor a folder of scores ({kinds}).")
    if probabilities:
        raise InputError(f"{scores} is a run, whose network gives logits: leave out probabilities=True.")
    return False


def find_score_files(folder: Path) -> dict[str, Path]:
    """The score files of a folder by their names without suffix, which are the ids of images."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}, expected one with scores as ID.npz or ID.npy.")
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix not in SUFFIXES or path.name.startswith("."):
            continue
        if path.stem in found:
            raise InputError(f"{found[path.stem]} and {path} are scores of the same image: remove one of them.")
        found[path.stem] = path
    return found


def images_with_scores(folder: Path, files: Mapping[str, Path], ids: Sequence[str]) -> list[str]:
    """The ids of images that have a score file, in order; raises if none has."""
    used = [id for id in ids if id in files]
    if not used:
        raise InputError(
            f"none of the {len(files)} files in {folder} has the name of one of the {len(ids)} images: expected names "
            f"such as {ids[0]}.npz."
        )
    return used


def read_first(files: Sequence[Path], num_classes: int | None, probabilities: bool) -> tuple[Path, FileScores]:
    """The first file that can be read; raises if the first few cannot, since then all are probably wrong."""
    failures = []
    for path in files[:FIRST]:
        try:
            return path, read_scores(path, num_classes, probabilities)
        except InputError as error:
            failures.append(error)
    raise failures[0]


def read_scores(path: Path, num_classes: int | None = None, probabilities: bool = False) -> FileScores:
    """The scores in a file, checked.

    Parameters
    ----------
    path
        An `.npy` file, or an `.npz` file with one array, or with one named "logits" or "probabilities".
    num_classes
        The number of classes, if known.
    probabilities
        The file holds probabilities; so does an array of this name. Probabilities passed as logits, and logits passed
        as probabilities, are errors.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "cat.npy"), np.full((4, 2, 3), 0.25, np.float16))
    ...     read_scores(Path(folder, "cat.npy"), num_classes=4, probabilities=True).are_probabilities
    True
    """
    name, values = read_array(path, partial(_array_name, path, probabilities))
    are_probabilities = probabilities or name == PROBABILITIES
    return FileScores(checked_scores(values, path, num_classes, are_probabilities), are_probabilities)


def checked_scores(
    values: npt.NDArray[Any], source: Path | str, num_classes: int | None, are_probabilities: bool
) -> npt.NDArray[np.float32]:
    """Scores (L, rows, columns) in single precision; errors begin with the `source`, a file or the name of an image."""
    expected = f"({'classes' if num_classes is None else num_classes}, rows, columns)"
    if values.dtype.kind != "f":
        raise InputError(f"{source} holds {values.dtype}, expected scores in floating point numbers, {expected}.")
    if values.ndim != 3 or 0 in values.shape or num_classes not in (None, len(values)):
        hint = ""
        if values.ndim == 3 and values.shape[-1] == num_classes:
            hint = " The classes are its last axis: use numpy.moveaxis(scores, -1, 0)."
        elif values.ndim == 4 and len(values) == 1:
            hint = " Use scores[0]."
        raise InputError(f"{source} holds scores of shape {values.shape}, expected {expected}.{hint}")
    if not np.isfinite(values).all():
        raise InputError(f"{source} holds NaN or infinity, expected finite scores.")
    _check_kind(source, values, are_probabilities)
    return values.astype(np.float32)


def warn_of_sigmoid(path: Path, scores: FileScores) -> None:
    """Warns if logits are all between 0 and 1, like the outputs of a sigmoid."""
    values = scores.values
    low, high = float(values.min()), float(values.max())
    if not scores.are_probabilities and 0 <= low < high <= 1:
        warn(
            f"{path} holds values from {low:.3g} to {high:.3g} that do not sum to 1 over the classes, and they are "
            "used as logits. If they are the outputs of a sigmoid, save its inputs instead; if they are "
            "probabilities, divide them by their sum over the classes and pass probabilities=True."
        )


def _array_name(path: Path, probabilities: bool, names: list[str]) -> str:
    """The array of an archive that holds the scores."""
    known = (PROBABILITIES, LOGITS) if probabilities else (LOGITS, PROBABILITIES)
    if len(names) == 1:
        return names[0]
    for name in (*known, "arr_0"):
        if name in names:
            return name
    raise InputError(f"{path} holds the arrays {', '.join(names) or '(none)'}, expected one, or one named {LOGITS}.")


def _check_kind(source: Path | str, values: npt.NDArray[np.floating], are_probabilities: bool) -> None:
    """Raises if probabilities are passed as logits, or logits as probabilities."""
    if not are_probabilities:
        kind = kind_of_scores(values)
        if kind == "probabilities":
            raise InputError(
                f"{source} holds probabilities: from {values.min():.3g} to {values.max():.3g}, with sum 1 over the "
                "classes, but logits are expected. Pass probabilities=True."
            )
        if kind == "energies":
            raise InputError(f"{source} holds energies, -log p, but logits are expected. Use -energies.")
        return
    low, high = float(values.min()), float(values.max())
    total = values.sum(axis=0, dtype=np.float64)
    # Half precision rounds each probability by up to 1/4096 of itself; resizing preserves sums.
    if low < -1e-3 or high > 1 + 1e-3 or abs(total - 1).max() > 0.02:
        raise InputError(
            f"{source} holds values from {low:.3g} to {high:.3g}, with sums over the classes from {total.min():.3g} to "
            f"{total.max():.3g}, expected probabilities, which are from 0 to 1 with sum 1. For logits leave out "
            "probabilities=True."
        )
