"""Speed of LatticeFilter: build, splat, blur, slice, threads and size, compared with a memory copy in the same run.

    python benchmarks/filter.py

A copy reads and writes the N×C values once, on as many threads as the filter it stands beside.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
from clock import interleaved, machine
from photos import bilateral_features, photo

from densefield.filters import LatticeFilter
from densefield.filters.threads import default_threads

os.environ["OMP_WAIT_POLICY"] = "passive"  # else torch's threads spin after a copy, during the next call

HEIGHT, WIDTH, CHANNELS = 375, 500, 21
WIDTHS = ((60, 10), (67, 3))


def copiers(source: np.ndarray, target: np.ndarray, threads: int) -> dict[str, Callable[[], object]]:
    """Functions that copy an array on some threads; filters are compared with the fastest."""
    ways: dict[str, Callable[[], object]] = {}
    cuts = np.linspace(0, len(source), threads + 1).astype(int)
    pieces = [(target[a:b], source[a:b]) for a, b in pairwise(cuts)]
    if threads == 1:
        ways["copy by numpy"] = partial(np.copyto, target, source)
    else:
        pool = ThreadPoolExecutor(threads)
        ways["copy by numpy"] = lambda: list(pool.map(lambda piece: np.copyto(*piece), pieces))
    try:
        import torch
    except ModuleNotFoundError:
        return ways
    torch.set_num_threads(threads)
    ways["copy by torch"] = partial(torch.from_numpy(target).copy_, torch.from_numpy(source))
    return ways


def report_lattice(features: np.ndarray, label: str, rounds: int) -> None:
    """Build and filter times on one thread and on all, in milliseconds and in copies."""
    points = len(features)
    values = np.random.default_rng(0).random((points, CHANNELS), np.float32)
    out = np.empty_like(values)
    gigabytes = 2 * values.nbytes / 1e9
    times: dict[int, dict[str, float]] = {}
    for threads in sorted({1, default_threads()}):
        k = LatticeFilter(features, calibrate=False, threads=threads)
        single_sweep = LatticeFilter(features, operator="pydensecrf", threads=threads)
        calls: dict[str, Callable[[], object]] = {
            "build": partial(LatticeFilter, features, calibrate=False, threads=threads),
            "calibration": lambda k=k, threads=threads: k._core.calibrated_magnitude(threads),
            "filtering": partial(k.apply, values, out),
            "single sweep": partial(single_sweep.apply, values, out),
            **copiers(values, out, threads),
        }
        best = interleaved(calls, rounds)
        copy = min(seconds for name, seconds in best.items() if name.startswith("copy"))
        best["splat"], best["blur"], best["slice"] = np.min(
            [k._core.time_phases(values[None], out[None], threads) for _ in range(rounds)], axis=0
        )
        times[threads] = best
        sweep = single_sweep._core.time_phases(values[None], out[None], threads)
        print(f"\n{label}: {points} points, {CHANNELS} channels, {k.num_vertices} vertices, {threads} threads")
        print(f"  copy                 {copy * 1e3:8.2f} ms  {gigabytes / copy:6.1f} GB/s")
        for name in ("filtering", "splat", "blur", "slice", "build", "calibration"):
            seconds = best[name]
            line = f"  {name:20s} {seconds * 1e3:8.2f} ms  {seconds / copy:6.1f} copies"
            if name == "filtering":
                line += f"  {gigabytes / seconds:5.1f} GB/s of values"
            if name in ("build", "calibration"):
                line += f"  {seconds / best['filtering']:5.1f} filterings"
            print(line)
        extra = best["blur"] / 2 / (best["filtering"] - best["blur"] / 2)
        print(f"  symmetry, the second sweep of the blur, costs {extra:.1%} of a filtering without it")
        print(
            f"  operator pydensecrf {best['single sweep'] * 1e3:9.2f} ms, {sweep[1] * 1e3:.2f} ms of it blur,", end=""
        )
        print(f" {single_sweep.num_vertices} vertices")
    if len(times) == 2:
        (one, many) = times.values()
        print(f"  {max(times)} threads over one: build {one['build'] / many['build']:.2f},", end="")
        print(f" filtering {one['filtering'] / many['filtering']:.2f}")


def report_sizes(rounds: int) -> None:
    """Time per point from a small image to a million points, at 60/10."""
    print("\nsize: build and filtering per point, widths 60/10")
    image = photo("coffee", 1000, 1000)
    for side in (250, 354, 500, 707, 1000):
        features = bilateral_features(image[:side, :side], 60, 10).astype(np.float32)
        values = np.random.default_rng(0).random((len(features), CHANNELS), np.float32)
        out = np.empty_like(values)
        k = LatticeFilter(features, calibrate=False)
        best = interleaved(
            {"build": partial(LatticeFilter, features, calibrate=False), "filtering": partial(k.apply, values, out)},
            rounds,
        )
        print(
            f"  {len(features):8d} points, {k.num_vertices:6d} vertices: "
            f"build {best['build'] / len(features) * 1e9:6.1f} ns, "
            f"filtering {best['filtering'] / len(features) * 1e9:6.1f} ns"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=25, help="number of repetitions (default: 25)")
    rounds = arguments.parse_args().rounds
    print(machine())
    for sigma_xy, sigma_rgb in WIDTHS:
        features = bilateral_features(photo("coffee", HEIGHT, WIDTH), sigma_xy, sigma_rgb).astype(np.float32)
        report_lattice(features, f"widths {sigma_xy}/{sigma_rgb}", rounds)
    report_sizes(max(rounds // 3, 3))


if __name__ == "__main__":
    main()
