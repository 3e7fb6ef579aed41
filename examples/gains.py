"""A table of models with their gains over the first one, which the examples print row by row."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

FOLDER = Path("demo")
SAMPLES = 2000  # of the bootstrap

Floats = npt.NDArray[np.float64]


class GainTable:
    """Prints a heading, and for each model what share it got right, and the gain with a 95 % bootstrap interval."""

    def __init__(self, measure: str, seed: int, *more: str) -> None:
        self.seed = seed
        self.rows: dict[str, tuple[float, float, float]] = {}  # share right, and the ends of the gain's interval
        self._first: Floats | None = None
        self._start = time.perf_counter()
        heading = f"{'model':22s}{measure:>18s}   {'gain over the first, 95 % interval':38s}{'seconds':>8s}"
        print(heading + "".join(f"{name:>16s}" for name in more))
        print("-" * (len(heading) + 16 * len(more)))

    def add(self, name: str, right: Floats, *more: float) -> None:
        """Prints the row of a model: the share `right` of each test item, and more numbers."""
        gain = ""
        low = high = 0.0
        if self._first is None:
            self._first = right
        else:
            difference = right - self._first
            drawn = np.random.default_rng(self.seed).integers(len(right), size=(SAMPLES, len(right)))
            low, high = (float(end) for end in np.quantile(difference[drawn].mean(1), [0.025, 0.975]))
            gain = f"{difference.mean():+.4f} [{low:+.4f}, {high:+.4f}]"
        seconds = time.perf_counter() - self._start
        others = "".join(f"{number:16.4f}" for number in more)
        print(f"{name:22s}{right.mean():18.4f}   {gain:38s}{seconds:8.0f}{others}", flush=True)
        self.rows[name] = (float(right.mean()), low, high)
        self._start = time.perf_counter()


def save_picture(figure: Figure, name: str) -> None:
    """Writes a figure to the folder of results, and prints its path."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / name
    figure.savefig(path, dpi=120)
    print(f"\n{path}")
