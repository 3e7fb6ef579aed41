"""Native mean field and its back-tracking: all iterations of one image in one call each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.crf.kernels import Normalization
from densefield.crf.pairwise import Pairwise
from densefield.filters.pixel_order import PixelOrder

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Terms = Sequence[Pairwise[npt.NDArray[np.floating]]]


def native_mean_field(
    pairwise: Terms,
    scores: Float32,  # (L, N)
    iterations: int,
    threads: int,
    *,
    convergent: bool = False,  # steps of convergent_steps() instead of ordinary updates
    marginals: Float32 | None = None,  # (L, N), filled if given
    log_marginals: Float32 | None = None,  # (L, N), filled if given
    states: Float32 | None = None,  # (T, state_floats), filled with q⁰ … q^(T-1) if given
    residuals: Float32 | None = None,  # (T,), filled if given
    tolerance: float | None = None,
    start: Float32 | None = None,  # (L, N): q⁰, by default the softmax of the scores
    order: PixelOrder | None = None,  # of the pixels in the pairwise terms, if not that of the other arrays
) -> int:
    """Up to T iterations (paper, Eq. 5), equal to mean_field() up to rounding; returns the number of iterations.

    Convergent ones equal those of convergent_steps() up to rounding; check_convergent() must hold.
    """
    return _core.mean_field(
        [native_term(term) for term in pairwise],
        scores,
        start,
        iterations,
        convergent,
        marginals,
        log_marginals,
        states,
        residuals,
        -1.0 if tolerance is None else tolerance,
        None if order is None else order.native,
        threads,
        "auto",
    )


def state_floats(points: int, num_classes: int) -> int:
    """The size of one state q^t as the native loop stores it, in tiles of 64 points."""
    return (points + 63) // 64 * 64 * num_classes


def new_array(*shape: int) -> Float32:
    """An uninitialised array from the memory pool of native code: new pages take up to a fifth of an inference."""
    size = math.prod(shape)
    return _core.new_array(1, size).reshape(shape) if size else np.empty(shape, np.float32)


@dataclass(frozen=True)
class Wanted:
    """The gradients of a kernel to compute."""

    weight: bool
    shape: bool
    features: bool


@dataclass(frozen=True)
class KernelGradient:
    """The gradients of the loss with respect to one kernel; None for those not wanted.

    `moments` (d, d) is Σ_ij (∂loss/∂k(i,j)) k(i,j) (x_i - x_j)(x_i - x_j)ᵀ. The derivative by a width σ_e is
    moments[e, e]/σ_e, that by W is -moments W⁻ᵀ.
    """

    mu: Float64 | None
    moments: Float64 | None
    features: Float32 | None  # (N, d)


def native_back_track(
    pairwise: Terms,
    normalizations: Sequence[Normalization],
    wanted: Sequence[Wanted],
    cotangent: Float32,  # (L, N): ∂loss/∂log q^T
    log_marginals: Float32,  # (L, N)
    states: Float32,  # (T, state_floats)
    threads: int,
    convergent: bool = False,  # as in native_mean_field()
    out: Float32 | None = None,  # (L, N), for the gradient with respect to the scores
    order: PixelOrder | None = None,  # of the pixels in the pairwise terms, if not that of the other arrays
) -> tuple[Float32, list[KernelGradient]]:
    """Gradients with respect to the scores (L, N) and to every kernel (paper, Learning)."""
    to_scores = np.empty_like(cotangent) if out is None else out
    sums = [_KernelSums(term, want) for term, want in zip(pairwise, wanted, strict=True)]
    _core.mean_field_backward(
        [native_term(term) for term in pairwise],
        cotangent,
        log_marginals,
        states,
        len(states),
        convergent,
        to_scores,
        [each.native for each in sums],
        None if order is None else order.native,
        threads,
        "auto",
    )
    return to_scores, [each.gradient(norm) for each, norm in zip(sums, normalizations, strict=True)]


def native_term(term: Pairwise[npt.NDArray[np.floating]]) -> _core.Coupling:
    """A pairwise term for native code."""
    assert term.lattice is not None
    return _core.Coupling(
        term.lattice.native,
        term.lattice.magnitude,
        term.before.ravel(),
        term.after.ravel(),
        None if term.own is None else term.own.ravel(),
        np.asarray(term.mu, order="C"),
    )


class _KernelSums:
    """The sums that back-tracking computes for one kernel, and the gradients that follow from them."""

    def __init__(self, term: Pairwise[npt.NDArray[np.floating]], wanted: Wanted) -> None:
        assert term.lattice is not None
        self._lattice, self._term = term.lattice, term
        points, d = term.lattice.num_points, term.lattice.dimension
        self._mu = np.zeros(np.shape(term.mu)) if wanted.weight else None
        self._moments = self._sent = self._received = self._own = self._slopes = self._x = None
        if wanted.shape:
            self._moments = np.zeros((d, d))
        if wanted.shape or wanted.features:
            self._sent, self._received = np.zeros(points, np.float32), np.zeros(points, np.float32)
            self._own = None if term.own is None else np.zeros(points, np.float32)
        if wanted.features:
            # Only differences of features matter; near the origin they lose less to rounding.
            x = term.lattice.features
            middle = x[:: max(points // 1024, 1)].mean(0) if points else 0
            self._x = (x - middle).astype(np.float32, copy=False)
            self._slopes = np.zeros((points, d), np.float32)
        self.native = _core.Gradients(
            self._mu, self._moments, self._sent, self._received, self._own, self._x, self._slopes
        )

    def gradient(self, normalization: Normalization) -> KernelGradient:
        """The gradients, including those through the normalization."""
        sent, received = self._sent, self._received
        if sent is None or received is None:
            return KernelGradient(self._mu, None, None)
        v = None if normalization == "none" else self._to_total(normalization, sent, received)
        moments = None if self._moments is None else self._pairs(self._moments, sent, v)
        return KernelGradient(self._mu, moments, self._to_features(sent, received, v))

    def _pairs(self, vertices: Float64, sent: Float32, v: Float32 | None) -> Float64:
        """The moments of pairs, (d, d), from those between vertices, plus those of D = K·1."""
        present = self._present
        return self._lattice.point_moments(vertices, sent, v, None if present.all() else present)

    def _to_features(self, sent: Float32, received: Float32, v: Float32 | None) -> Float32 | None:
        """∂loss/∂features, (N, d), if wanted."""
        x, slopes = self._x, self._slopes
        if x is None or slopes is None:
            return None
        slopes = slopes - (sent + received)[:, None] * x
        return slopes if v is None else slopes + self._slopes_through_total(v, x)

    @property
    def _factors(self) -> tuple[Float32, Float32]:
        """`before` and `after`, (N,)."""
        before, after = (
            np.ravel(each).astype(np.float32, copy=False) for each in (self._term.before, self._term.after)
        )
        return before, after

    @property
    def _present(self) -> Float32:
        """1 for points that are present, 0 for ignored ones, (N,)."""
        before, after = self._factors
        return ((before > 0) | (after > 0)).astype(np.float32)

    def _to_total(self, normalization: Normalization, sent: Float32, received: Float32) -> Float32:
        """∂loss/∂D (N,), with D in `after`, in `before`, or its root in both."""
        before, after = self._factors
        own = 0 if self._own is None else self._own
        if normalization == "symmetric":
            return -(before**2) / 2 * (sent + received - 2 * own)
        if normalization == "after":
            return -after * (sent - own)
        return -before * (received - own)

    def _slopes_through_total(self, v: Float32, x: Float32) -> Float32:
        """∂loss/∂features through D = K·1 over the points present, (N, d)."""
        present, column = self._present[:, None], np.ascontiguousarray(v[:, None])
        filtered = self._lattice.apply(np.concatenate([present, present * x], axis=1))  # K·1 and K·x
        back = self._lattice.apply_adjoint(np.concatenate([column, column * x], axis=1))
        total = column * filtered[:, :1] + present * back[:, :1]
        return column * filtered[:, 1:] + present * back[:, 1:] - total * x
