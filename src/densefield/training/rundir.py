"""The folder of a run: begun, or gone on with, only where that makes sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from densefield.atomic import write_atomically
from densefield.errors import InputError
from densefield.segmenter import Segmenter
from densefield.training.checkpoint import LAST, read_checkpoint, start_from
from densefield.training.config import Config
from densefield.training.settings import config_from, differences, to_toml

SETTINGS = "config.toml"
# Where things are and who fetches them: what comes out does not depend on it.
_FREE = ("data.root", "data.sbd", "training.workers", "training.start_from")


def find_checkpoint(run: Path, config: Config, resume: bool) -> dict[str, Any] | None:
    """The checkpoint to go on from; None for a run that has none yet."""
    if not (run / LAST).exists():
        return None
    if not resume:
        raise InputError(f"{run} holds a run already. Go on with it by --resume, or name another folder.")
    checkpoint = read_checkpoint(run / LAST)
    lines = differences(config_from(checkpoint["config"]), config)
    other = [line for line in lines if line.partition(":")[0] not in _FREE]
    if other:
        raise InputError(
            f"{run} was begun with other settings (then, now):"
            + "".join(f"\n  {line}" for line in other)
            + "\nResume it with the same ones, or start a new run from its weights with --from."
        )
    return checkpoint


def begin(segmenter: Segmenter, config: Config) -> str:
    """Takes the weights that the settings say a new run starts from; returns a line on it."""
    stage, source = config.training.stage, config.training.start_from
    if source is not None:
        return f"stage {stage}: {start_from(segmenter, source)}"
    if stage == 2:
        raise InputError("stage 2 starts from the weights of stage 1: name its run with --from RUN.")
    return f"stage {stage}"


def write_settings(run: Path, config: Config) -> None:
    """All settings, to RUN/config.toml."""
    write_atomically(run / SETTINGS, to_toml(config).encode())
