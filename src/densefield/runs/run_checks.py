"""Checks of a run before torch is loaded or anything is computed."""

from __future__ import annotations

from pathlib import Path

from densefield.errors import InputError
from densefield.runs.config import Config
from densefield.runs.run_files import check_run_folder, checkpoint_file
from densefield.runs.splits import check_splits


def check_run(config: Config, run: Path, resume: bool) -> None:
    """Raises where training cannot start: the folder of the run, the files of weights and those of the data."""
    if not check_run_folder(run, resume):
        check_start(config)
    weights = config.network.pretrained
    if isinstance(weights, str) and not Path(weights).is_file():
        raise InputError(f"network.pretrained is {weights!r}, but there is no such file.")
    check_splits(config.data)


def check_start(config: Config) -> None:
    """Raises where the weights that a new run starts from are not there."""
    if config.training.start_from is not None:
        checkpoint_file(config.training.start_from)
    elif config.training.stage == 2:
        raise InputError("stage 2 starts from the weights of stage 1: name its run with training.start_from.")
