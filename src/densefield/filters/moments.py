"""The Gaussian's own derivative with respect to features, with every sum by the filter."""

from __future__ import annotations

from typing import Any, TypeVar

from densefield.filters.operator import FeatureFilter

A = TypeVar("A")


def moment_gradients(k: FeatureFilter[A], cotangent: A, values: A, features: A) -> tuple[A, A]:
    """Kᵀ g and ∂⟨g, K v⟩/∂x_i = -Σ_j (g_i·v_j k(i,j) + v_i·g_j k(j,i)) (x_i - x_j), (…, N, C) and (N, d).

    x_j k(i,j) v_j is summed by filtering x ⊗ v, one feature at a time, so it takes 2(d+1) filterings.
    """
    g: Any = cotangent
    v: Any = values
    x: Any = features
    forward: Any = k.apply(v)
    back: Any = k.apply_adjoint(g)
    slope: Any = x * 0  # (N, d)
    here = _inner(g, forward) + _inner(v, back)  # (N,)
    for axis in range(x.shape[1]):
        # Sums do not change when the origin moves; near the middle of the features less is lost to rounding.
        column = x[:, axis]
        if len(column):
            column = column - (column.max() + column.min()) / 2
        moved = _inner(g, k.apply(column[:, None] * v)) + _inner(v, k.apply_adjoint(column[:, None] * g))
        slope[:, axis] = moved - column * here
    return back, slope


def _inner(a: Any, b: Any) -> Any:
    """Σ over channels, and over the batch where there is one, (N,)."""
    products = (a * b).sum(-1)
    return products.sum(0) if products.ndim == 2 else products
