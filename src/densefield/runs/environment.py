"""The command, hardware and software that a result was computed with."""

from __future__ import annotations

import platform
import shlex
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from densefield.filters.threads import default_threads


def describe_environment() -> dict[str, str | int]:
    """Processor, operating system and versions.

    >>> sorted(describe_environment())
    ['densefield', 'processor', 'processors', 'python', 'system', 'torch']
    """
    return {
        "processor": _processor(),
        "processors": default_threads(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "densefield": _version("densefield"),
    }


def command_line() -> str:
    """The command line of this process."""
    program = Path(sys.argv[0])
    name = program.parent.name if program.name == "__main__.py" else program.name
    return shlex.join([name, *sys.argv[1:]])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
