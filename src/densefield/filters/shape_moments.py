"""How a lattice's sums change with the kernel's shape: second moments of pairs of points from those of vertices.

The lattice carries a value from a point to vertices, from vertex to vertex, and to a point again: a step of variance v
by the blur, between two interpolations with the rest of the variance V. Of two points that are δ apart, the step
between vertices is then on average v/V·δ, with the variance v(V - v)/V, so its second moment is E = (v/V)²·δδᵀ +
v(V - v)/V·1. For a Gaussian of variance V the derivative by the logarithm of its width is k·δδᵀ/V = k·(V/v²·E -
(V - v)/v·1). V is 1, or slightly more where the lattice is coarser to make up for vertices that are missing.

Moments between vertices take a third of the time of those between points, since values are spread on vertices once.
What is to be taken away depends on which vertices are missing. Where K is normalised, it cancels; else it is measured,
so that K·1 has the moments δδᵀ between points. benchmarks/shapes.py compares both with the exact sum.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from densefield.filters.operator import FeatureFilter

A = TypeVar("A")  # numpy.ndarray or torch.Tensor


def moments_of_pairs(vertices: tuple[Any, Any], factor: float, surplus: A) -> A:
    """factor·moments - surplus·total, (d, d), of the moments between vertices (d, d) and the sum over pairs, ()."""
    moments, total = vertices
    result: A = factor * moments - surplus * total
    return result


def surplus_moments(k: FeatureFilter[A], features: A, vertices: tuple[Any, Any], factor: float) -> Any:
    """By how much factor·moments is too large for each unit of the sum, (d, d), as measured for K·1.

    `features` are near the origin and in the precision of values; `vertices` are the moments between vertices and the
    sum over pairs, for the value 1 at every point.
    """
    moments, total = vertices
    x: Any = features
    if len(x) == 0:
        return moments * 0
    one = x[:, :1] * 0 + 1
    around: Any = k.apply(one)
    around = around + k.apply_adjoint(one)
    moved: Any = k.apply(x)
    # Moments are differences of larger sums.
    x, around, moved = (_wide(each) for each in (x, around, moved))
    cross = x.T @ moved
    pairs = x.T @ (around * x) - cross - cross.T
    return (factor * moments - pairs) / total


def _wide(array: Any) -> Any:
    """In float64, which not every device knows."""
    return array.astype(np.float64) if isinstance(array, np.ndarray) else array.cpu().double()
