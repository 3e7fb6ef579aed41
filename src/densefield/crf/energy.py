"""The free energy that mean field descends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from densefield.crf.coupling import Coupling

A = TypeVar("A")  # numpy.ndarray or torch.Tensor


def free_energy(
    q: A,  # (N, L)
    log_q: A,
    scores: A,  # (N, L)
    couplings: Sequence[Coupling[A]],
) -> float:
    """G(q) = Σ_i q_i·log q_i - Σ_i q_i·f_i - ½ Σ_ij Σ_m q_iᵀ μ_m q_j k̂_m(i,j) = KL(q‖p) - log Z (paper, Eq. 4).

    The sum is over j ≠ i where the couplings leave out their diagonals, and over all j where they do not.
    """
    marginals: Any = q
    logs: Any = log_q
    # Where q is 0, its logarithm may be -∞; q log q is 0 there.
    entropy = -(marginals * (logs * (marginals > 0))).sum()
    pairwise = sum((marginals * coupling.message(q)).sum() for coupling in couplings)
    return float(-entropy - (marginals * scores).sum() - pairwise / 2)
