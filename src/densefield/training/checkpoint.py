"""Checkpoints: everything that a run needs to resume, in files that are complete or absent."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from densefield.data.epoch_order import BEGINNING, Position
from densefield.errors import InputError
from densefield.nets.weights import load_tensors, load_weights
from densefield.segmenter import Segmenter
from densefield.training.build import build_segmenter
from densefield.training.config import Config
from densefield.training.run_files import BEST as BEST
from densefield.training.run_files import LAST as LAST
from densefield.training.run_files import PREVIOUS as PREVIOUS
from densefield.training.run_files import checkpoint_file
from densefield.training.settings import config_from

_KEYS = {"model", "optimizer", "position", "rng", "step", "stage", "config", "best", "overlap"}


@dataclass
class Progress:
    """How far a run has come."""

    overlap: Tensor  # (L, L): counts of training batches since the last validation
    step: int = 0
    position: Position = BEGINNING
    best: float = -1.0  # the highest mean IoU on validation so far


def random_states() -> list[dict[str, Tensor]]:
    """The states of torch's generators in every process, which all take part in asking."""
    own = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        own["cuda"] = torch.cuda.get_rng_state()
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return [own]
    states: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(states, own)
    return states


def write_checkpoint(
    path: Path,
    config: Config,
    segmenter: Segmenter,
    optimizer: dict[str, Any],
    progress: Progress,
    rng: list[dict[str, Tensor]],
) -> None:
    """Writes under a passing name, has the disk keep it, and renames."""
    content = {
        "model": segmenter.state_dict(),
        "optimizer": optimizer,
        "position": list(progress.position),
        "rng": rng,
        "step": progress.step,
        "stage": config.training.stage,
        "config": config.model_dump(mode="json"),
        "best": progress.best,
        "overlap": progress.overlap,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    passing = path.with_name(f".{path.name}.part")  # always the same, so that a killed run leaves at most one
    with passing.open("wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(passing, path)


def keep_previous(run: Path) -> None:
    """Keeps the last checkpoint as the one before it: that the next one is good only the step after it will show."""
    last, passing = run / LAST, run / PREVIOUS.with_name(f".{PREVIOUS.name}.part")
    if not last.exists():
        return
    passing.unlink(missing_ok=True)
    try:
        os.link(last, passing)  # which takes no room: the last one is replaced, not written to
    except OSError:  # of a disk that has no links
        shutil.copyfile(last, passing)
    os.replace(passing, run / PREVIOUS)
    passing.unlink(missing_ok=True)  # two links of one file stay two when one is renamed to the other


def read_checkpoint(path: str | PathLike[str]) -> dict[str, Any]:
    """The content of a checkpoint, or of a run's best one (its last, where none was validated yet)."""
    place = checkpoint_file(path)
    content = load_tensors(place, "the checkpoint of a run, such as RUN/checkpoints/best.pt")
    missing = _KEYS - content.keys() if isinstance(content, dict) else _KEYS
    if missing:
        raise InputError(
            f"{place} is not the checkpoint of a run: it lacks {', '.join(sorted(missing))}. Weights alone are "
            "named by network.pretrained in the settings of a run."
        )
    return dict(content)


def load_segmenter(path: str | PathLike[str]) -> tuple[Segmenter, Config]:
    """The segmenter of a run, as its best checkpoint has it, or of a checkpoint, ready to predict; and the settings."""
    content = read_checkpoint(path)
    config = config_from(content["config"])
    # All weights come from the checkpoint: none need be there, or downloaded, to start from.
    bare = config.model_copy(update={"network": config.network.model_copy(update={"pretrained": False})})
    segmenter = build_segmenter(bare)
    load_weights(segmenter, content["model"])
    return segmenter.eval(), config


def start_from(segmenter: Segmenter, path: str | PathLike[str]) -> str:
    """Takes the network's weights from a run or a checkpoint, and the CRF where both have one of the same form.

    Returns a line that says what was taken.
    """

    def form(state: dict[str, Tensor]) -> dict[str, torch.Size]:
        return {name: value.shape for name, value in state.items()}

    content = read_checkpoint(path)
    parts = {"network": segmenter.network, "crf": segmenter.crf}
    taken, left = [], ""
    for name, part in parts.items():
        state = {
            key.removeprefix(f"{name}."): value for key, value in content["model"].items() if key.startswith(f"{name}.")
        }
        if part is None or not state:
            continue
        if name == "crf" and form(state) != form(part.state_dict()):
            left = "; its CRF has another form, so the settings' own is used"
            continue
        load_weights(part, state)
        taken.append(name)
    return f"{' and '.join(taken)} from {path}, step {content['step']}{left}"


def restore(
    content: dict[str, Any], segmenter: Segmenter, optimizer: torch.optim.Optimizer, rank: int, device: torch.device
) -> Progress:
    """Brings everything to where it was when the checkpoint was written."""
    load_weights(segmenter, content["model"])
    optimizer.load_state_dict(content["optimizer"])
    if rank < len(content["rng"]):  # there may be more processes than before
        torch.set_rng_state(content["rng"][rank]["cpu"])
        if "cuda" in content["rng"][rank] and device.type == "cuda":
            torch.cuda.set_rng_state(content["rng"][rank]["cuda"])
    return Progress(content["overlap"].to(device), content["step"], Position(*content["position"]), content["best"])
