"""Checkpoints: everything that a run needs to resume, written completely or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import torch
from torch import Tensor

from densefield.datasets.sampling import BEGINNING, Position
from densefield.errors import DensefieldError, InputError
from densefield.io.files import open_atomically, sync_folder
from densefield.networks.weights import load_tensors, load_weights
from densefield.nn.segmenter import Segmenter
from densefield.runs.build import build_segmenter, given_module, set_iterations
from densefield.runs.checkpoint_checks import DIGEST, check_checkpoint, content_digest
from densefield.runs.config import Config
from densefield.runs.distributed import gather
from densefield.runs.objects import NetworkObject, Objects
from densefield.runs.run_folder import LAST, PREVIOUS, check_run_folder, check_start, checkpoint_file
from densefield.runs.settings import config_from, differences

EMBEDDING_HEAD = "embedding_head."  # begins the names of the weights of an embedding

# Locations of files and the number of reading processes, which results do not depend on.
_FREE = ("data.root", "data.sbd", "training.workers", "training.start_from")


class Validation(NamedTuple):
    """Metrics of the validation images.

    Parameters
    ----------
    iou
        The mean IoU.
    nll
        The mean of -log q of the true labels.
    """

    iou: float
    nll: float

    def is_better(self, other: Validation | None, by: Literal["iou", "nll"]) -> bool:
        """Whether this is better than another by one of the two.

        Parameters
        ----------
        other
            Another one; None is worse than any.
        by
            The metric that counts.

        >>> Validation(0.5, 0.4).is_better(Validation(0.4, 0.3), by="iou")
        True
        """
        if other is None:
            return True
        return self.iou > other.iou if by == "iou" else self.nll < other.nll


@dataclass
class TrainingState:
    """How far a run has come."""

    step: int = 0
    position: Position = BEGINNING
    best: Validation | None = None  # that of the best checkpoint so far


def random_states(device: torch.device) -> list[dict[str, Tensor]]:
    """The states of torch's random generators in every process, on the CPU and a CUDA GPU if it is the device.

    All processes must call this.
    """
    own = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        own["cuda"] = torch.cuda.get_rng_state(device)
    return gather(own)


def write_checkpoint(
    path: Path,
    config: Config,
    segmenter: Segmenter,
    optimizer: dict[str, Any],
    state: TrainingState,
    rng: list[dict[str, Tensor]],
) -> None:
    """Writes a checkpoint with its checksum, completely or not at all."""
    content: dict[str, Any] = {
        "model": segmenter.state_dict(),
        "optimizer": optimizer,
        "position": list(state.position),
        "rng": rng,
        "step": state.step,
        "stage": config.training.stage,
        "config": config.model_dump(mode="json"),
        "best": None if state.best is None else list(state.best),
    }
    content[DIGEST] = content_digest(content)
    partial = path.with_name(f".{path.name}.part")  # a fixed name, so that a killed run leaves at most one
    with open_atomically(path, partial) as file:
        writer = _Writer(file)
        try:
            torch.save(content, writer)  # type: ignore[arg-type]
        except RuntimeError as error:  # torch's own error does not say why writing failed
            raise (writer.error or error) from error


class _Writer:
    """A file that stores the error of a failed write."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, content: bytes) -> int:
        try:
            return self._file.write(content)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self._file.flush()


def keep_previous(run: Path) -> None:
    """Stores the last checkpoint as the previous one, which a later step has shown to be good."""
    last, partial = run / LAST, run / PREVIOUS.with_name(f".{PREVIOUS.name}.part")
    if not last.exists():
        return
    partial.unlink(missing_ok=True)
    try:
        os.link(last, partial)  # takes no space: the last one is replaced, not overwritten
    except OSError:  # a file system without links
        shutil.copyfile(last, partial)
    os.replace(partial, run / PREVIOUS)
    sync_folder(run / PREVIOUS.parent)
    partial.unlink(missing_ok=True)  # renaming a link to another link of the same file does nothing


def read_checkpoint(path: str | PathLike[str]) -> dict[str, Any]:
    """The content of a checkpoint, or of a run's best one (its last before the first validation), checked."""
    place = checkpoint_file(path)
    content = load_tensors(place, "the checkpoint of a run, such as RUN/checkpoints/best.pt")
    return check_checkpoint(place, content)


def load_segmenter(path: str | PathLike[str], network: NetworkObject | None = None) -> tuple[Segmenter, Config]:
    """The segmenter of a run's best checkpoint, or of a checkpoint, in evaluation mode; and the settings.

    The CRF has the number of iterations for evaluation, `crf.test_iterations`.

    Parameters
    ----------
    path
        The folder of a run, or a checkpoint.
    network
        For a run that was trained on a Python object: a module like it, a function that returns one, or the name of
        such a function, ``"package.module:function"``. The weights of the run are loaded into it.
    """
    content = read_checkpoint(path)
    config = config_from(content["config"])
    # All weights come from the checkpoint: no initial weights are needed or downloaded.
    if network is not None and not config.network.is_own:
        raise InputError(f"network is given, but {path} has the network {config.network.name}: leave it out.")
    bare = config.model_copy(update={"network": config.network.model_copy(update={"pretrained": False})})
    segmenter = build_segmenter(bare, Objects(network=None if network is None else given_module(network)))
    with _naming(checkpoint_file(path), "model"):
        load_weights(segmenter, content["model"])
    set_iterations(segmenter.crf, config.crf.test_iterations)
    return segmenter.eval(), config


