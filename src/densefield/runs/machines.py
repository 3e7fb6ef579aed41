"""Where a run computes: on which device, and in how many processes."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from torch import Tensor

from densefield.errors import InputError
from densefield.runs.config import Config
from densefield.runs.stopping import process_timeout


def start_fabric(config: Config) -> Fabric:
    """Fabric on a GPU where there is one, else on the CPU; by DDP over all processes that torchrun started."""
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_WORLD_SIZE", str(world)))
    parts = world * config.training.accumulate
    if config.training.batch % parts:
        raise InputError(
            f"training.batch is {config.training.batch}, expected a multiple of {parts}: of {world} processes times "
            f"training.accumulate, which is {config.training.accumulate}."
        )
    with warnings.catch_warnings():  # it has opinions on how many workers and devices there are
        warnings.simplefilter("ignore")
        fabric = Fabric(
            accelerator="cuda" if torch.cuda.is_available() else "cpu",
            strategy=DDPStrategy(timeout=process_timeout()) if world > 1 else "auto",
            devices=local,
            num_nodes=world // local,
            precision=config.training.precision,
        )
        fabric.launch()
    return fabric


def total(fabric: Fabric, counts: Tensor) -> Tensor:
    """The sum over all processes."""
    summed = fabric.all_reduce(counts, reduce_op="sum")
    assert isinstance(summed, Tensor)
    return summed


@contextmanager
def deterministic() -> Iterator[None]:
    """The same bits in every run, as far as torch can: on a CPU always, on a GPU with a warning where it cannot."""
    before, fill = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warned)
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
