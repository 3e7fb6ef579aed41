"""How many threads a filter runs on."""

from __future__ import annotations

import math
import os
import sys
from functools import cache
from operator import index
from pathlib import Path

from densefield.errors import InputError, InputTypeError

MOST_THREADS = 1024


def default_threads() -> int:
    """The number of threads where none is given.

    It is ``DENSEFIELD_NUM_THREADS`` where that is set; else the number of processors that this process may use, which a
    container may keep below the machine's, but no more than ``OMP_NUM_THREADS``. Worker processes of multiprocessing
    have one thread: a pool has as many of them as processors.

    >>> default_threads() >= 1
    True
    """
    chosen = os.environ.get("DENSEFIELD_NUM_THREADS", "").strip()
    if chosen:
        if not (chosen.isascii() and chosen.isdigit() and 1 <= int(chosen) <= MOST_THREADS):
            raise InputError(f"DENSEFIELD_NUM_THREADS is {chosen!r}, expected an integer from 1 to {MOST_THREADS}.")
        return int(chosen)
    if _is_worker_process():
        return 1
    if hasattr(os, "sched_getaffinity"):
        available = len(os.sched_getaffinity(0))
    else:
        available = os.cpu_count() or 1
    return min(available, _granted(), _openmp_threads(), MOST_THREADS)


def _is_worker_process() -> bool:
    """Whether multiprocessing started this process."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _openmp_threads() -> int:
    """OMP_NUM_THREADS, which may be a list for nested regions; MOST_THREADS where it is not set, or makes no sense."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and int(first) >= 1 else MOST_THREADS


@cache
def _granted() -> int:
    return _quota(Path("/sys/fs/cgroup/cpu.max"))


def _quota(limit: Path) -> int:
    """Processors' worth of time that a container grants, rounded up; MOST_THREADS where it sets no limit."""
    try:
        time, period = limit.read_text(encoding="ascii").split()
        return max(1, math.ceil(int(time) / int(period)))
    except (OSError, ValueError):  # no such file, or "max"
        return MOST_THREADS


def check_threads(threads: int | None) -> int:
    """`threads` itself where it is a usable number of threads, and the default for None.

    >>> check_threads(2)
    2
    """
    if threads is None:
        return default_threads()
    try:
        count = index(threads)
    except TypeError:
        count = None
    if count is None or isinstance(threads, bool):
        raise InputTypeError(
            f"threads is {threads!r}, expected an integer or None; None uses every processor available."
        )
    if not 1 <= count <= MOST_THREADS:
        raise InputError(f"threads is {count}, expected 1 to {MOST_THREADS}; None uses every processor available.")
    return count
