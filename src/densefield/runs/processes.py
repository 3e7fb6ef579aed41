"""Work shared among the processes that torchrun started."""

from __future__ import annotations

import os
import sys
from typing import TypeVar

from densefield.runs.stopping import naming_lost_processes, process_timeout

T = TypeVar("T")


def this_process() -> tuple[int, int]:
    """Which process this is, from 0, and how many there are.

    >>> this_process()
    (0, 1)
    """
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def gathered(mine: dict[str, T]) -> dict[str, T]:
    """What all processes have found, in each of them."""
    _, count = this_process()
    if count == 1:
        return mine
    import torch.distributed as dist

    with naming_lost_processes(count):
        if not dist.is_initialized():
            dist.init_process_group("gloo", timeout=process_timeout())
        parts: list[dict[str, T]] = [{} for _ in range(count)]
        dist.all_gather_object(parts, mine)
    return {name: found for part in parts for name, found in part.items()}


def abandon(status: int) -> None:
    """Ends a process of several without waiting for the others."""
    if this_process()[1] > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def leave(status: int = 0) -> None:
    """Ends a process of several when all have come here: torch may hang where it frees their connections."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        with naming_lost_processes(this_process()[1]):
            dist.barrier()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
