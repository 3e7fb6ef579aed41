"""What went wrong with one file of many, on one line."""

from __future__ import annotations

from pathlib import Path

from densefield.errors import DensefieldError
from densefield.io.printable import cause

OUT_OF_MEMORY = ("can't allocate memory", "CUDA out of memory", "not enough memory", "std::bad_alloc")  # torch's words


def failure_line(error: Exception, *paths: Path | str) -> str:
    """The name of a file and what went wrong; `paths` are the files it may be about, the likeliest first.

    >>> failure_line(ValueError("odd\\nheader"), "cat.npz")
    'cat.npz: ValueError: odd header.'
    >>> failure_line(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried …"), "cat.npz")
    "cat.npz: out of memory (DefaultCPUAllocator: can't allocate memory: you tried …)."
    """
    said = cause(error)
    if isinstance(error, DensefieldError):
        reason = " ".join(str(error).split())
        return reason if any(str(path) in reason for path in paths) else f"{paths[0]}: {reason}"
    if isinstance(error, MemoryError) or any(words in said for words in OUT_OF_MEMORY):
        return f"{paths[0]}: out of memory ({said})."
    if isinstance(error, OSError):
        return f"{error.filename or paths[0]}: {said}."
    return f"{paths[0]}: {type(error).__name__}: {said}."
