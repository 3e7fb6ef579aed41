"""Memory of DenseCRF forward and backward for either adjoint; Linux only.

    python benchmarks/memory.py

375×500 pixels of a photo, 21 labels, 5 updates, gradients by scores and all parameters. Every figure is from a process
of its own, in MB beyond what it held before: between forward and backward, and at most.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from clock import machine
from photos import photo

from densefield import DenseCRF

LABELS, HEIGHT, WIDTH, ITERATIONS = 21, 375, 500, 5


def status(field: str) -> float:
    """A field of the process's status, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) / 1000 for line in lines if line.startswith(field))


def measure(batch: int, adjoint: str) -> None:
    crf = DenseCRF(LABELS, iterations=ITERATIONS, adjoint=adjoint)
    rng = np.random.default_rng(2213)
    scores = torch.tensor(rng.standard_normal((batch, LABELS, HEIGHT, WIDTH)), dtype=torch.float32, requires_grad=True)
    colours = torch.tensor(photo("astronaut", HEIGHT, WIDTH), dtype=torch.float32).permute(2, 0, 1)
    image = torch.stack([colours.roll(50 * item, 1) for item in range(batch)])
    labels = torch.tensor(rng.integers(0, LABELS, (batch, HEIGHT, WIDTH)))
    crf(scores[:1, :, :8, :8], image[:1, :, :8, :8]).sum().backward()  # imports and pools of threads
    scores.grad = None
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the peak so far
    before = status("VmRSS")
    loss = torch.nn.functional.nll_loss(crf(scores, image), labels)
    between = status("VmRSS")
    loss.backward()
    print(f"{between - before:.0f} {status('VmHWM') - before:.0f}")


def main() -> None:
    print(machine(), f"torch {torch.__version__}")
    scores = LABELS * HEIGHT * WIDTH * 4 / 1e6
    print(f"{HEIGHT}×{WIDTH}×{LABELS}, {ITERATIONS} updates; scores of one image: {scores:.0f} MB")
    print("batch  adjoint     between  at most")
    for batch in (1, 4):
        for adjoint in ("store", "recompute"):
            command = [sys.executable, __file__, str(batch), adjoint]
            between, peak = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            print(f"{batch:5d}  {adjoint:9s} {between:>9s} {peak:>8s}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure(int(sys.argv[1]), sys.argv[2])
    else:
        main()
