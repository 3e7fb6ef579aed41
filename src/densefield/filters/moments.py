"""Gradients of a Gaussian filter from first and second moments of the features, with every sum by the filter.

By features: ∂⟨g, K v⟩/∂x_i = -Σ_j (g_i·v_j k(i,j) + v_i·g_j k(j,i)) (x_i - x_j). The sums of x_j k(i,j) v_j are the
filter applied to x ⊗ v (`gaussian_gradients`).

By the kernel's shape: for features A x, -∂⟨g, K v⟩/∂A at A = 1 is the second moment Σ_ij k(i,j) (g_i·v_j) δδᵀ with
δ = x_i - x_j. Filtering x ⊗ x ⊗ v would be expensive, so it is estimated from second moments between the vertices of a
lattice. The lattice moves a value from a point to vertices, from vertex to vertex (the blur, of variance v) and back to
a point; all three together have the variance V. If every step were Gaussian, two points at distance δ would have a
step between vertices of mean v/V·δ and variance v(V - v)/V, with the second moment E = (v/V)²·δδᵀ + v(V - v)/V·1. So
k·δδᵀ/V = k·(V/v²·E - (V - v)/v·1). V is 1, or slightly more where the lattice is coarsened.

The second term depends on which vertices are missing near a point, so it is measured: it is the difference between the
vertex moments and the point moments of the two functions y and 1 with y_i (K·1)_i = t_i, where t_i is the row sum of
k(i,j) w_ij over j. Point moments of one channel and 1 are cheap: d+2 filterings of one channel instead of d+1 of
all. benchmarks/shapes.py compares the result with the exact sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from densefield.filters.operator import GaussianFilter

if TYPE_CHECKING:
    from torch import Tensor

A = TypeVar("A")

_FAST_CHANNELS = 32


def gaussian_gradients(k: GaussianFilter[A], cotangent: A, values: A, features: Any) -> tuple[A, A]:
    """Kᵀ g and ∂⟨g, K v⟩/∂x of the Gaussian, (…, N, C) and (N, d), by 2(d+1) filterings."""
    g: Any = cotangent
    v: Any = values
    x = features
    back: Any = k.apply_adjoint(g)
    row_sums = (_inner(g, k.apply(v)) + _inner(v, back))[:, None]  # (N, 1)
    slope: Any = _as(x * 0, v)  # (N, d)
    if len(x) == 0:
        return back, slope
    # Few channels are filtered for several features at once: rows of some tens of channels are fastest.
    together = max(1, _FAST_CHANNELS // max(v.shape[-1], 1))
    for first in range(0, x.shape[1], together):
        axes = slice(first, first + together)
        # Sums do not depend on the origin; near the middle of the features rounding errors are smaller.
        columns = _as(x[:, axes] - (_largest(x[:, axes]) - _largest(-x[:, axes])) / 2, v)
        moved = _first_moments(k.apply, columns, g, v) + _first_moments(k.apply_adjoint, columns, v, g)
        slope[:, axes] = moved - columns * row_sums
    return back, slope


def point_moments(
    k: GaussianFilter[Tensor],
    features: Tensor,  # (N, d)
    row_sums: Tensor,  # (N, 1): t
    present: Tensor,  # (N, 1): 1, or 0 for points that neither send nor receive
    vertex_moments: Tensor,  # (d, d): E summed over all pairs, weighted
    moments_between_vertices: Callable[[Tensor, Tensor], Tensor],  # E of two functions (N, 1)
    factor: float,  # V/v²
) -> Tensor:
    """V/v²·(E - E′) + P′, (d, d): E′ and P′ are the vertex and the point moments of y and 1."""
    y = present * row_sums / (k.apply(present) + (1 - present))
    # Differences of larger sums, in float64 on the CPU, since not every device has it.
    x = features.cpu().double()
    x = x - x.mean(0) if len(x) else x
    moved = k.apply(present * x.to(row_sums))
    cross = x.T @ (y * moved).cpu().double()
    both_sums = (row_sums + present * k.apply_adjoint(y)).cpu().double()
    of_points = x.T @ (both_sums * x) - cross - cross.T
    return factor * (vertex_moments - moments_between_vertices(y, present)) + of_points


def _first_moments(apply: Callable[[Any], Any], columns: Any, left: Any, right: Any) -> Any:
    """Σ_c left_ic · Σ_j k(i,j) x_jd right_jc for some features d, (N, D)."""
    products = right[..., None] * columns[:, None, :]  # (…, N, C, D)
    sums = apply(products.reshape((*right.shape[:-1], right.shape[-1] * columns.shape[1]))).reshape(products.shape)
    coupled = (left[..., None] * sums).sum(-2)
    return coupled.sum(0) if coupled.ndim == 3 else coupled


def _as(array: Any, like: Any) -> Any:
    return array.astype(like.dtype, copy=False) if isinstance(array, np.ndarray) else array.to(like.dtype)


def _largest(columns: Any) -> Any:
    return columns.max(0) if isinstance(columns, np.ndarray) else columns.amax(0)


def _inner(a: Any, b: Any) -> Any:
    """Sum of a · b over channels and the batch, (N,)."""
    products = (a * b).sum(-1)
    return products.sum(0) if products.ndim == 2 else products
