"""The derivative of a normalised lattice by its widths, compared with that of the exact Gaussian sum.

    python benchmarks/shapes.py

Of S = ⟨g, D^-½ K D^-½ v⟩, D = K·1, by the logarithms of the five widths: Σ_ij (∂S/∂k(i,j)) k(i,j) (x_i - x_j)². Printed
for every photo and width are cosine and relative length,
  points    with moments between points, each sum by the lattice: what the gradient by features gives;
  vertices  with moments between the lattice's vertices: what the layer learns shapes by.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from gradient import agreement
from photos import Array, errors_on_photos

from densefield.filters import ExactFilter, TorchLatticeFilter

HEIGHT, WIDTH = 90, 120
WIDTHS = ((8, 8), (20, 10), (40, 20), (60, 10))
Apply = Callable[[Array], Array]


def by_widths(apply: Apply, moments: Callable[[Array, Array], Array], g: Array, v: Array) -> Array:
    """The derivative, (d,), of a symmetric filter with these second moments (d,)."""
    one = np.ones((len(g), 1))
    root = apply(one) ** -0.5
    a, b = g * root, v * root
    to_total = -(root**2) / 2 * ((a * apply(b)) + (b * apply(a))).sum(1, keepdims=True)
    return moments(a, b) + moments(to_total, one)


def main() -> None:
    torch.set_num_threads(1)
    print("photo     widths    points: cos  length   vertices: cos  length")
    for case, x, v, g in errors_on_photos(HEIGHT, WIDTH, WIDTHS):
        lattice, exact = TorchLatticeFilter(torch.tensor(x), calibrate=False), ExactFilter(x)

        def apply(values: Array, lattice: TorchLatticeFilter = lattice) -> Array:
            return lattice.apply(torch.tensor(values)).numpy()

        def vertices(a: Array, b: Array, lattice: TorchLatticeFilter = lattice) -> Array:
            return lattice.second_moments(torch.tensor(a), torch.tensor(b)).diagonal().numpy()

        def points(a: Array, b: Array, lattice: TorchLatticeFilter = lattice, x: Array = x) -> Array:
            return -(x * lattice.gradients(torch.tensor(a), torch.tensor(b))[1].numpy()).sum(0)

        def truly(a: Array, b: Array, exact: ExactFilter[Array] = exact, x: Array = x) -> Array:
            return -(x * exact.gradients(a, b)[1]).sum(0)

        truth = by_widths(exact.apply, truly, g, v)
        of_points, of_vertices = (agreement(by_widths(apply, each, g, v), truth) for each in (points, vertices))
        print(f"{case}{of_points[0]:17.3f}{of_points[1]:8.3f}{of_vertices[0]:16.3f}{of_vertices[1]:8.3f}")


if __name__ == "__main__":
    main()
