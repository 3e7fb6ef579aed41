"""A process of volume_speed.py: for each line on stdin, labels of a volume, and on stdout seconds and megabytes.

It imports the method that it is asked for and NumPy alone, so that other packages do not count as its memory.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

ITERATIONS, WIDTH, LEVELS, SPATIAL, BILATERAL = 5, 5.0, 5.0, 2.0, 3.0


def densefield(image: Array, probabilities: Array, threads: int) -> Array:
    """Labels (D, H, W) by densefield."""
    from densefield import CRF
    from densefield.crf import Bilateral, Spatial

    kernels = [Spatial(WIDTH, weight=SPATIAL), Bilateral(WIDTH, LEVELS, weight=BILATERAL)]
    crf = CRF(kernels, iterations=ITERATIONS, threads=threads)
    scores = np.log(np.moveaxis(probabilities, -1, 0))
    labels: Array = crf.marginals(scores, image[..., None]).argmax(0)
    return labels


def simplecrf(image: Array, probabilities: Array, _: int) -> Array:
    """Labels (D, H, W) by SimpleCRF."""
    import denseCRF3D

    parameters: dict[str, Any] = {"MaxIterations": float(ITERATIONS), "ModalityNum": 1, "BilateralModsStds": (LEVELS,)}
    parameters |= {"PosW": SPATIAL, "BilateralW": BILATERAL}
    parameters |= {f"{kind}{axis}Std": WIDTH for kind in ("Pos", "Bilateral") for axis in "RCZ"}
    labels: Array = denseCRF3D.densecrf3d(image[..., None], probabilities, parameters)
    return labels


def memory(field: str) -> float:
    """A field of the process's status, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) / 1000 for line in lines if line.startswith(field))


def main(method: str, threads: int, problem: str, result: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # SimpleCRF prints its parameters
    compute: Callable[[Array, Array, int], Array] = {"densefield": densefield, "simplecrf": simplecrf}[method]
    arrays = np.load(problem)
    image, probabilities = arrays["image"], arrays["probabilities"]
    compute(image[:4, :4, :4].copy(), probabilities[:4, :4, :4].copy(), threads)  # imports, and pools of threads
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the peak so far
    before = memory("VmRSS")
    labels: Array | None = None
    for _ in sys.stdin:
        start = time.perf_counter()
        labels = compute(image, probabilities, threads)
        seconds = time.perf_counter() - start
        print(f"{seconds} {memory('VmHWM') - before}", file=answers, flush=True)
    if labels is not None:
        np.save(result, labels)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
