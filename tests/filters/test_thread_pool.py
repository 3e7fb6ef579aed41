"""The thread pool: reuse of threads, concurrent calls, forks, processor affinity."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

START = (
    "import os, sys, threading, time, numpy as np, densefield\n"
    "x = np.random.default_rng(1).standard_normal((60000, 3)); v = np.ones((60000, 2), np.float32)\n"
    "k = densefield.filters.LatticeFilter(x, threads=2); expected = k.apply(v)\n"
    "def right(): return np.array_equal(k.apply(v), expected)\n"
    "def tasks(): return set(os.listdir('/proc/self/task'))\n"
)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def run(code: str) -> None:
    """Run in a separate process, whose only other threads are those of the pool."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", START + code],
        env=environment,
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr


@linux
def test_consecutive_calls_reuse_threads() -> None:
    run("before = tasks(); assert len(before) >= 2\nfor _ in range(50): assert right()\nassert tasks() == before")


@linux
def test_concurrent_calls_use_different_threads() -> None:
    run(
        "def many():\n"
        "    for _ in range(20): good.append(right())\n"
        "good = []\n"
        "workers = [threading.Thread(target=many) for _ in range(6)]\n"
        "for each in workers: each.start()\n"
        "for each in workers: each.join()\n"
        "assert len(good) == 120 and all(good)\n"
        "time.sleep(0.5)  # until Python's threads have ended\n"
        "before = tasks(); assert len(before) <= 1 + max(os.cpu_count(), 1), before\n"
        "assert right() and tasks() == before\n"
    )


@linux
def test_the_pool_has_at_most_one_thread_per_processor() -> None:
    run(
        "many = densefield.filters.LatticeFilter(x, threads=40)\n"
        "assert np.array_equal(many.apply(np.repeat(v, 30, axis=1))[:, :2], expected)\n"
        "time.sleep(0.5); assert len(tasks()) <= 1 + os.cpu_count(), tasks()\n"
        "assert right()\n"
    )


def test_threads_flush_denormals_if_the_caller_does() -> None:
    pytest.importorskip("torch")
    run(
        "import torch\n"
        "def tiny(): return k.apply(np.full((60000, 1), 1e-39, np.float32))\n"
        "assert tiny().all() or not torch.set_flush_denormal(True)\n"
        "torch.set_flush_denormal(True); assert not any(tiny().any() for _ in range(10))\n"
        "torch.set_flush_denormal(False); assert tiny().all()\n"
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_nested_forks_filter_while_threads_run() -> None:
    run(
        "busy = threading.Thread(target=lambda: [k.apply(v) for _ in range(200)]); busy.start()\n"
        "for _ in range(10):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        grandchild = os.fork() if right() else 1\n"
        "        if grandchild == 0: os._exit(0 if right() and right() else 1)\n"
        "        os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) or 0 if right() else 1)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
        "busy.join(); assert right()\n"
    )


@linux
def test_threads_run_on_the_callers_processors() -> None:
    run(
        "def allowed(task):\n"
        "    lines = open(f'/proc/self/task/{task}/status').read().splitlines()\n"
        "    return [line.split()[1] for line in lines if line.startswith('Cpus_allowed_list')][0]\n"
        "helpers = tasks() - {str(os.getpid())}\n"
        "every = sorted(os.sched_getaffinity(0))\n"
        "for some in ({every[-1]}, set(every)):\n"
        "    os.sched_setaffinity(0, some); assert right()\n"
        "    for _ in range(100):  # on one processor a second thread is not used for a while\n"
        "        if {allowed(task) for task in helpers} == {allowed(os.getpid())}: break\n"
        "        time.sleep(0.05); assert right()\n"
        "    else: sys.exit('they stayed where they were')\n"
    )


def test_a_process_exits_while_threads_wait() -> None:
    run("sys.exit(0 if right() else 1)")
