"""Two gradients with respect to features on the lattice, against that of the exact Gaussian sum.

    python benchmarks/gradient.py

For S = ⟨a, K(x) b⟩:
  lattice   the derivative of what the lattice computes: that of the barycentric weights of splat and slice;
  gaussian  the Gaussian's own, -Σ_j (a_i·b_j + b_i·a_j) k(i,j) (x_i - x_j), every sum by the lattice.
Printed for every photo and width: cosine and relative length of the gradient with respect to all features; of that
with respect to the five widths, -Σ_i x_id ∂S/∂x_id; and the time over that of one filtering.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from clock import best_seconds
from photos import Array, errors_on_photos

from densefield.filters import ExactFilter, LatticeFilter

HEIGHT, WIDTH = 90, 120
WIDTHS = ((8, 8), (20, 10), (40, 20))


def agreement(found: Array, truth: Array) -> tuple[float, float]:
    """Cosine and relative length."""
    lengths = np.linalg.norm(found), np.linalg.norm(truth)
    return float((found * truth).sum() / (lengths[0] * lengths[1])), float(lengths[0] / lengths[1])


def main() -> None:
    print("photo     widths  derivative   features: cos  length   widths: cos  length   filterings")
    for case, x, b, a in errors_on_photos(HEIGHT, WIDTH, WIDTHS):
        a /= ExactFilter(x).apply(np.ones((len(x), 1)))  # each point counts alike, as under normalisation
        truth = ExactFilter(x).gradients(a, b)[1]
        lattice = LatticeFilter(x)
        a32, b32 = a.astype(np.float32), b.astype(np.float32)
        unit = best_seconds(partial(lattice.apply, b32))
        for derivative in ("lattice", "gaussian"):
            gradient = partial(lattice.gradients, a32, b32, derivative)
            found = gradient()[1].astype(np.float64)
            by_feature = agreement(found, truth)
            by_width = agreement(-(x * found).sum(axis=0), -(x * truth).sum(axis=0))
            print(
                f"{case}   {derivative:9s}{by_feature[0]:16.3f}{by_feature[1]:8.3f}"
                f"{by_width[0]:14.3f}{by_width[1]:8.3f}{best_seconds(gradient) / unit:13.1f}"
            )


if __name__ == "__main__":
    main()
