"""Scores of a network in files: logits or probabilities of one image in each."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from densefield.crf.unary import kind_of_scores
from densefield.errors import InputError, warn
from densefield.io.untrusted import read_array

SUFFIXES = (".npz", ".npy")
FIRST = 3  # files: where none of them can be used, none is expected to be
LOGITS, PROBABILITIES = "logits", "probabilities"


class FileScores(NamedTuple):
    """Scores (L, rows, columns) of a file, and whether they are probabilities."""

    values: npt.NDArray[np.float32]
    are_probabilities: bool


def is_score_folder(path: Path) -> bool:
    """Whether a path is a folder of files of scores, rather than a run or a checkpoint."""
    return path.is_dir() and any(each.suffix in SUFFIXES for each in path.iterdir())


def find_score_files(folder: Path) -> dict[str, Path]:
    """The files of scores in a folder by their names without suffix, which are the ids of images."""
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


def read_scores(path: Path, num_classes: int | None = None, probabilities: bool = False) -> FileScores:
    """The scores in a file, checked.

    * ``labels``: how many labels there are, if it is known.
    * ``probabilities``: the file holds probabilities; so it does where its array has this name. Probabilities that are
      taken for logits, and logits that are taken for probabilities, are refused.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "cat.npy"), np.full((4, 2, 3), 0.25, np.float16))
    ...     read_scores(Path(folder, "cat.npy"), num_classes=4, probabilities=True).are_probabilities
    True
    """
    name, values = read_array(path, partial(_array_name, path, probabilities))
    expected = f"({'labels' if num_classes is None else num_classes}, rows, columns)"
    if values.dtype.kind != "f":
        raise InputError(f"{path} holds {values.dtype}, expected scores in floating point numbers, {expected}.")
    if values.ndim != 3 or 0 in values.shape or num_classes not in (None, len(values)):
        hint = ""
        if values.ndim == 3 and values.shape[-1] == num_classes:
            hint = " The labels are its last axis: save numpy.moveaxis(scores, -1, 0)."
        elif values.ndim == 4 and len(values) == 1:
            hint = " Save scores[0]."
        raise InputError(f"{path} holds scores of shape {values.shape}, expected {expected}.{hint}")
    if not np.isfinite(values).all():
        raise InputError(f"{path} holds NaN or infinity, expected finite scores.")
    are_probabilities = probabilities or name == PROBABILITIES
    _check_kind(path, values, are_probabilities)
    return FileScores(values.astype(np.float32), are_probabilities)


def warn_of_sigmoid(path: Path, scores: FileScores) -> None:
    """Warns where scores that are taken for logits are all between 0 and 1, as the outputs of a sigmoid are."""
    values = scores.values
    low, high = float(values.min()), float(values.max())
    if not scores.are_probabilities and 0 <= low < high <= 1:
        warn(
            f"{path} holds values from {low:.3g} to {high:.3g} that do not sum to 1 over the labels, and they are "
            "taken for logits. If they are the outputs of a sigmoid, save what went into it; if they are "
            "probabilities, divide them by their sum over the labels and pass probabilities=True."
        )


def _array_name(path: Path, probabilities: bool, names: list[str]) -> str:
    """The array of an archive that holds the scores."""
    known = (PROBABILITIES, LOGITS) if probabilities else (LOGITS, PROBABILITIES)
    name = next((each for each in (*known, "arr_0") if each in names), None)
    if name is None and len(names) == 1:
        return names[0]
    if name is None:
        raise InputError(
            f"{path} holds the arrays {', '.join(names) or '(none)'}, expected one, or one named {LOGITS}."
        )
    return name


def _check_kind(path: Path, values: npt.NDArray[np.floating], are_probabilities: bool) -> None:
    """Raises where probabilities are taken for logits, or the other way round."""
    if not are_probabilities:
        kind = kind_of_scores(values)
        if kind == "probabilities":
            raise InputError(
                f"{path} holds probabilities: from {values.min():.3g} to {values.max():.3g}, with sum 1 over the "
                "labels, but logits are expected. Pass probabilities=True."
            )
        if kind == "energies":
            raise InputError(f"{path} holds energies, -log p, but logits are expected. Save -energies.")
        return
    low, high = float(values.min()), float(values.max())
    total = values.sum(axis=0, dtype=np.float64)
    # Half precision rounds each probability by up to 1/4096 of itself; resizing keeps sums.
    if low < -1e-3 or high > 1 + 1e-3 or abs(total - 1).max() > 0.02:
        raise InputError(
            f"{path} holds values from {low:.3g} to {high:.3g}, with sums over the labels from {total.min():.3g} to "
            f"{total.max():.3g}, expected probabilities, which are from 0 to 1 with sum 1. For logits leave out "
            "probabilities=True."
        )
