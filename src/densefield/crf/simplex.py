"""The convex program that convergent inference leaves to each pixel (paper, Inference, CCCP).

min Σ_l q_l log q_l - q·c + ½ qᵀ D q over distributions q of L labels, with D positive semi-definite. Both solvers
work in double precision whatever they are given, and in batches, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from densefield.crf.lambert import Double, lambert_of_exponential
from densefield.crf.softmax import log_softmax

Array = npt.NDArray[np.floating]

_EPS = float(np.finfo(np.float64).eps)
_BATCH = 1 << 16  # numbers in one array of a batch
_MOST_STEPS = 500  # far more than were ever needed


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
    convex and bound by nothing, so no step leads out of the simplex: whatever x is, p = softmax(c - D x) is a
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
