"""Threads and memory of native code."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from functools import cache
from operator import index
from pathlib import Path

from densefield import _core
from densefield.errors import InputError, InputTypeError

MAX_THREADS = 1024


_release_callbacks: list[Callable[[], None]] = []


def default_threads() -> int:
    """Return the default number of threads.

    It is ``DENSEFIELD_NUM_THREADS`` if set. Otherwise it is the number of processors this process may use, which a
    container may limit, and at most ``OMP_NUM_THREADS``. Worker processes of multiprocessing use one thread, since
    there are usually as many of them as processors.

    >>> default_threads() >= 1
    True
    """
    chosen = os.environ.get("DENSEFIELD_NUM_THREADS", "").strip()
    if chosen:
        if not (chosen.isascii() and chosen.isdigit() and 1 <= int(chosen) <= MAX_THREADS):
            raise InputError(f"DENSEFIELD_NUM_THREADS is {chosen!r}, expected an integer from 1 to {MAX_THREADS}.")
        return int(chosen)
    if _is_worker_process():
        return 1
    if hasattr(os, "sched_getaffinity"):
        available = len(os.sched_getaffinity(0))
    else:
        available = os.cpu_count() or 1
    return min(available, _quota(), _openmp_threads(), MAX_THREADS)


def _is_worker_process() -> bool:
    """Whether multiprocessing started this process."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _openmp_threads() -> int:
    """OMP_NUM_THREADS, which may be a list for nested regions; MAX_THREADS if unset or invalid."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and int(first) >= 1 else MAX_THREADS


@cache
def _quota(limit: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """CPU quota of the container in processors, rounded up; MAX_THREADS if there is none."""
    try:
        time, period = limit.read_text(encoding="ascii").split()
        return max(1, math.ceil(int(time) / int(period)))
    except (OSError, ValueError):  # no such file, or "max"
        return MAX_THREADS


def check_threads(threads: int | None) -> int:
    """Return `threads` if it is a valid number of threads, or the default for None.

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
    if not 1 <= count <= MAX_THREADS:
        raise InputError(f"threads is {count}, expected 1 to {MAX_THREADS}; None uses every processor available.")
    return count


def release_memory() -> int:
    """Return cached native memory to the system, and return the number of bytes.

    After a call the process keeps up to 512 MB of working memory, which makes the next image of that size faster.
    Memory not used for five seconds is released automatically if calls use more than one thread; with one thread, at
    the next call. The environment variable ``DENSEFIELD_CACHE_MB`` sets another limit; 0 disables the cache. Filters
    cached by CRFs are dropped too.

    >>> release_memory() >= 0
    True
    """
    for callback in _release_callbacks:
        callback()
    return _core.release_memory()


def call_on_release(callback: Callable[[], None]) -> None:
    """Register a function that release_memory() calls first, to drop a cache."""
    _release_callbacks.append(callback)
