"""Random kernels bound to random points, for tests of the native loop and of its back-tracking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.crf.pairwise import Pairwise, normalized
from densefield.filters import LatticeFilter

Array = npt.NDArray[np.float32]


def random(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def compatibility(kind: str, labels: int, seed: int = 6133) -> Array:
    """μ of shape (), (L,) or (L, L); the matrix has eigenvalues of either sign."""
    if kind == "potts":
        return np.array(3, np.float32)
    if kind == "per label":
        return 2 + np.abs(random(labels, seed=seed))
    matrix = random(labels, labels, seed=seed)
    return (matrix + matrix.T) / np.float32(np.sqrt(labels))


def bind_random(
    points: int,
    labels: int,
    *,
    dimensions: Sequence[int] = (2, 5),
    normalization: Any = "symmetric",
    kinds: Sequence[str] = ("potts", "per label", "matrix"),
    exclude_self: bool = False,
    ignore: bool = False,
    operator: Any = "symmetric",
    strength: float = 1.0,
    seed: int = 8821,
) -> list[Pairwise]:
    """One kernel for every dimension, on points that have neighbours in it."""
    present = np.ones((points, 1), np.float32)
    if ignore:
        present[np.random.default_rng(seed).random(points) < 0.2] = 0
    bounds = []
    for index, dimension in enumerate(dimensions):
        features = random(points, dimension, seed=seed + index) * np.float32(1.5 if dimension < 6 else 0.5)
        lattice = LatticeFilter(features, operator=operator, calibrate=normalization == "none")
        mu = np.asarray(compatibility(kinds[index % len(kinds)], labels) * np.float32(strength))
        diagonal = lattice.diagonal() if exclude_self else None
        bounds.append(normalized(lattice.apply, normalization, mu, present, diagonal, lattice))
    return bounds
