"""Runs on several processes, started by torchrun."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from densefield.errors import DensefieldError, InputError
from densefield.runs.devices import AUTO, choose_device

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from torch import Tensor

    from densefield.runs.config import Config

T = TypeVar("T")

TIMEOUT = 600.0  # seconds
TIMEOUT_VARIABLE = "DENSEFIELD_TIMEOUT"
MAX_TIMEOUT = 10**7
# Parts of torch's messages about lost connections; its errors are RuntimeErrors of several kinds.
LOST = ("gloo", "NCCL", "Timed out", "Connection closed by peer", "Connection reset by peer", "Socket Timeout")


class LostProcess(DensefieldError):
    """Another process of the same run does not answer."""

    exit_status = 1


def rank_and_world_size() -> tuple[int, int]:
    """The rank of this process, from 0, and the number of processes.

    >>> rank_and_world_size()
    (0, 1)
    """
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def process_timeout() -> timedelta:
    """How long a process waits for the others: ``$DENSEFIELD_TIMEOUT`` seconds, by default 600.

    >>> process_timeout()
    datetime.timedelta(seconds=600)
    """
    text = os.environ.get(TIMEOUT_VARIABLE)
    if not text:
        return timedelta(seconds=TIMEOUT)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_TIMEOUT:
        raise InputError(
            f"the environment variable {TIMEOUT_VARIABLE} is {text[:80]!r}, expected seconds, more than 0 and at most "
            f"{MAX_TIMEOUT}."
        )
    return timedelta(seconds=seconds)


@contextmanager
def naming_lost_processes(processes: int) -> Iterator[None]:
    """Turns torch's errors about connections between processes into a LostProcess with one line."""
    try:
        yield
    except RuntimeError as error:
        if processes == 1 or not any(words in str(error) for words in LOST):
            raise
        seconds = process_timeout().total_seconds()
        raise LostProcess(
            f"another of the {processes} processes has ended, or has not answered for {seconds:g} seconds "
            f"({TIMEOUT_VARIABLE}). Look at its output; resume with resume=True."
        ) from error


def gather(own: T) -> list[T]:
    """The values of all processes by rank; all processes must call this."""
    _, count = rank_and_world_size()
    if count == 1:
        return [own]
    import torch.distributed as dist

    with naming_lost_processes(count):
        if not dist.is_initialized():
            dist.init_process_group("gloo", timeout=process_timeout())
        values = [own] * count
        dist.all_gather_object(values, own)
    return values


def exit_at_once(status: int) -> None:
    """Ends a process of several without waiting for the others."""
    if rank_and_world_size()[1] > 1:
        _exit(status)


def exit_together(status: int = 0) -> None:
    """Ends a process of several after all have called this: torch may hang when it closes their connections."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        with naming_lost_processes(rank_and_world_size()[1]):
            dist.barrier()
        _exit(status)


def _exit(status: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def start_fabric(config: Config, device: str = AUTO) -> Fabric:
    """Fabric on a device, as choose_device() names it; with DDP over all processes that torchrun started."""
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    world = rank_and_world_size()[1]
    local = int(os.environ.get("LOCAL_WORLD_SIZE", str(world)))
    parts = world * config.training.accumulate
    if config.training.batch % parts:
        raise InputError(
            f"training.batch is {config.training.batch}, expected a multiple of {parts}: of {world} processes times "
            f"training.accumulate, which is {config.training.accumulate}."
        )
    chosen = choose_device(device)
    if chosen.type == "xpu":
        raise InputError(f"device is {device}, but training is on auto, cpu, cuda, cuda:N or mps.")
    one_gpu = ":" in device
    if world > 1 and one_gpu:
        raise InputError(f"device is {device} for {world} processes: use cuda, the GPU with the number of the process.")
    # The user's network may have layers that scores do not depend on, such as an auxiliary head.
    strategy = DDPStrategy(timeout=process_timeout(), find_unused_parameters=config.network.is_own)
    with warnings.catch_warnings():  # Fabric's advice on the numbers of workers and devices
        warnings.simplefilter("ignore")
        fabric = Fabric(
            accelerator=chosen.type,
            strategy=strategy if world > 1 else "auto",
            devices=[chosen.index] if one_gpu else local,
            num_nodes=world // local,
            precision=config.training.precision,
        )
        fabric.launch()
    if world > 1:
        atexit.register(_close_connections)
    return fabric


def _close_connections() -> None:
    """Ends torch's connections before the interpreter does, whose order sometimes aborts a program at its end."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


def total(fabric: Fabric, counts: Tensor) -> Tensor:
    """The sum over all processes."""
    summed: Tensor = fabric.all_reduce(counts, reduce_op="sum")  # type: ignore[assignment]
    return summed


@contextmanager
def deterministic() -> Iterator[None]:
    """Bit-reproducible torch: always on a CPU, on a GPU with a warning for operations that are not."""
    import torch

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
