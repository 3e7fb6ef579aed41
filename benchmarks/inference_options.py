"""Time of inference options: pixels that send nothing to themselves, convergent inference, and their gradients.

    python benchmarks/inference_options.py [--repeats 15]

A photo of 375×500 pixels, 21 classes, 5 iterations, kernels of 3 pixels and of 60 pixels and 10 levels. Times are the
least of several calls that alternate with the ordinary ones, in ms, and beside them as multiples of the ordinary ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from clock import interleaved, machine
from photos import NAMES, photo

from densefield import CRF, DenseCRF

HEIGHT, WIDTH, CLASSES = 375, 500, 21
OPTIONS: dict[str, dict[str, Any]] = {
    "ordinary": {},
    "exclude_self": {"exclude_self": True},
    "convergent": {"exclude_self": True, "inference": "convergent"},
}


def report(what: str, calls: Mapping[str, Callable[[], object]], repeats: int) -> None:
    """Prints the time of each option, and its ratio to the first."""
    seconds = interleaved(calls, repeats)
    ordinary = next(iter(seconds.values()))
    times = "  ".join(f"{name} {1e3 * each:.1f} ({each / ordinary:.2f}×)" for name, each in seconds.items())
    print(f"{what:34s}{times}")


def measure(name: str, scores: npt.NDArray[np.float32], repeats: int) -> None:
    """Prints all times on one photo."""
    image = photo(name, HEIGHT, WIDTH).astype(np.uint8)
    crfs = {option: CRF(**given) for option, given in OPTIONS.items()}
    problems = {option: crf.problem(scores, image) for option, crf in crfs.items()}
    print(f"{name}, {problems['ordinary'].pairwise[1].lattice.num_vertices} vertices")
    report("  build", {o: partial(crf.problem, scores, image) for o, crf in crfs.items()}, repeats)
    report("  five iterations", {o: partial(crf.marginals_of, problems[o]) for o, crf in crfs.items()}, repeats)
    report("  CRF.marginals", {o: partial(crf.marginals, scores, image) for o, crf in crfs.items()}, repeats)
    f, pixels = torch.from_numpy(scores)[None], torch.from_numpy(image).movedim(-1, 0)[None]
    modules = {option: DenseCRF(CLASSES, **given) for option, given in OPTIONS.items()}
    cotangent = torch.randn(f.shape, generator=torch.Generator().manual_seed(6002))
    log_q = {option: module(f.clone().requires_grad_(), pixels) for option, module in modules.items()}
    backward = {option: partial(each.backward, cotangent, retain_graph=True) for option, each in log_q.items()}
    report("  DenseCRF forward", {o: partial(module, f, pixels) for o, module in modules.items()}, repeats)
    report("  DenseCRF backward", backward, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    print(machine(), f"torch {torch.__version__}")
    patches = np.random.default_rng(6001).normal(size=(CLASSES, 25, 25))
    scores = (2 * np.kron(patches, np.ones((1, 15, 20)))).astype(np.float32)
    for name in NAMES:
        measure(name, scores, repeats)


if __name__ == "__main__":
    main()
