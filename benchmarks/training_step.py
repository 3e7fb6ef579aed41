"""Time and memory of a step of stage 2 for each image, and the CRF's share of it; Linux only.

    python benchmarks/training_step.py [FOLDER]

The images are the first training batch of PASCAL VOC 2012 in a folder, or without one photos of scikit-image in sizes
of VOC: 375×500, 333×500 and 500×375. 21 classes, 5 iterations, nine learnt parameters of the CRF; networks, sizes of
their input, optimisers and kernels as in configs/. Each row is measured in its own process: the minimum time of each
part over several steps, in ms per image, and the peak memory of the process beyond that before the network was built.
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

from densefield.datasets import Sample, training_batches
from densefield.networks.inputs import IMAGENET
from densefield.nn.losses import log_likelihood_loss
from densefield.nn.segmenter import log_marginals
from densefield.runs.build import build_segmenter
from densefield.runs.settings import read_config
from densefield.runs.splits import build_datasets
from densefield.training.optimizer import augmentation, build_optimizer

CONFIGS = Path(__file__).parents[1] / "configs"
ROWS = (  # settings, batch, steps
    ("voc12-efficientnet-lite0", 8, 5),
    ("voc12-efficientnet-lite0-crops", 8, 5),
    ("voc12-vgg16", 1, 3),
    ("voc12-vgg16", 2, 3),
)
SIZES, NUM_CLASSES = ((375, 500), (375, 500), (333, 500), (500, 375)), 21
PARTS = ("network forward", "CRF forward", "loss", "CRF backward", "network backward", "update")

T = TypeVar("T")


class Photos:
    """Photos with labels in large patches."""

    classes = tuple(str(label) for label in range(NUM_CLASSES))
    ids = tuple(str(number) for number in range(8))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, number: int) -> Sample:
        rows, columns = SIZES[number % len(SIZES)]
        image = np.round(photo(NAMES[number % len(NAMES)], rows, columns)).astype(np.uint8)
        patches = np.random.default_rng([5519, number]).integers(0, NUM_CLASSES, (8, 8)).astype(np.uint8)
        labels = patches[np.arange(rows)[:, None] // 63, np.arange(columns) // 63]
        return Sample(image, labels, self.ids[number])


def measure(settings: str, size: int, steps: int, folder: str) -> None:
    """Prints the minimum seconds of each part of a step, and the memory in MB."""
    # Random weights take the same time as ImageNet's, and need no download.
    changes = ["training.stage=2", "network.pretrained=false", "data.train=train", f"data.root={folder}"]
    config = read_config(CONFIGS / f"{settings}.toml", changes)
    dataset = build_datasets(config)[0] if folder else Photos()
    batch = next(training_batches(dataset, augmentation(config.data, IMAGENET), size, seed=2))
    images, labels = list(batch.image), list(batch.labels)
    before = status("VmRSS")
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
        scores = timed("network forward", lambda: segmenter.scores(images))
        f = [each.detach().requires_grad_() for each in scores]
        log_q = timed(
            "CRF forward",
            lambda f=f: log_marginals(f, images, segmenter.crf, batch.padding, batch.spacing),
        )
        q = [each.detach().requires_grad_() for each in log_q]
        timed("loss", lambda q=q: torch.autograd.backward(losses(q, labels)))
        timed("CRF backward", lambda log_q=log_q, q=q: torch.autograd.backward(log_q, [each.grad for each in q]))
        timed("network backward", lambda s=scores, f=f: torch.autograd.backward(s, [each.grad for each in f]))
        timed("update", optimizer.step)
        del scores, f, log_q, q
    print(*least.values(), status("VmHWM") - before)


def losses(log_q: list[torch.Tensor], labels: list[torch.Tensor]) -> list[torch.Tensor]:
    """The loss of each image."""
    return [log_likelihood_loss(q[None], label[None]) for q, label in zip(log_q, labels, strict=True)]


def main(folder: str) -> None:
    print(machine(), f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print("ms per image" + " " * 19 + "batch" + "".join(f"{part:>18s}" for part in PARTS))
    found = []
    for settings, batch, steps in ROWS:
        command = [sys.executable, __file__, settings, str(batch), str(steps), folder]
        # Waiting threads sleep, as on the command line.
        passive = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=passive)
        *seconds, memory = map(float, answer.stdout.split())
        print(f"{settings:31s}{batch:5d}" + "".join(f"{1000 * each / batch:18.1f}" for each in seconds), flush=True)
        found.append((settings, batch, dict(zip(PARTS, seconds, strict=True)), memory))
    print("\n" + " " * 31 + "batch   step, s per image   CRF's share: forward  backward  both   memory, MB per image")
    for settings, batch, least, memory in found:
        step = sum(least.values())
        forward, backward = least["CRF forward"] / step, least["CRF backward"] / step
        print(
            f"{settings:31s}{batch:5d}{step / batch:20.3f}{forward:22.1%}{backward:10.1%}{forward + backward:6.1%}"
            f"{memory / batch:20.0f}"
        )


if __name__ == "__main__":
    if len(sys.argv) == 5:
        measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        main(*(sys.argv[1:] or [""]))
