"""DenseCRF by native code and by torch operations, forced on the CPU; Linux only.

    python benchmarks/backends.py [images]

Photos of 375×500 pixels, 21 labels, 5 updates, forward and backward with gradients by scores and all parameters, for
  native             DenseCRF(backend="native")
  torch              DenseCRF(backend="torch"): the batch is one lattice
  torch, recomputed  the same with adjoint="recompute"
  image by image     densefield.nn.reference: torch operations on one image after another, differentiated by autograd
Printed are calls of torch operators, counted by torch's profiler; the most memory beyond what the process held before,
in a process of its own; the least time of several calls, taking turns; and the largest differences from native code: of
marginals, and of gradients over the largest number of each.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # spinning threads distort times on a busy computer

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from clock import interleaved, machine
from memory import status
from photos import NAMES, photo
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from densefield import DenseCRF
from densefield.nn import backends
from densefield.nn.reference import reference_mean_field

LABELS, HEIGHT, WIDTH, ITERATIONS = 21, 375, 500, 5
TIMES = 3


def one_by_one(*arguments: Any, adjoint: str = "store") -> Tensor:
    """Torch operations on one image after another, in place of those on the batch."""
    return reference_mean_field(*arguments)


class Case:
    """A module and a batch of photos."""

    def __init__(self, way: str, images: int) -> None:
        backend = "native" if way == "native" else "torch"
        adjoint = "recompute" if way.endswith("recomputed") else "store"
        self.way = way
        self.crf = DenseCRF(LABELS, iterations=ITERATIONS, backend=backend, adjoint=adjoint)
        rng = np.random.default_rng(2213)
        shape = images, LABELS, HEIGHT, WIDTH
        self.scores = torch.tensor(rng.standard_normal(shape), dtype=torch.float32, requires_grad=True)
        colours = [photo(NAMES[item % len(NAMES)], HEIGHT, WIDTH) for item in range(images)]
        self.image = torch.tensor(np.stack(colours), dtype=torch.float32).permute(0, 3, 1, 2).contiguous()
        self.labels = torch.tensor(rng.integers(0, LABELS, (images, HEIGHT, WIDTH)))

    def step(self, size: int | None = None) -> Tensor:
        """Log marginals; gradients are in the leaves. A size computes a corner of one image only."""
        self.scores.grad = None
        self.crf.zero_grad()
        some = (slice(size and 1), ..., slice(size), slice(size))
        usual = backends._batched
        if self.way == "image by image":
            backends._batched = one_by_one
        try:
            log_q = self.crf(self.scores[some], self.image[some])
        finally:
            backends._batched = usual
        torch.nn.functional.nll_loss(log_q, self.labels[some]).backward()
        return log_q.detach()

    def gradients(self) -> dict[str, Tensor]:
        assert self.scores.grad is not None
        found = {"scores": self.scores.grad.clone()}
        return found | {name: each.grad.clone() for name, each in self.crf.named_parameters() if each.grad is not None}


def operator_calls(step: Callable[[], object]) -> int:
    with profile(activities=[ProfilerActivity.CPU]) as record:
        step()
    return sum(event.count for event in record.key_averages())


def megabytes(way: str, images: int) -> None:
    """Prints the most memory of one step, in a process that has done nothing else."""
    case = Case(way, images)
    case.step(size=8)  # imports and pools of threads
    case.scores.grad = None
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the peak so far
    before = status("VmRSS")
    case.step()
    print(status("VmHWM") - before)


def main(images: int) -> None:
    print(machine(), f"torch {torch.__version__}")
    print(f"{images} × {HEIGHT}×{WIDTH}×{LABELS}, {ITERATIONS} updates, forward and backward; no GPU is involved")
    ways = ("native", "torch", "torch, recomputed", "image by image")
    cases = {way: Case(way, images) for way in ways}
    seconds = interleaved({way: case.step for way, case in cases.items()}, TIMES)
    truth, slopes = cases["native"].step().exp(), cases["native"].gradients()
    print("                    operator calls  peak MB    seconds  marginals  scores' gradient  widths'  weights'")
    for way, case in cases.items():
        error = float((case.step().exp() - truth).abs().max())
        found = {name: _difference(each, slopes[name]) for name, each in case.gradients().items()}
        widths = max(each for name, each in found.items() if "sigma" in name)
        weights = max(each for name, each in found.items() if "weight" in name)
        command = [sys.executable, __file__, str(images), way]
        peak = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(
            f"{way:18s}{operator_calls(case.step):16d}{peak:9.0f}{seconds[way]:11.2f}{error:11.1e}"
            f"{found['scores']:18.1e}{widths:9.1e}{weights:10.1e}",
            flush=True,
        )


def _difference(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


if __name__ == "__main__":
    if len(sys.argv) == 3:
        megabytes(sys.argv[2], int(sys.argv[1]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) == 2 else 4)
