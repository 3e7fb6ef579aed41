"""Files and folders that a user names, checked before torch is loaded or anything is computed."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from densefield.crf.crf_file import read_crf
from densefield.crf.kernels import Custom
from densefield.crf.model import CRF
from densefield.errors import InputError
from densefield.runs.references import OBJECT

if TYPE_CHECKING:
    from densefield.runs.config import Config

CHECKPOINTS = "checkpoints"
LAST, BEST, PREVIOUS = (Path(CHECKPOINTS, f"{name}.pt") for name in ("last", "best", "previous"))
SETTINGS = Path("config.toml")


def checkpoint_file(path: str | PathLike[str]) -> Path:
    """The file itself, or the best checkpoint of a run (the last one before the first validation).

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


def check_run(config: Config, run: Path, resume: bool) -> None:
    """Raises if training cannot start: because of the run's folder, the files of weights, or those of the data."""
    from densefield.runs.splits import check_splits

    for key, name in {"network.name": config.network.name, "data.kind": config.data.kind}.items():
        if name == OBJECT:
            raise InputError(
                f"{key} is {OBJECT!r}, a Python object that was passed to densefield.train: name a function that "
                "returns it, package.module:function."
            )
    if not check_run_folder(run, resume):
        check_start(config)
    weights = config.network.pretrained
    if isinstance(weights, str) and not Path(weights).is_file():
        raise InputError(f"network.pretrained is {weights!r}, but there is no such file.")
    check_splits(config.data)


def check_run_folder(run: Path, resume: bool) -> bool:
    """Whether the run is to be resumed from its last checkpoint; raises if a new run would overwrite one."""
    nearest = next((place for place in (run, *run.parents) if place.exists()), Path())
    if not nearest.is_dir():
        raise InputError(f"{nearest} is a file, expected a folder for the run.")
    if not (run / LAST).exists():
        return False
    if not resume:
        raise InputError(f"{run} holds a run already. Resume it with resume=True, or name another folder.")
    return True


def check_start(config: Config) -> None:
    """Raises if the weights that a new run starts from do not exist."""
    if config.training.start_from is not None:
        checkpoint_file(config.training.start_from)
    if config.training.stage == 1 and config.network.frozen:
        raise InputError(
            "network.frozen is true in stage 1, where nothing else is learnt: set training.stage=2, or freeze "
            "the network in [stage2.network]."
        )
    # The user's network has the weights that it comes with.
    if config.training.start_from is None and config.training.stage == 2 and not config.network.is_own:
        raise InputError("stage 2 starts from the weights of stage 1: name its run with training.start_from.")


def check_result_folder(out: Path) -> None:
    """Raises if results cannot be written because a file is in the way."""
    nearest = next((place for place in (out, *out.parents) if place.exists()), Path())
    if not nearest.is_dir():
        raise InputError(f"{nearest} is a file, expected a folder for the results.")


def read_photo_crf(path: Path, num_classes: int | None = None) -> CRF:
    """The CRF in a file; raises if it has custom kernels, since photos have positions and colours only."""
    crf = read_crf(path, num_classes)
    for place, kernel in enumerate(crf.kernels):
        if isinstance(kernel, Custom):
            raise InputError(
                f"{path}: kernels.{place}: compares {kernel.feature!r}, but photos have positions and colours only. "
                "Use CRF.load(path).solve(scores, image, features=…) in Python."
            )
    return crf
