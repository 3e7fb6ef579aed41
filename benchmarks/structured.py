"""Loopy belief propagation on a grid of four neighbours: densefield against pgmax and against plain NumPy.

    python benchmarks/structured.py [--side 200] [--iterations 20] [--pgmax PYTHON]

PYTHON is the interpreter of an environment with pgmax 0.6.1 and jax below 0.5; pgmax fails on jax 0.10. All get the
same random scores of 21 labels in float32. The time is the best of several runs for densefield; the slower peers run
once, in the middle of them. Both peers use tables of scores for Potts too: pgmax has no Potts pairs, and the NumPy
version stays simple. "gradient" is the forward pass and the gradient of the likelihood with respect to all scores; the
peers run the forward pass alone. Beside the time is the largest difference of a pixel's marginal from densefield's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from clock import machine

from densefield.structured import GridGraph, grid_belief_propagation, negative_log_likelihood

LABELS = 21
Array = npt.NDArray[np.float32]


def random_scores(grid: GridGraph) -> dict[str, torch.Tensor]:
    noise = torch.Generator().manual_seed(1301)
    table = () if grid.potts else (LABELS, LABELS)
    scores = {"pixel": torch.randn(1, LABELS, grid.rows, grid.columns, generator=noise)}
    for name, size in grid.pairs.items():
        scores[name] = torch.rand(1, *size, *table, generator=noise)
    return scores


def log_sum(x: Array, axis: int) -> Array:
    top = x.max(axis=axis, keepdims=True)
    total: Array = np.log(np.exp(x - top).sum(axis=axis)) + top.squeeze(axis)
    return total


def numpy_marginals(pixel: Array, right: Array, down: Array, iterations: int) -> Array:
    """The same iterations in simple NumPy: pixel (H, W, L), tables (H, W-1, L, L) and (H-1, W, L, L)."""
    left, up = np.zeros_like(right[..., 0]), np.zeros_like(down[..., 0])  # messages to the first of each pair
    onward, below = left, up  # and to the second
    for _ in range(iterations):
        total = pixel.copy()
        total[:, :-1] += left
        total[:, 1:] += onward
        total[:-1] += up
        total[1:] += below
        new = (
            log_sum(right + (total[:, 1:] - onward)[..., None, :], 3),
            log_sum(right + (total[:, :-1] - left)[..., None], 2),
            log_sum(down + (total[1:] - below)[..., None, :], 3),
            log_sum(down + (total[:-1] - up)[..., None], 2),
        )
        left, onward, up, below = (message - message.max(-1, keepdims=True) for message in new)
    total = pixel.copy()
    total[:, :-1] += left
    total[:, 1:] += onward
    total[:-1] += up
    total[1:] += below
    marginals: Array = np.exp(total - log_sum(total, 2)[..., None])
    return marginals


class Pgmax:
    """pgmax in a separate process."""

    def __init__(self, python: str, pixel: Array, right: Array, down: Array, iterations: int, folder: Path) -> None:
        np.savez(folder / "model.npz", pixel=pixel, right=right, down=down, iterations=iterations)
        worker = Path(__file__).with_name("structured_pgmax.py")
        command = [python, str(worker), str(folder / "model.npz"), str(folder / "marginals.npy")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self._answer() != "ready":
            raise SystemExit("pgmax does not run in that environment.")
        self.marginals: Array = np.load(folder / "marginals.npy")

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def seconds(self) -> float:
        """The time of one run, measured in the process itself."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return float(self._answer())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(side: int, iterations: int, potts: bool, python: str | None, times: int) -> None:
    grid = GridGraph(side, side, num_states=LABELS, potts=potts)
    scores = random_scores(grid)
    labels = torch.randint(LABELS, (1, side, side), generator=torch.Generator().manual_seed(1302))
    inference = partial(grid_belief_propagation, iterations=iterations, tolerance=0)

    def forward() -> Array:
        with torch.no_grad():
            found: Array = inference(grid, scores).log_marginals["pixel"][0].exp().movedim(0, -1).numpy()
        return found

    def gradient() -> None:
        leaves = {name: given.detach().requires_grad_() for name, given in scores.items()}
        negative_log_likelihood(grid, leaves, labels, inference).backward()

    def plain() -> float:
        start = time.perf_counter()
        found = numpy_marginals(*arrays, iterations)
        taken = time.perf_counter() - start
        differences["NumPy, forward"] = float(np.abs(found - mine).max())
        return taken

    eye = torch.eye(LABELS)
    tables = [
        (scores[name][0, ..., None, None] * eye if potts else scores[name][0]).numpy() for name in ("right", "down")
    ]
    arrays = scores["pixel"][0].movedim(0, -1).numpy().copy(), *tables
    calls: dict[str, Callable[[], float]] = {
        "densefield, forward": lambda: seconds(forward),
        "densefield, gradient": lambda: seconds(gradient),
        "NumPy, forward": plain,
    }
    mine = forward()
    differences: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        peer = Pgmax(python, *arrays, iterations, Path(folder)) if python else None
        if peer is not None:
            calls["pgmax, forward"] = peer.seconds
            differences["pgmax, forward"] = float(np.abs(peer.marginals - mine).max())
        best = dict.fromkeys(calls, float("inf"))
        for turn in range(times):
            for name, call in calls.items():
                if turn == times // 2 or name.startswith("densefield"):  # the slow peers run once
                    best[name] = min(best[name], call())
        if peer is not None:
            peer.close()
    print(f"\n{side}×{side} pixels, {LABELS} labels, {iterations} iterations, {'Potts' if potts else 'tables'}")
    for name, value in best.items():
        ratio = value / best["densefield, gradient"]
        accuracy = f"   marginals differ by {differences[name]:.1e}" if name in differences else ""
        print(f"  {name:22s}{value:9.3f} s{ratio:9.2f} gradients{accuracy}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Loopy belief propagation on a grid.")
    parser.add_argument("--side", type=int, default=200)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--pgmax", metavar="PYTHON")
    parser.add_argument("--only", choices=["potts", "tables"])
    options = parser.parse_args()
    print(f"{machine()}, torch {torch.__version__} on {torch.get_num_threads()} threads")
    for potts in (True, False):
        if options.only in (None, "potts" if potts else "tables"):
            compare(options.side, options.iterations, potts, options.pgmax, options.times)


if __name__ == "__main__":
    sys.exit(main())
