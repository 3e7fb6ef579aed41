"""The folder of a run: started, or resumed, only with settings that fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from densefield.errors import InputError
from densefield.io.files import write_atomically
from densefield.nn.segmenter import Segmenter
from densefield.runs.checkpoint import read_checkpoint, start_from
from densefield.runs.config import Config
from densefield.runs.run_checks import check_start
from densefield.runs.run_files import LAST, SETTINGS, check_run_folder
from densefield.runs.settings import config_from, differences, to_toml

# Where files are and how many processes read them: results do not depend on it.
_FREE = ("data.root", "data.sbd", "training.workers", "training.start_from")


def find_checkpoint(run: Path, config: Config, resume: bool) -> dict[str, Any] | None:
    """The checkpoint to resume from; None for a new run."""
    if not check_run_folder(run, resume):
        return None
    checkpoint = read_checkpoint(run / LAST)
    lines = differences(config_from(checkpoint["config"]), config)
    other = [line for line in lines if line.partition(":")[0] not in _FREE]
    if other:
        raise InputError(
            f"{run} was started with other settings (then, now):"
            + "".join(f"\n  {line}" for line in other)
            + "\nResume it with the same settings, or start a new run from its weights with training.start_from."
        )
    return checkpoint


def begin(segmenter: Segmenter, config: Config) -> str:
    """Loads the weights that the settings say a new run starts from; returns a line on it."""
    check_start(config)
    stage, source = config.training.stage, config.training.start_from
    return f"stage {stage}" if source is None else f"stage {stage}: {start_from(segmenter, source)}"


def write_settings(run: Path, config: Config) -> None:
    """All settings, to RUN/config.toml."""
    write_atomically(run / SETTINGS, to_toml(config).encode())
