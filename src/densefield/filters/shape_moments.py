"""How a lattice's sums change with the kernel's shape: second moments of pairs of points from those of vertices.

The lattice carries a value from a point to vertices, from vertex to vertex, and to a point again: a step of variance v
by the blur, between two interpolations with the rest of the variance V. Of two points that are δ apart, the step
between vertices is then on average v/V·δ, with the variance v(V - v)/V, so its second moment is E = (v/V)²·δδᵀ +
v(V - v)/V·1. For a Gaussian of variance V the derivative by the logarithm of its width is k·δδᵀ/V = k·(V/v²·E -
(V - v)/v·1). V is 1, or slightly more where the lattice is coarser to make up for vertices that are missing.

What is to be taken away depends on which vertices are missing near a point. So it is measured there, on pairs whose
moments are cheap: those of the numbers y and 1 with y_i (K·1)_i = t_i, where t_i is half of what the pairs in question
sum to in the row and in the column of point i. Moments between points of one number and 1 need d+1 filterings of one
channel, those of all labels d+1 filterings of all of them. benchmarks/shapes.py compares both with the exact sum.
"""

from __future__ import annotations

from typing import Any


def moments_of_pairs(vertices: Any, alike: Any, alike_points: Any, factor: float) -> Any:
    """V/v²·(E - E′) + P′, (d, d): E′ and P′ are moments of y and 1, between vertices and between points."""
    return factor * (vertices - alike) + alike_points
