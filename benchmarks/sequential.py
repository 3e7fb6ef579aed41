"""Free energies that parallel, convergent and sequential updates reach, and the distance of their marginals.

    python benchmarks/sequential.py

Photos of 16×20 pixels, five classes, exact filters in float64, pixels that send nothing to themselves; kernels of 2
pixels and of 8 pixels and 20 levels with the given weight each. Three random scores per photo and weight.
"""

from __future__ import annotations

import numpy as np
from clock import machine
from photos import NAMES, photo

from densefield import CRF, Bilateral, Spatial

HEIGHT, WIDTH, CLASSES, DRAWS, ITERATIONS = 16, 20, 5, 3, 200
KINDS = ("parallel", "convergent", "sequential")


def main() -> None:
    print(machine())
    print("weight  update      converged  iterations  free energy above the least  largest difference of marginals")
    for weight in (1.0, 3.0, 10.0):
        results: dict[str, list[tuple[bool, int, float, float]]] = {kind: [] for kind in KINDS}
        for name in NAMES:
            image = photo(name, HEIGHT, WIDTH)
            for draw in range(DRAWS):
                patches = np.random.default_rng(7000 + draw).standard_normal((CLASSES, 4, 5))
                scores = np.kron(patches, np.ones((1, 4, 4)))
                kernels = [Spatial(2, weight=weight), Bilateral(8, 20, weight=weight)]
                crf = CRF(kernels, iterations=ITERATIONS, method="exact", exclude_self=True)
                found = {k: crf.replace(inference=k).solve(scores, image, tolerance=1e-6, energies=True) for k in KINDS}
                least = min(each.energies[-1] for each in found.values())
                for kind, each in found.items():
                    apart = np.abs(each.marginals - found["sequential"].marginals).max()
                    results[kind].append((each.converged, each.iterations, each.energies[-1] - least, apart))
        for kind, rows in results.items():
            converged, iterations, above, apart = np.array(rows, float).T
            print(
                f"{weight:5g}   {kind:12s}{converged.mean():8.0%}{np.median(iterations):12.0f}"
                f"{above.mean():20.2g} (max {above.max():.2g}){np.median(apart):14.2g} (max {apart.max():.2g})"
            )


if __name__ == "__main__":
    main()
