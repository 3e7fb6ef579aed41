"""Time and memory of a CRF on a volume of 120×150×100 voxels, beside SimpleCRF, which is run in the same minutes.

    python benchmarks/volume_speed.py                             # densefield alone
    python benchmarks/volume_speed.py --simplecrf peer/bin/python # a Python with SimpleCRF

SimpleCRF needs an older NumPy than densefield, so it has an environment of its own, which needs a C++ compiler:

    python -m venv peer
    peer/bin/pip install 'numpy<2' setuptools wheel
    peer/bin/pip install --no-build-isolation SimpleCRF

Every method is a process of its own, and the processes are called alternately. Time is the best of several calls, from
probabilities to labels, with the construction of the filters. Memory is the peak beyond what the process held before
its first call. Labels are compared because SimpleCRF returns nothing else.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from clock import machine
from synthetic_volumes import ct_abdomen

Array = npt.NDArray[Any]

SHAPE, CALLS = (100, 120, 150), 5  # (D, H, W)
WINDOW = (-160.0, 240.0)  # HU


def problem(num_classes: int) -> tuple[Array, Array]:
    """An 8-bit volume (D, H, W), and noisy probabilities of its organs (D, H, W, L)."""
    scan = ct_abdomen(518, SHAPE, (2.0, 2.0, 2.0))
    grey = np.clip(255 * (scan.image - WINDOW[0]) / (WINDOW[1] - WINDOW[0]), 0, 255).astype(np.uint8)
    rng = np.random.default_rng(2250)
    scores = 1.5 * rng.standard_normal((*SHAPE, num_classes)) + 2 * np.eye(num_classes)[scan.truth % num_classes]
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return grey, (exponentials / exponentials.sum(-1, keepdims=True)).astype(np.float32)


class Worker:
    """A process that computes labels whenever it is asked to."""

    def __init__(self, python: str, method: str, threads: int, folder: Path) -> None:
        script = str(Path(__file__).with_name("volume_speed_worker.py"))
        self.result = folder / f"{method}-{threads}.npy"
        command = [python, script, method, str(threads), str(folder / "problem.npz"), str(self.result)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seconds, self.megabytes = float("inf"), 0.0

    def call(self) -> None:
        """Compute once, and keep the least time and the peak of the memory."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("again\n")
        self.process.stdin.flush()
        seconds, megabytes = map(float, self.process.stdout.readline().split())
        self.seconds, self.megabytes = min(self.seconds, seconds), max(self.megabytes, megabytes)

    def labels(self) -> Array:
        """Return the labels of the last call, and end the process."""
        self.process.communicate()
        labels: Array = np.load(self.result)
        return labels


def measure(num_classes: int, simplecrf: str | None) -> None:
    """Print a line for each method."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        image, probabilities = problem(num_classes)
        np.savez(folder / "problem.npz", image=image, probabilities=probabilities)
        workers = {
            "densefield, 2 threads": Worker(sys.executable, "densefield", 2, folder),
            "densefield, one thread": Worker(sys.executable, "densefield", 1, folder),
        }
        if simplecrf is not None:
            workers = {"SimpleCRF": Worker(simplecrf, "simplecrf", 1, folder), **workers}
        for _ in range(CALLS):
            for worker in workers.values():
                worker.call()
        depth, height, width = SHAPE
        print(f"\n{height}×{width}×{depth}, {num_classes} labels, T = 5, 5 & 5/5")
        found = {name: worker.labels() for name, worker in workers.items()}
        first = next(iter(workers))
        for name, worker in workers.items():
            same = 100 * float((found[name] == found[first]).mean())
            times = workers[first].seconds / worker.seconds
            print(
                f"  {name:24s} {worker.seconds:7.3f} s {times:6.1f} times as fast {worker.megabytes:6.0f} MB"
                f"   {same:.2f} % of the labels equal"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description="time and memory of a CRF on a volume")
    parser.add_argument("--simplecrf", metavar="PYTHON", help="a Python with SimpleCRF")
    simplecrf = parser.parse_args().simplecrf
    print(machine())
    for num_classes in (2, 4):
        measure(num_classes, simplecrf)


if __name__ == "__main__":
    main()
