"""Convergent inference: the concave-convex procedure (CCCP), whose every step lowers the free energy.

Each step leaves one convex program per pixel: min Σ_l q_l log q_l - q·c + ½ qᵀ D q over distributions q, with a
positive semi-definite D. Its solvers work in double precision and in batches, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from densefield.crf.compatibility import is_positive_semidefinite
from densefield.crf.mean_field import Step, largest_change, log_softmax, update
from densefield.crf.pairwise import Pairwise
from densefield.errors import InputError

Array = npt.NDArray[np.floating]
Double = npt.NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
_BATCH = 1 << 16  # numbers in one array of a batch
_MOST_STEPS = 500  # far more than any program needs
_NEGLIGIBLE = -40.0  # below it ω² is lost to rounding beside ω, so that ω = e^x


def convergent_steps(
    scores: Array,  # (N, L)
    pairwise: Sequence[Pairwise[Array]],
) -> Iterator[Step[Array]]:
    """q⁰, q¹, q², … without end, with non-increasing free energy (paper, Inference, CCCP; KK13).

    With A = Σ_m μ_m ⊗ K̂_m, diagonal included, and D_i = Σ_m μ_m K̂_m(i,i), the free energy is
    Σ_i q_i·(log q_i - f_i) + ½ Σ_i q_iᵀ D_i q_i - ½ qᵀ A q. The last term is concave; it is replaced by its tangent at
    q^t, which takes one filtering for each kernel, and the convex rest is minimised for every pixel by itself. Where
    the terms keep their diagonals, the term in D is missing and the step is the parallel update (Eq. 5).

    Every μ_m must be positive semi-definite, and every K̂_m symmetric and positive semi-definite. That is sufficient,
    not necessary: the sum A may be positive semi-definite though one summand is not.

    >>> import numpy as np
    >>> from densefield.crf.pairwise import normalized
    >>> pair = normalized(lambda v: np.ones((2, 2)) @ v, "none", np.array(3.0), np.ones((2, 1)), np.ones(2))
    >>> steps = convergent_steps(np.array([[0.2, 0.0], [0.0, 0.1]]), [pair])
    >>> [next(steps).q[:, 0].round(3).tolist() for _ in range(3)]
    [[0.55, 0.475], [0.535, 0.505], [0.544, 0.514]]
    """
    check_convergent(pairwise)
    return _descend(scores, pairwise)


def _descend(scores: Array, pairwise: Sequence[Pairwise[Array]]) -> Iterator[Step[Array]]:
    log_q = log_softmax(scores)
    q = np.exp(log_q)
    yield Step(q, log_q, float("inf"))
    with_diagonal = [replace(term, own=None) for term in pairwise]  # A has its diagonal
    while True:
        log_q = minimise(update(scores, with_diagonal, q), pairwise, q)
        last, q = q, np.exp(log_q)
        yield Step(q, log_q, largest_change(q, last))


def minimise(c: Array, pairwise: Sequence[Pairwise[Array]], q: Array) -> Array:
    """log q of the least Σ_l q_l log q_l - q·c + ½ qᵀ D q at every pixel, D = Σ_m μ_m K̂_m(i,i); q is where to start."""
    own = [(term.own, term.mu) for term in pairwise if term.own is not None]
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


def check_convergent(pairwise: Sequence[Pairwise[Array]]) -> None:
    """Raises unless all kernels are symmetric and all weights positive semi-definite."""
    for number, term in enumerate(pairwise, start=1):
        which = f"kernel {number} of {len(pairwise)}"
        if not term.is_symmetric:
            raise InputError(
                f"convergent inference expects symmetric kernel matrices, but {which} is normalised on one side only. "
                "Use normalization='symmetric' or 'none', or parallel inference."
            )
        if not is_positive_semidefinite(term.mu):
            learnt = " A matrix that is learnt may become so: freeze it." if term.mu.ndim == 2 else ""
            raise InputError(
                f"convergent inference expects positive semi-definite weights, but the weight of {which} is not: for "
                f"some combination of labels, alike pixels repel each other.{learnt} Use weights that are not "
                "negative, or a matrix w @ w.T, or parallel inference."
            )


def solve_diagonal(
    c: Array,  # (N, L)
    d: Array,  # (N, 1) or (N, L), not negative
) -> Array:
    """log q (N, L) for D = diag(d), by Newton's method on the multiplier ν of Σ_l q_l = 1.

    Stationarity is log q_l + d_l q_l = c_l - ν, hence q_l = W(d_l e^(c_l-ν))/d_l with Lambert's W. Σ_l q_l(ν) falls
    and is convex, so from the left of the root Newton's method rises to it and never passes it. Where d is 0 it is the
    softmax.

    >>> np.exp(solve_diagonal(np.array([[2.0, 0.0]]), np.array([[1.0]]))).round(3)
    array([[0.802, 0.198]])
    """
    log_q = np.empty_like(c)
    for rows in _batches(len(c), c.shape[1]):
        log_q[rows] = _diagonal(c[rows].astype(np.float64), d[rows].astype(np.float64))
    return log_q


def _diagonal(c: Double, d: Double) -> Double:
    c -= c.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        log_d = np.log(d)  # -∞ where there is no quadratic term; there W is 0
    # At the solution ν = log Σ exp(c - d q), and no q is above one.
    nu = _log_sum_exp(c - d)
    for _ in range(_MOST_STEPS):
        w = lambert_of_exponential(c - nu + log_d)
        # The same in two forms, each where nothing cancels.
        log_q: Double = np.where(w > 1, np.log(np.maximum(w, 1)) - log_d, c - nu - w)
        q = np.exp(log_q)
        step = (q.sum(axis=1, keepdims=True) - 1) / (q / (1 + w)).sum(axis=1, keepdims=True)
        if (step <= 4 * _EPS * np.maximum(1, -nu)).all():
            break
        nu += np.maximum(step, 0)
    # The last step, without rounding ν; it is so small that its square is nothing.
    log_q -= step / (1 + w)
    return log_q


def solve_matrix(
    c: Array,  # (N, L)
    factors: Array,  # (N, M), not negative
    matrices: Array,  # (M, L, L), symmetric and positive semi-definite
    start: Array,  # (N, L), distributions near the solution, if such are known
) -> Array:
    """log q (N, L) for D_i = Σ_m s_im M_m, by damped Newton's method.

    Stationarity is q = softmax(c - D q). Its solution minimises ψ(x) = ½ xᵀ D x + log Σ_l exp(c - D x)_l, which is
    convex and unconstrained, so no step leads out of the simplex: whatever x is, p = softmax(c - D x) is a
    distribution. Newton's step δ for ψ solves (I + (diag p - p pᵀ) D) δ = p - x, and keeps Σ_l x_l = 1.

    >>> alike = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])  # two labels that attract each other
    >>> c = np.array([[1.0, 0.0, 0.0]])
    >>> log_q = solve_matrix(c, np.ones((1, 1)), alike[None], np.full((1, 3), 1 / 3))
    >>> (log_q + np.exp(log_q) @ alike - c).round(6)  # the same for all labels: -ν
    array([[-0.860894, -0.860894, -0.860894]])
    """
    log_q = np.empty_like(c)
    shared = matrices.astype(np.float64)
    for rows in _batches(len(c), c.shape[1] ** 2):
        b, x = c[rows].astype(np.float64), start[rows].astype(np.float64)
        b -= b.max(axis=1, keepdims=True)
        d = np.tensordot(factors[rows].astype(np.float64), shared, axes=1)
        # A large D makes ψ all corners. With the entropy weighted up they are round, and the solution leads on.
        heat = float(np.abs(d).max()) / 100
        while heat > 1:
            x = np.exp(_matrix(b / heat, d / heat, x))
            heat /= 10
        log_q[rows] = _matrix(b, d, x)
    return log_q


def _matrix(
    c: Double,  # (B, L)
    d: Double,  # (B, L, L)
    x: Double,  # (B, L)
) -> Double:
    log_q = log_p = log_softmax(c - _times(d, x))
    here = np.arange(len(c))
    for _ in range(_MOST_STEPS):
        rest = np.exp(log_p) - x
        busy = np.abs(rest).max(axis=1) > 4 * _EPS
        if not busy.any():
            break
        here, d, x, log_p, rest = (array[busy] for array in (here, d, x, log_p, rest))
        p = np.exp(log_p)
        jacobian = p[:, :, None] * (d - p[:, None, :] @ d)
        jacobian += np.eye(c.shape[1])
        step = np.linalg.solve(jacobian, rest[:, :, None])[:, :, 0]
        slope = _times(d, step)
        size = _step_sizes(log_p, x, rest, step, slope)
        x = x + size * step
        # Carried on instead of computed from x again: the rounding of D x does not enter at every step.
        log_p = log_softmax(log_p - size * slope)
        log_q[here] = log_p
    return log_q


def _step_sizes(log_p: Double, x: Double, rest: Double, step: Double, slope: Double) -> Double:
    """1, ½, ¼, … for each pixel, the first to lower ψ by a part of what its tangent promises, (B, 1).

    ψ(x + tδ) - ψ(x) = t x·Dδ + ½ t² δ·Dδ + log Σ_l p_l exp(-t Dδ)_l: the large terms of ψ have cancelled beforehand.
    """
    promised = -(rest * slope).sum(axis=1, keepdims=True)
    linear = (x * slope).sum(axis=1, keepdims=True)
    square = (step * slope).sum(axis=1, keepdims=True) / 2
    slack = 16 * _EPS * (1 + np.abs(slope).max(axis=1, keepdims=True))
    size = np.ones((len(x), 1))
    for _ in range(60):
        change = size * linear + size**2 * square + _log_sum_exp(log_p - size * slope)
        rises = change > 1e-4 * size * promised + slack
        if not rises.any():
            break
        size[rises] /= 2
    return size


def _times(d: Double, x: Double) -> Double:
    """D x for each pixel, (B, L)."""
    return (d @ x[:, :, None])[:, :, 0]


def _log_sum_exp(x: Double) -> Double:
    most: Double = x.max(axis=1, keepdims=True)
    most += np.log(np.exp(x - most).sum(axis=1, keepdims=True))
    return most


def _batches(count: int, size: int) -> Iterator[slice]:
    """Slices of rows, each of `size` numbers, that hold _BATCH numbers or a single row."""
    rows = max(1, _BATCH // size)
    return (slice(first, first + rows) for first in range(0, count, rows))


def lambert_of_exponential(x: Double) -> Double:
    """ω with ω + log ω = x, that is W(e^x), for x from -∞ upwards, of any shape.

    It is e^x far below zero and x - log x far above. The steps are those of Fritsch, Shafer and Crowley (1973), whose
    error is of the fourth order: from log(1 + e^x), which is never farther off than two fifths, two steps suffice.

    >>> lambert_of_exponential(np.array([-np.inf, 1.0, 1e4])).round(3).tolist()
    [0.0, 1.0, 9990.791]
    """
    above = np.maximum(x, _NEGLIGIBLE)
    w = np.maximum(above, 0) + np.log1p(np.exp(-np.abs(above)))
    for _ in range(2):
        rest = above - w - np.log(w)
        ratio = rest / (1 + w)
        scale = 1 + w + rest * (2 / 3)
        w *= 1 + ratio * (scale - ratio / 2) / (scale - ratio)
    return np.where(x < _NEGLIGIBLE, np.exp(np.minimum(x, 0)), w)
