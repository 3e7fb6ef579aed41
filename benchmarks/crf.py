"""How fast inference is, end to end, against pydensecrf in the same run; and what gradients cost.

    python benchmarks/crf.py

The same lines of user code run on pydensecrf and on densefield.pydensecrf: energies in, both kernels, T updates,
marginals out. "again" is the next image of the same size, which shares the lattice of positions. Memory is the peak of
a process of its own, beyond its arrays. DenseCRF is the torch module with the symmetric operator; its backward begins
with the gradient by the log marginals, so that the loss is in none of the times.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from clock import interleaved, machine

import densefield.pydensecrf.densecrf as ours
from densefield import Bilateral, DenseCRF, Spatial
from densefield.crf import pairwise

try:
    import pydensecrf.densecrf as theirs
    import skimage.transform
    from photos import photo
except ImportError as error:
    raise SystemExit(f"{error}: the packages to compare with come with the extra densefield[peers].") from error

CASES = {  # height, width, labels, updates, widths of the bilateral kernel, rounds
    "375×500×21, T = 5, 3 & 60/10": (375, 500, 21, 5, (60, 10), 15),
    "375×500×21, T = 10, 3 & 67/3": (375, 500, 21, 10, (67, 3), 7),
    "240×320×2, T = 5, 3 & 60/10": (240, 320, 2, 5, (60, 10), 25),
    "1024×2048×19, T = 5, 3 & 60/10": (1024, 2048, 19, 5, (60, 10), 3),
}


def energies_of(height: int, width: int, labels: int) -> np.ndarray:
    """Smooth random energies, (L, N): blobs of labels, as a network gives them."""
    coarse = np.random.default_rng(3_511).normal(0, 4, (height // 25, width // 25, labels))
    return np.ascontiguousarray(skimage.transform.resize(coarse, (height, width), order=1).reshape(-1, labels).T, "f4")


def infer(module: ModuleType, image: np.ndarray, energies: np.ndarray, updates: int, widths: Any) -> np.ndarray:
    """What a user of pydensecrf writes."""
    height, width = image.shape[:2]
    crf = module.DenseCRF2D(width, height, len(energies))
    crf.setUnaryEnergy(energies)
    crf.addPairwiseGaussian(sxy=3, compat=3)
    crf.addPairwiseBilateral(sxy=widths[0], srgb=widths[1], rgbim=image, compat=5)
    return np.asarray(crf.inference(updates))


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Keeps the process to one processor, which is then what it takes for all there are."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def report(case: str) -> None:
    """Times of both, their ratio, and how far apart the answers are."""
    height, width, labels, updates, widths, rounds = CASES[case]
    image = photo("astronaut", height, width).round().astype(np.uint8)
    energies = energies_of(height, width, labels)
    run = partial(infer, image=image, energies=energies, updates=updates, widths=widths)

    def first() -> object:
        pairwise._cache.clear()
        return run(ours)

    def alone() -> object:
        with on_one_processor():
            return first()

    calls: dict[str, Callable[[], object]] = {"pydensecrf": lambda: run(theirs), "one thread": alone}
    calls |= {f"{len(os.sched_getaffinity(0))} threads": first, "again": lambda: run(ours)}
    times = interleaved(calls, rounds)
    difference = np.abs(run(theirs) - run(ours))
    print(f"\n{case}: marginals differ by {difference.max():.1e} at most, {difference.mean():.1e} on average")
    for name, seconds in times.items():
        print(f"  {name:12s} {seconds * 1e3:8.1f} ms   {times['pydensecrf'] / seconds:5.1f} times as fast")


def report_gradients() -> None:
    """Forward alone, and forward and backward with every gradient."""
    height, width, labels, updates, widths, rounds = CASES["375×500×21, T = 5, 3 & 60/10"]
    kernels = [Spatial(3, weight=3), Bilateral(*widths, weight=5)]
    crf = DenseCRF(labels, kernels, iterations=updates)
    image = torch.tensor(photo("astronaut", height, width), dtype=torch.float32).permute(2, 0, 1)[None]
    scores = torch.tensor(-energies_of(height, width, labels)).reshape(1, labels, height, width).requires_grad_()
    truth = scores.detach().argmax(1, keepdim=True)
    slope = torch.zeros_like(scores).scatter(1, truth, -1 / truth.numel())  # of the mean log-likelihood

    def forward() -> torch.Tensor:
        with torch.no_grad():
            return crf(scores, image)

    def both(*frozen: str) -> None:
        crf.unfreeze("*")
        if frozen:
            crf.freeze(*frozen)
        crf.zero_grad()
        scores.grad = None
        crf(scores, image).backward(slope)

    calls = {
        "forward": forward,
        "forward and backward: scores, weights, shapes": both,
        "forward and backward: scores, weights": partial(both, "*.log_sigma"),
    }
    times = interleaved(calls, rounds)
    print(f"\nDenseCRF, {height}×{width}×{labels}, T = {updates}, {torch.get_num_threads()} threads")
    for name, seconds in times.items():
        print(f"  {name:46s} {seconds * 1e3:8.1f} ms   {seconds / times['forward']:5.2f} forwards")


def peak(which: str, case: str) -> None:
    """Prints the peak memory in MB of one inference, beyond what was there before."""
    height, width, labels, updates, widths, _ = CASES[case]
    image = photo("astronaut", height, width).round().astype(np.uint8)
    energies = energies_of(height, width, labels)
    status = Path("/proc/self/status")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the peak so far

    def field(name: str) -> float:
        return next(float(line.split()[1]) / 1e3 for line in status.read_text().splitlines() if line.startswith(name))

    before = field("VmRSS")
    infer(theirs if which == "pydensecrf" else ours, image, energies, updates, widths)
    print(round(field("VmHWM") - before))


def main() -> None:
    if len(sys.argv) == 3:
        peak(*sys.argv[1:])
        return
    print(f"{machine()}, torch {torch.__version__}, pydensecrf2 {importlib.metadata.version('pydensecrf2')}")
    for case in CASES:
        report(case)
    case = list(CASES)[-1]
    print(f"\npeak memory, {case}")
    for which in ("pydensecrf", "densefield"):
        found = subprocess.run([sys.executable, __file__, which, case], check=True, capture_output=True, text=True)
        print(f"  {which:12s} {found.stdout.strip():>6s} MB")
    report_gradients()


if __name__ == "__main__":
    main()
