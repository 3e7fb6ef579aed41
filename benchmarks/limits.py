"""What inference cannot do without, each part measured by itself, against the whole and against pydensecrf.

    python benchmarks/limits.py

A lower bound for this algorithm as it is built here: two copies of the labels' planes, an exponential for every label
and pixel, the way to the corners of simplices and back, the blur (both for all labels but one), and the lattices with
their normalisation. What is not in it: softmax but for its exponentials, turning labels-first into pixels-first, and
threads waiting for each other.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from clock import best_seconds, interleaved, machine
from crf import CASES, energies_of, infer, ours, theirs
from filter import copiers
from photos import photo

from densefield import LatticeFilter
from densefield.filters.pixel_order import pixel_order
from densefield.filters.threads import default_threads
from densefield.pydensecrf import pairwise

ROUNDS = 15


def exponential_seconds() -> float:
    """The time of one exponential on one thread, arguments and results in the nearest cache."""
    arguments = -np.random.default_rng(0).random(4096, np.float32)
    results = np.empty_like(arguments)
    many = 64

    def call() -> None:
        for _ in range(many):
            np.exp(arguments, out=results)

    return best_seconds(call, ROUNDS) / many / len(arguments)


def parts_of(case: str, threads: int) -> dict[str, float]:
    """Seconds of every part, over all updates."""
    height, width, labels, updates, widths, _ = CASES[case]
    image = photo("astronaut", height, width).round().astype(np.uint8)
    order = pixel_order((height, width))
    features = [
        pairwise.grid_features(width, height, (3.0, 3.0), order),
        pairwise.image_features(width, height, *widths, image, order),
    ]
    values = np.random.default_rng(0).random((height * width, labels), np.float32)
    out = np.empty_like(values)
    parts = {"copies in and out": 2 * min(interleaved(copiers(values, out, threads), ROUNDS).values())}
    parts["exponentials"] = exponential_seconds() * values.size * (updates + 1) / threads
    parts |= dict.fromkeys(("spreading to corners", "collecting there", "blur", "lattices", "their normalisation"), 0.0)
    differences = values[None, :, 1:].copy()  # lattices have one channel less than there are labels
    sums = np.empty_like(differences)
    ones = np.ones((height * width, 1), np.float32)
    for points in features:
        build = partial(LatticeFilter, points, operator="pydensecrf", calibrate=False, threads=threads)
        lattice = build()
        phases = np.min([lattice._core.time_phases(differences, sums, threads) for _ in range(ROUNDS)], axis=0)
        for name, seconds in zip(("spreading to corners", "blur", "collecting there"), phases, strict=True):
            parts[name] += updates * float(seconds)
        best = interleaved({"lattices": build, "their normalisation": partial(lattice.apply, ones)}, ROUNDS)
        for name, seconds in best.items():
            parts[name] += seconds
    return parts


def report(case: str, threads: int) -> None:
    """The parts, their sum, what inference takes, and how fast it could be if it were nothing but the parts."""
    height, width, labels, updates, widths, _ = CASES[case]
    image = photo("astronaut", height, width).round().astype(np.uint8)
    run = partial(infer, image=image, energies=energies_of(height, width, labels), updates=updates, widths=widths)

    def first() -> object:
        pairwise._shared.cache_clear()
        return run(ours)

    whole = interleaved({"pydensecrf": lambda: run(theirs), "inference": first}, ROUNDS)
    parts = parts_of(case, threads)
    total = sum(parts.values())
    print(f"\n{case}, {threads} threads")
    for name, seconds in parts.items():
        print(f"  {name:22s} {seconds * 1e3:7.1f} ms")
    for name, seconds in {"all of these": total, **whole}.items():
        print(f"  {name:22s} {seconds * 1e3:7.1f} ms   {whole['pydensecrf'] / seconds:5.1f} times as fast")


def main() -> None:
    print(machine())
    for case in list(CASES)[:3]:
        report(case, default_threads())


if __name__ == "__main__":
    main()
