"""The files of a run, by their names."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from densefield.errors import InputError

CHECKPOINTS = "checkpoints"
LAST, BEST, PREVIOUS = (Path(CHECKPOINTS, f"{name}.pt") for name in ("last", "best", "previous"))
SETTINGS = Path("config.toml")


def checkpoint_file(path: str | PathLike[str]) -> Path:
    """The file itself, or the best checkpoint of a run (the last one, where none was validated yet).

    >>> checkpoint_file("nowhere")
    Traceback (most recent call last):
        ...
    densefield.errors.InputError: there is no nowhere, expected the folder of a run, or a checkpoint.
    """
    place = Path(path)
    if not place.is_dir():
        if not place.exists():
            raise InputError(f"there is no {place}, expected the folder of a run, or a checkpoint.")
        return place
    found = [place / name for name in (BEST, LAST) if (place / name).exists()]
    if not found:
        raise InputError(f"{place} has no {BEST}, expected the folder of a run, or a checkpoint.")
    return found[0]


def check_run_folder(run: Path, resume: bool) -> bool:
    """Whether a run is to be resumed from its last checkpoint; raises where a new run would overwrite one."""
    if run.exists() and not run.is_dir():
        raise InputError(f"{run} is a file, expected a folder for the run.")
    if not (run / LAST).exists():
        return False
    if not resume:
        raise InputError(f"{run} holds a run already. Resume it with resume=True, or name another folder.")
    return True


def check_result_folder(out: Path) -> None:
    """Raises where results cannot be written, since a file is in the way."""
    for place in (out, *out.parents):
        if place.exists():
            if not place.is_dir():
                raise InputError(f"{place} is a file, expected a folder for the results.")
            return
