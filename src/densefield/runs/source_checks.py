"""Checks of what a user names, before torch is loaded or anything is computed."""

from __future__ import annotations

from pathlib import Path

from densefield.crf.crf_file import read_crf
from densefield.crf.kernels import Custom
from densefield.crf.model import CRF
from densefield.datasets.folder import list_split
from densefield.errors import InputError
from densefield.runs.run_files import CHECKPOINTS, checkpoint_file
from densefield.runs.score_files import FIRST, SUFFIXES, find_score_files, is_score_folder, read_scores


def check_sources(scores: Path, data: Path | None, split: str | None, probabilities: bool = False) -> None:
    """Raises where `open_scores` of these arguments would, as far as that can be told within a second."""
    if not names_score_files(scores, probabilities):
        checkpoint_file(scores)
        if data is not None:
            list_split(data, split)
        return
    if data is None:
        raise InputError(f"{scores} holds scores without images: name the folder of the data too.")
    ids = [entry.id for entry in list_split(data, split).entries]
    files = find_score_files(scores)
    used = check_names(scores, files, ids)
    failures = []
    for name in used[:FIRST]:  # one damaged file is left out later; what is wrong with all of them is said now
        try:
            read_scores(files[name], probabilities=probabilities)
            return
        except InputError as error:
            failures.append(error)
    raise failures[0]


def read_photo_crf(path: Path, num_classes: int | None = None) -> CRF:
    """The CRF in a file, which must compare positions and colours alone: there are no other features of photos."""
    crf = read_crf(path, num_classes)
    for place, kernel in enumerate(crf.kernels):
        if isinstance(kernel, Custom):
            raise InputError(
                f"{path}: kernels.{place}: compares {kernel.feature!r}, but there are positions and colours alone. Use "
                "CRF.load(path).solve(scores, image, features=…) in Python."
            )
    return crf


def names_score_files(scores: Path, probabilities: bool) -> bool:
    """Whether the path is a folder of files of scores; raises where it is neither that nor a run."""
    if is_score_folder(scores) and not (scores / CHECKPOINTS).is_dir():
        return True
    if scores.is_dir() and not (scores / CHECKPOINTS).is_dir():
        kinds = " or ".join(f"ID{suffix}" for suffix in SUFFIXES)
        raise InputError(f"{scores} is neither a run with a checkpoint nor a folder of scores ({kinds}).")
    if probabilities:
        raise InputError(f"{scores} is a run, whose network gives logits: leave out probabilities=True.")
    return False


def check_names(folder: Path, files: dict[str, Path], ids: list[str] | tuple[str, ...]) -> list[str]:
    """The images that have a file, in their order; raises where none has."""
    used = [id for id in ids if id in files]
    if not used:
        raise InputError(
            f"none of the {len(files)} files in {folder} has the name of one of the {len(ids)} images: expected names "
            f"such as {ids[0]}.npz."
        )
    return used
