"""The Gaussian's own derivative with respect to features, with every sum by the filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from densefield.filters.operator import FeatureFilter

A = TypeVar("A")

_ENOUGH_CHANNELS = 32


def moment_gradients(k: FeatureFilter[A], cotangent: A, values: A, features: Any) -> tuple[A, A]:
    """Kᵀ g and ∂⟨g, K v⟩/∂x_i = -Σ_j (g_i·v_j k(i,j) + v_i·g_j k(j,i)) (x_i - x_j), (…, N, C) and (N, d).

    x_j k(i,j) v_j is summed by filtering x ⊗ v, so it takes 2(d+1) filterings.
    """
    g: Any = cotangent
    v: Any = values
    x = features
    back: Any = k.apply_adjoint(g)
    here = (_inner(g, k.apply(v)) + _inner(v, back))[:, None]  # (N, 1)
    slope: Any = _as(x * 0, v)  # (N, d)
    if len(x) == 0:
        return back, slope
    # Few channels are filtered for several features at once: rows of some tens of channels are quickest.
    together = max(1, _ENOUGH_CHANNELS // max(v.shape[-1], 1))
    for first in range(0, x.shape[1], together):
        axes = slice(first, first + together)
        # Sums do not change when the origin moves; near the middle of the features less is lost to rounding.
        columns = _as(x[:, axes] - (_most(x[:, axes]) - _most(-x[:, axes])) / 2, v)
        slope[:, axes] = _moved(k.apply, columns, g, v) + _moved(k.apply_adjoint, columns, v, g) - columns * here
    return back, slope


def _moved(apply: Callable[[Any], Any], columns: Any, left: Any, right: Any) -> Any:
    """Σ_c left_ic · Σ_j k(i,j) x_jd right_jc for some features d, (N, D)."""
    products = right[..., None] * columns[:, None, :]  # (…, N, C, D)
    sums = apply(products.reshape((*right.shape[:-1], right.shape[-1] * columns.shape[1]))).reshape(products.shape)
    coupled = (left[..., None] * sums).sum(-2)
    return coupled.sum(0) if coupled.ndim == 3 else coupled


def _as(array: Any, like: Any) -> Any:
    """In the other's precision."""
    return array.astype(like.dtype, copy=False) if isinstance(array, np.ndarray) else array.to(like.dtype)


def _most(columns: Any) -> Any:
    """The greatest of each column; numpy and torch name it differently."""
    return columns.max(0) if isinstance(columns, np.ndarray) else columns.amax(0)


def _inner(a: Any, b: Any) -> Any:
    """Σ over channels, and over the batch where there is one, (N,)."""
    products = (a * b).sum(-1)
    return products.sum(0) if products.ndim == 2 else products
