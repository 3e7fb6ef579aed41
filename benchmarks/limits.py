"""A lower bound of the time of inference: its parts measured separately, beside the whole and pydensecrf.

    python benchmarks/limits.py

The parts are two copies of the scores, an exponential per class, pixel and iteration, splat, slice and blur of all
classes but one, and the lattices with their normalization. Not included: the rest of softmax, transposition, and
threads waiting for each other.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from clock import best_seconds, interleaved, machine
from crf import CASES, energies_of, infer, ours, theirs
from filter import copiers
from photos import photo

from densefield.crf import pairwise
from densefield.crf.pairwise import PixelGrid
from densefield.filters import LatticeFilter
from densefield.filters.pixel_order import pixel_order
from densefield.filters.threads import default_threads

ROUNDS = 15


def exponential_seconds() -> float:
    """Time of one exponential on one thread, with arguments and results in the first-level cache."""
    arguments = -np.random.default_rng(0).random(4096, np.float32)
    results = np.empty_like(arguments)
    many = 64

    def call() -> None:
        for _ in range(many):
            np.exp(arguments, out=results)

    return best_seconds(call, ROUNDS) / many / len(arguments)


def parts_of(case: str, threads: int) -> dict[str, float]:
    """Seconds of every part, over all iterations."""
    height, width, num_classes, iterations, widths, _ = CASES[case]
    image = photo("astronaut", height, width).round().astype(np.uint8)
    grid = PixelGrid((height, width), order=pixel_order((height, width)))
    colours = {"channel": image.reshape(-1, 3)}
    near = np.array([3.0, 3.0])
    alike = np.array([widths[0]] * 2 + [widths[1]] * 3, np.float64)
    features = [
        grid.features(["position"], {}, near, np.float32, threads),
        grid.features(["position", "channel"], colours, alike, np.float32, threads),
    ]
    values = np.random.default_rng(0).random((height * width, num_classes), np.float32)
    out = np.empty_like(values)
    parts = {"copies in and out": 2 * min(interleaved(copiers(values, out, threads), ROUNDS).values())}
    parts["exponentials"] = exponential_seconds() * values.size * (iterations + 1) / threads
    parts |= dict.fromkeys(("splat", "slice", "blur", "lattices", "normalization"), 0.0)
    differences = values[None, :, 1:].copy()  # lattices filter one channel less than classes
    sums = np.empty_like(differences)
    ones = np.ones((height * width, 1), np.float32)
    for points in features:
        build = partial(LatticeFilter, points, operator="pydensecrf", calibrate=False, threads=threads)
        lattice = build()
        phases = np.min([lattice._core.time_phases(differences, sums, threads) for _ in range(ROUNDS)], axis=0)
        for name, seconds in zip(("splat", "blur", "slice"), phases, strict=True):
            parts[name] += iterations * float(seconds)
        best = interleaved({"lattices": build, "normalization": partial(lattice.apply, ones)}, ROUNDS)
        for name, seconds in best.items():
            parts[name] += seconds
    return parts


def report(case: str, threads: int) -> None:
    """Print the parts, their sum, and the time of inference."""
    height, width, num_classes, iterations, widths, _ = CASES[case]
    image = photo("astronaut", height, width).round().astype(np.uint8)
    run = partial(
        infer, image=image, energies=energies_of(height, width, num_classes), updates=iterations, widths=widths
    )

    def first() -> object:
        pairwise._cache.clear()
        return run(ours)

    whole = interleaved({"pydensecrf": lambda: run(theirs), "inference": first}, ROUNDS)
    parts = parts_of(case, threads)
    total = sum(parts.values())
    print(f"\n{case}, {threads} threads")
    for name, seconds in parts.items():
        print(f"  {name:22s} {seconds * 1e3:7.1f} ms")
    for name, seconds in {"sum of these": total, **whole}.items():
        print(f"  {name:22s} {seconds * 1e3:7.1f} ms   {whole['pydensecrf'] / seconds:5.1f} times as fast")


def main() -> None:
    print(machine())
    for case in list(CASES)[:3]:
        report(case, default_threads())


if __name__ == "__main__":
    main()
