"""Inference that lowers the free energy at every step: the paper's concave-convex procedure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from densefield.crf.compatibility import is_positive_semidefinite
from densefield.crf.coupling import Coupling
from densefield.crf.mean_field import Step, largest_change, update
from densefield.crf.simplex import solve_diagonal, solve_matrix
from densefield.crf.softmax import log_softmax
from densefield.errors import InputError

Array = npt.NDArray[np.floating]


def convergent_steps(
    scores: Array,  # (N, L)
    couplings: Sequence[Coupling[Array]],
) -> Iterator[Step[Array]]:
    """q⁰, q¹, q², … without end, none of a higher free energy than the one before (paper, Inference, CCCP; KK13).

    With A = Σ_m μ_m ⊗ K̂_m, diagonal included, and D_i = Σ_m μ_m K̂_m(i,i), the free energy is
    Σ_i q_i·(log q_i - f_i) + ½ Σ_i q_iᵀ D_i q_i - ½ qᵀ A q. The last term is concave; it is replaced by its tangent at
    q^t, which takes one filtering for each kernel, and the convex rest is minimised for every pixel by itself. Where
    the couplings keep their diagonals, the term in D is missing and the step is the parallel update (Eq. 5).

    Every μ_m must be positive semi-definite, and every K̂_m symmetric and positive semi-definite. That is sufficient,
    not necessary: the sum A may be positive semi-definite though one summand is not.

    >>> import numpy as np
    >>> from densefield.crf.coupling import couple
    >>> pair = couple(lambda v: np.ones((2, 2)) @ v, "none", np.array(3.0), np.ones((2, 1)), np.ones(2))
    >>> steps = convergent_steps(np.array([[0.2, 0.0], [0.0, 0.1]]), [pair])
    >>> [next(steps).q[:, 0].round(3).tolist() for _ in range(3)]
    [[0.55, 0.475], [0.535, 0.505], [0.544, 0.514]]
    """
    _check(couplings)
    return _descend(scores, couplings)


def _descend(scores: Array, couplings: Sequence[Coupling[Array]]) -> Iterator[Step[Array]]:
    log_q = log_softmax(scores)
    q = np.exp(log_q)
    yield Step(q, log_q, float("inf"))
    whole = [replace(coupling, own=None) for coupling in couplings]  # A has its diagonal
    while True:
        log_q = _minimise(update(scores, whole, q), couplings, q)
        last, q = q, np.exp(log_q)
        yield Step(q, log_q, largest_change(q, last))


def _minimise(c: Array, couplings: Sequence[Coupling[Array]], q: Array) -> Array:
    """log q of the least Σ_l q_l log q_l - q·c + ½ qᵀ D q at every pixel, D = Σ_m μ_m K̂_m(i,i); q is where to start."""
    own = [(coupling.own, coupling.mu) for coupling in couplings if coupling.own is not None]
    if not own:
        return log_softmax(c)
    if all(mu.ndim < 2 for _, mu in own):
        d = np.zeros_like(c[:, :1])
        for k, mu in own:
            d = d + k * mu
        return solve_diagonal(c, d)
    labels = np.eye(c.shape[1])
    matrices = np.stack([mu if mu.ndim == 2 else labels * mu for _, mu in own])
    return solve_matrix(c, np.concatenate([k for k, _ in own], axis=1), matrices, q)


def _check(couplings: Sequence[Coupling[Array]]) -> None:
    for number, coupling in enumerate(couplings, start=1):
        which = f"kernel {number} of {len(couplings)}"
        instead = "Or leave convergent out and use damping=, which calms oscillation but does not promise descent."
        if not coupling.is_symmetric:
            raise InputError(
                f"convergent inference expects symmetric kernel matrices, but {which} is normalised on one side only. "
                f"Use normalization='symmetric' or 'none'. {instead}"
            )
        if not is_positive_semidefinite(coupling.mu):
            raise InputError(
                f"convergent inference expects positive semi-definite weights, but the weight of {which} is not: for "
                f"some combination of labels, alike pixels repel each other. Use weights that are not negative, or a "
                f"matrix w @ w.T. {instead}"
            )