@contextmanager
def _naming(path: str | PathLike[str], field: str) -> Iterator[None]:
    """Turns errors about a field into one line that names the file and the field."""
    try:
        yield
    except (DensefieldError, RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise InputError(f"{path}: {field}: {' '.join(str(error).split()) or type(error).__name__}") from error


def start_from(segmenter: Segmenter, path: str | PathLike[str], config: Config | None = None) -> str:
    """Loads the network's weights from a run or a checkpoint, and the CRF's if both have one of the same form.

    Returns a line that says what was loaded, and where the run saw images at another size than `config` says.
    """

    def form(state: dict[str, Tensor]) -> dict[str, torch.Size]:
        return {name: value.shape for name, value in state.items()}

    content = read_checkpoint(path)
    parts = {"network": segmenter.network, "crf": segmenter.crf}
    loaded, note = [], ""
    for name, part in parts.items():
        state = {
            key.removeprefix(f"{name}."): value for key, value in content["model"].items() if key.startswith(f"{name}.")
        }
        if part is None or not state:  # read_checkpoint() has checked that there are weights of a network
            continue
        if name == "crf" and form(state) != form(part.state_dict()):
            note += "; its CRF has another form, so the settings' own is used"
            continue
        if name == "network" and not any(key.startswith(EMBEDDING_HEAD) for key in state):
            new = {key: value for key, value in part.state_dict().items() if key.startswith(EMBEDDING_HEAD)}
            if new and not any(parameter.requires_grad for parameter in part.parameters()):
                raise InputError(
                    f"{path} has no embedding, and network.frozen is true, so that it would stay random: start from a "
                    "run that has learnt one."
                )
            state |= new
            note = "; it has no embedding, which starts at random" if new else ""
        with _naming(checkpoint_file(path), f"model: {name}"):
            load_weights(part, state)
        loaded.append(name)
    line = f"{' and '.join(loaded)} from {path}, step {content['step']}{note}"
    before = config_from(content["config"]).data.network_size
    if config is not None and config.data.network_size != before:
        now = config.data.network_size
        line += f"\nthat run saw images with {_shown_size(before)}, and this one with {_shown_size(now)}"
    return line


def _shown_size(size: int | tuple[int, int] | None) -> str:
    return "their own size (no data.network_size)" if size is None else f"data.network_size = {json.dumps(size)}"


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
            + "\nResume it with the same settings, or start a new run from its weights with training.start_from (in "
            "Python start_from=)."
        )
    return checkpoint


def load_start(segmenter: Segmenter, config: Config) -> str:
    """Loads the weights that a new run starts from; returns a line about them."""
    check_start(config)
    stage, source = config.training.stage, config.training.start_from
    return f"stage {stage}" if source is None else f"stage {stage}: {start_from(segmenter, source, config)}"


def restore(
    path: Path,
    content: dict[str, Any],
    segmenter: Segmenter,
    optimizer: torch.optim.Optimizer,
    rank: int,
    device: torch.device,
) -> TrainingState:
    """Restores model, optimiser, random state and progress from a checkpoint; errors name the `path`."""
    with _naming(path, "model"):
        load_weights(segmenter, content["model"])
    with _naming(path, "optimizer"):
        optimizer.load_state_dict(_checked_optimizer(content["optimizer"], optimizer))
    if rank < len(content["rng"]):  # there may be more processes than before
        with _naming(path, "rng"):
            torch.set_rng_state(content["rng"][rank]["cpu"])
            if "cuda" in content["rng"][rank] and device.type == "cuda":
                torch.cuda.set_rng_state(content["rng"][rank]["cuda"], device)
    best = None if content["best"] is None else Validation(*content["best"])
    return TrainingState(content["step"], Position(*content["position"]), best)


def _checked_optimizer(saved: dict[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The saved state of an optimiser with the rates of the settings; raises if it is that of another one."""
    own = optimizer.state_dict()
    groups, state = saved.get("param_groups"), saved.get("state")
    if not isinstance(groups, list) or not isinstance(state, dict):
        raise InputError("lacks param_groups or state, expected the state_dict() of an optimiser.")
    numbers = [group.get("params") if isinstance(group, dict) else None for group in groups]
    if numbers != [group["params"] for group in own["param_groups"]]:
        raise InputError("its groups of parameters are not those of the settings.")
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, values in state.items():
        if type(number) is not int or not 0 <= number < len(parameters) or not isinstance(values, dict):
            raise InputError(f"has a state for parameter {number!r}, expected 0 to {len(parameters) - 1}.")
        shape = parameters[number].shape
        for name, value in values.items():
            if isinstance(value, Tensor) and value.ndim and value.shape != shape:
                raise InputError(
                    f"{name} of parameter {number} has shape {tuple(value.shape)}, expected {tuple(shape)}."
                )
            if isinstance(value, Tensor) and not bool(value.isfinite().all()):
                raise InputError(f"{name} of parameter {number} holds NaN or infinity.")
            if not isinstance(value, Tensor) and value is not None:
                raise InputError(f"{name} of parameter {number} is of type {type(value).__name__}, expected a tensor.")
    return {"state": state, "param_groups": own["param_groups"]}
