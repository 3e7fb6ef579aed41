"""Time and memory of a step of stage 2 for each image, and the CRF's share of it; Linux only.

    python benchmarks/training_step.py

Photos of 306×306 pixels, 21 classes, 5 iterations, nine learnt parameters of the CRF, networks and optimisers as in
configs/. Each row is measured in its own process: the minimum time of each part over several steps, in ms per image,
and the peak memory of the process beyond that before the network was built.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from clock import machine
from memory import status
from photos import NAMES, photo

from densefield.nn.losses import log_likelihood_loss
from densefield.runs.build import build_segmenter
from densefield.runs.settings import read_config
from densefield.training.optimizer import build_optimizer

CONFIGS = Path(__file__).parents[1] / "configs"
ROWS = (("voc12-efficientnet-lite0", 8, 5), ("voc12-vgg16", 1, 3), ("voc12-vgg16", 2, 3))  # settings, batch, steps
SIDE, NUM_CLASSES = 306, 21
PARTS = ("network forward", "CRF forward", "loss", "CRF backward", "network backward", "update")

T = TypeVar("T")


def batch_of(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Photos (B, 3, H, W) in colours 0…255, and labels (B, H, W) in large patches."""
    photos = [photo(NAMES[number % len(NAMES)], SIDE, SIDE) for number in range(size)]
    image = torch.stack([torch.tensor(np.asarray(each), dtype=torch.float32).movedim(-1, 0) for each in photos])
    patches = torch.tensor(np.random.default_rng(5519).integers(0, NUM_CLASSES, (size, 6, 6)))
    return image.round().to(torch.uint8), patches.repeat_interleave(51, 1).repeat_interleave(51, 2)


def measure(settings: str, batch: int, steps: int) -> None:
    """Prints the minimum seconds of each part of a step, and the memory in MB."""
    image, label = batch_of(batch)
    before = status("VmRSS")
    # Random weights take the same time as ImageNet's, and need no download.
    config = read_config(CONFIGS / f"{settings}.toml", ["training.stage=2", "network.pretrained=false"])
    segmenter = build_segmenter(config).train()
    assert segmenter.crf is not None
    optimizer = build_optimizer(config.optimizer, segmenter)
    least = dict.fromkeys(PARTS, float("inf"))

    def timed(part: str, work: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = work()
        least[part] = min(least[part], time.perf_counter() - start)
        return result

    for _ in range(steps + 1):  # the first step is slower, since it allocates memory
        optimizer.zero_grad()
        scores = timed("network forward", lambda: segmenter.scores(image))
        f = scores.detach().requires_grad_()
        log_q = timed("CRF forward", lambda f=f: segmenter.crf(f, image))
        q = log_q.detach().requires_grad_()
        timed("loss", lambda q=q: log_likelihood_loss(q, label).backward())
        timed("CRF backward", lambda log_q=log_q, q=q: log_q.backward(q.grad))
        timed("network backward", lambda scores=scores, f=f: scores.backward(f.grad))
        timed("update", optimizer.step)
        del scores, f, log_q, q
    print(*least.values(), status("VmHWM") - before)


def main() -> None:
    print(machine(), f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print("ms per image" + " " * 13 + "batch" + "".join(f"{part:>18s}" for part in PARTS))
    found = []
    for settings, batch, steps in ROWS:
        command = [sys.executable, __file__, settings, str(batch), str(steps)]
        # Waiting threads sleep, as on the command line.
        passive = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=passive)
        *seconds, memory = map(float, answer.stdout.split())
        print(f"{settings:25s}{batch:5d}" + "".join(f"{1000 * each / batch:18.1f}" for each in seconds), flush=True)
        found.append((settings, batch, dict(zip(PARTS, seconds, strict=True)), memory))
    print("\n" + " " * 25 + "batch   step, s per image   CRF's share: forward  backward  both   memory, MB per image")
    for settings, batch, least, memory in found:
        step = sum(least.values())
        forward, backward = least["CRF forward"] / step, least["CRF backward"] / step
        print(
            f"{settings:25s}{batch:5d}{step / batch:20.3f}{forward:22.1%}{backward:10.1%}{forward + backward:6.1%}"
            f"{memory / batch:20.0f}"
        )


if __name__ == "__main__":
    if len(sys.argv) == 4:
        measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
