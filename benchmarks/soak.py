"""Many calls of one process: resident memory after the first hundred, and at the end.

python benchmarks/soak.py [--calls 10000]
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import torch
from clock import machine

from densefield import DenseCRF, refine

HEIGHT, WIDTH, LABELS, BATCH = 120, 160, 21, 1
MOST_GROWTH = 16.0  # megabytes: what allocators of Python and the system keep back and give away


def resident() -> float:
    """Megabytes of this process in memory."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    calls = parser.parse_args().calls
    rng = np.random.default_rng(0)
    rows, columns = np.indices((HEIGHT, WIDTH))
    shades = np.stack([rows, columns, 60 + 60 * (rows // 30 % 2)], axis=2)  # about as smooth as a photo
    images = (shades + rng.integers(0, 12, (8, HEIGHT, WIDTH, 3))).astype(np.uint8)
    masks = rng.integers(0, LABELS, (8, HEIGHT // 8, WIDTH // 8)).repeat(8, 1).repeat(8, 2)
    scores = torch.randn(BATCH, LABELS, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(0))
    pixels = torch.from_numpy(images[:BATCH].transpose(0, 3, 1, 2).copy())
    crf = DenseCRF(LABELS)

    def forward_and_backward(_: int) -> None:
        f = scores.clone().requires_grad_()
        crf.zero_grad(set_to_none=True)
        crf(f, pixels)[:, 0].sum().backward()

    print(machine())
    grown = False
    for name, call in (
        ("refine", lambda i: refine(images[i % 8], labels=masks[i % 8])),
        ("DenseCRF forward + backward", forward_and_backward),
    ):
        for i in range(100):
            call(i)
        first = most = resident()
        for i in range(100, calls):
            call(i)
            if i % 500 == 0:
                most = max(most, resident())
        last = resident()
        grown |= last > first + MOST_GROWTH
        print(
            f"{name}: {calls} calls, {first:.0f} MB after the first hundred, {most:.0f} at most, {last:.0f} at the end"
        )
    sys.exit(1 if grown else 0)


if __name__ == "__main__":
    main()
