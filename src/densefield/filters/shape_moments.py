"""How a lattice's sums change with the kernel's shape: second moments of pairs of points from those of vertices.

The lattice carries a value from a point to vertices, from vertex to vertex, and to a point again: a step of variance v
by the blur, between two interpolations with the rest of the variance V. Of two points that are δ apart, the step
between vertices is then on average v/V·δ, with the variance v(V - v)/V, so its second moment is E = (v/V)²·δδᵀ +
v(V - v)/V·1. For a Gaussian of variance V the derivative by the logarithm of its width is k·δδᵀ/V = k·(V/v²·E -
(V - v)/v·1). V is 1, or slightly more where the lattice is coarser to make up for vertices that are missing.

What is to be taken away depends on which vertices are missing near a point. So it is measured there, on pairs whose
moments are cheap: those of the numbers y and 1 with y_i (K·1)_i = t_i, where t_i is what the pairs in question sum to
in the row of point i; and 1 is 0 for points that take no part in any pair. Moments between points of one number and 1
need d+2 filterings of one channel, those of all labels d+1 filterings of all of them. benchmarks/shapes.py compares
both with the exact sum.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from densefield.filters.operator import FeatureFilter


def moments_of_pairs(
    k: FeatureFilter[Tensor],
    features: Tensor,  # (N, d)
    sums: Tensor,  # (N, 1): t
    present: Tensor,  # (N, 1): 1, or 0 for points that neither send nor receive
    vertices: Tensor,  # (d, d): E of the pairs in question
    vertex_moments: Callable[[Tensor, Tensor], Tensor],  # E of numbers (N, 1) and (N, 1)
    factor: float,  # V/v²
) -> Tensor:
    """V/v²·(E - E′) + P′, (d, d): E′ and P′ are the moments of y and 1, between vertices and between points."""
    y = present * sums / (k.apply(present) + (1 - present))
    # Differences of larger sums, in float64 on the CPU, since not every device knows it.
    x = features.cpu().double()
    x = x - x.mean(0) if len(x) else x
    moved = k.apply(present * x.to(sums))
    cross = x.T @ (y * moved).cpu().double()
    around = (sums + present * k.apply_adjoint(y)).cpu().double()
    points = x.T @ (around * x) - cross - cross.T
    return factor * (vertices - vertex_moments(y, present)) + points
