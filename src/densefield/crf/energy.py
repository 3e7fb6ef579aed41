"""The free energy that mean field descends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from densefield.crf.coupling import Coupling

A = TypeVar("A")  # numpy.ndarray or torch.Tensor

LEAST_LOG = -1e30  # finite, and below the logarithm of anything above 0


def free_energy(
    q: A,  # (N, L)
    log_q: A,
    scores: A,  # (N, L)
    couplings: Sequence[Coupling[A]],
) -> float:
    """G(q) = Σ_i q_i·log q_i - Σ_i q_i·f_i - ½ Σ_ij Σ_m q_iᵀ μ_m q_j k̂_m(i,j) = KL(q‖p) - log Z (paper, Eq. 4).

    The sum is over j ≠ i where the couplings leave out their diagonals, and over all j where they do not.
    """
    logs: Any = log_q
    # Where q is 0, its logarithm may be -∞; q log q is 0 there.
    negentropy = _inner(q, logs.clip(min=LEAST_LOG))
    pairwise = sum(_inner(q, coupling.message(q)) for coupling in couplings)
    return negentropy - _inner(q, scores) - pairwise / 2


def _inner(a: A, b: A) -> float:
    """Σ a·b; numpy adds up in double precision, which torch does not have on every device."""
    products: Any = a * b  # type: ignore[operator]
    return float(products.sum(dtype=np.float64) if isinstance(products, np.ndarray) else products.sum())
