"""Timing on a shared machine: the best of several calls, alternating with what they are compared with."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping

import numpy as np

from densefield import _core


def best_seconds(call: Callable[[], object], times: int = 5) -> float:
    """Return the least wall time of several calls."""
    return interleaved({"call": call}, times)["call"]


def interleaved(calls: Mapping[str, Callable[[], object]], times: int = 15) -> dict[str, float]:
    """Return the least wall time of each function, calling them alternately."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(times):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def machine() -> str:
    """Return one line about the machine and the software."""
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    simd = _core.available_simd()[-1]
    return f"{model}, {cpus} CPUs, {simd}, Python {platform.python_version()}, numpy {np.__version__}"
