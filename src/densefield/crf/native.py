"""Mean field and its back-tracking in native code: all updates of one image in one call each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.crf.binding import Bound
from densefield.crf.kernels import Normalization
from densefield.filters.lattice import LatticeFilter
from densefield.filters.pixel_order import PixelOrder

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]


def native_mean_field(
    bounds: Sequence[Bound],
    scores: Float32,  # (L, N)
    iterations: int,
    threads: int,
    *,
    marginals: Float32 | None = None,  # (L, N), filled where given
    log_marginals: Float32 | None = None,  # (L, N), filled where given
    states: Float32 | None = None,  # (T, state_floats), filled with q⁰ … q^(T-1) where given
    residuals: Float32 | None = None,  # (T,), filled where given
    tolerance: float | None = None,
    start: Float32 | None = None,  # (L, N): q⁰; the softmax of the scores where it is None
    order: PixelOrder | None = None,  # in whose order the kernels have the pixels, if not in that of the other arrays
) -> int:
    """Up to T updates (paper, Eq. 5); returns how many were made. Equal to mean_field() up to rounding."""
    return _core.mean_field(
        [native_coupling(bound) for bound in bounds],
        scores,
        start,
        iterations,
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
    """Numbers of one q^t in the order of the native loop, which works on 64 points at a time."""
    return (points + 63) // 64 * 64 * num_classes


def new_array(*shape: int) -> Float32:
    """An array that is not set to anything, whose memory the next one of about the size may get: pages new from the
    system cost as much as a fifth of an inference."""
    size = math.prod(shape)
    return _core.new_array(1, size).reshape(shape) if size else np.empty(shape, np.float32)


@dataclass(frozen=True)
class Wanted:
    """Which gradients of a kernel to compute."""

    weight: bool
    shape: bool
    features: bool


@dataclass(frozen=True)
class KernelGradient:
    """∂loss of one kernel, where wanted.

    `moments` (d, d) is Σ_ij (∂loss/∂k(i,j)) k(i,j) (x_i - x_j)(x_i - x_j)ᵀ as densefield.filters.moments has it,
    from which the derivative by any linear map of the features follows: by a width σ_e it is moments[e, e]/σ_e, by W it
    is -moments W⁻ᵀ.
    """

    mu: Float64 | None
    moments: Float64 | None
    features: Float32 | None  # (N, d)


def native_back_track(
    bounds: Sequence[Bound],
    normalizations: Sequence[Normalization],
    wanted: Sequence[Wanted],
    cotangent: Float32,  # (L, N): ∂loss/∂log q^T
    log_marginals: Float32,  # (L, N)
    states: Float32,  # (T, state_floats)
    threads: int,
    out: Float32 | None = None,  # (L, N), for the gradient by scores
    order: PixelOrder | None = None,  # in whose order the kernels have the pixels, if not in that of the planes
) -> tuple[Float32, list[KernelGradient]]:
    """∂loss by scores (L, N) and by what is wanted of every kernel (paper, Learning)."""
    to_scores = np.empty_like(cotangent) if out is None else out
    sums = [_Sums(bound, want) for bound, want in zip(bounds, wanted, strict=True)]
    _core.mean_field_backward(
        [native_coupling(bound) for bound in bounds],
        cotangent,
        log_marginals,
        states,
        len(states),
        to_scores,
        [each.native for each in sums],
        None if order is None else order.native,
        threads,
        "auto",
    )
    return to_scores, [each.gradient(norm) for each, norm in zip(sums, normalizations, strict=True)]


def native_coupling(bound: Bound) -> _core.Coupling:
    """The kernel as native code has it."""
    assert isinstance(bound.filter, LatticeFilter)
    coupling = bound.coupling
    assert coupling.before is not None and coupling.after is not None
    own = None if coupling.own is None else coupling.own.ravel()
    return _core.Coupling(
        bound.filter.native,
        bound.filter.magnitude,
        coupling.before.ravel(),
        coupling.after.ravel(),
        own,
        np.asarray(coupling.mu, order="C"),
    )


class _Sums:
    """Memory for what back-tracking finds out about one kernel, and what follows from it."""

    def __init__(self, bound: Bound, wanted: Wanted) -> None:
        assert isinstance(bound.filter, LatticeFilter)
        self._lattice, self._coupling = bound.filter, bound.coupling
        points, d = bound.filter.num_points, bound.filter.dimension
        self._mu = np.zeros(np.shape(bound.coupling.mu)) if wanted.weight else None
        self._moments = self._sent = self._received = self._own = self._slopes = self._x = None
        if wanted.shape:
            self._moments = np.zeros((d, d))
        if wanted.shape or wanted.features:
            self._sent, self._received = np.zeros(points, np.float32), np.zeros(points, np.float32)
            self._own = None if bound.coupling.own is None else np.zeros(points, np.float32)
        if wanted.features:
            # Differences of features do not change when the origin moves; near it less is lost to rounding.
            x = bound.filter.features
            middle = x[:: max(points // 1024, 1)].mean(0) if points else 0
            self._x = (x - middle).astype(np.float32, copy=False)
            self._slopes = np.zeros((points, d), np.float32)
        self.native = _core.Gradients(
            self._mu, self._moments, self._sent, self._received, self._own, self._x, self._slopes
        )

    def gradient(self, normalization: Normalization) -> KernelGradient:
        """The gradients, with those that pass through the normalisation."""
        sent, received = self._sent, self._received
        if sent is None or received is None:
            return KernelGradient(self._mu, None, None)
        v = None if normalization == "none" else self._to_total(normalization, sent, received)
        moments = None if self._moments is None else self._pairs(self._moments, sent, v)
        return KernelGradient(self._mu, moments, self._to_features(sent, received, v))

    def _pairs(self, vertices: Float64, sent: Float32, v: Float32 | None) -> Float64:
        """The moments of pairs, (d, d), from those between vertices; those of D = K·1 are added."""
        present = self._present
        return self._lattice.point_moments(vertices, sent, v, None if present.all() else present)

    def _to_features(self, sent: Float32, received: Float32, v: Float32 | None) -> Float32 | None:
        """∂loss by features, (N, d), where wanted."""
        x, slopes = self._x, self._slopes
        if x is None or slopes is None:
            return None
        slopes = slopes - (sent + received)[:, None] * x
        return slopes if v is None else slopes + self._slopes_through_total(v, x)

    @property
    def _factors(self) -> tuple[Float32, Float32]:
        """`before` and `after`, (N,)."""
        return np.ravel(self._coupling.before), np.ravel(self._coupling.after)  # type: ignore[arg-type]

    @property
    def _present(self) -> Float32:
        """1 for points that take part, (N,)."""
        before, after = self._factors
        return ((before > 0) | (after > 0)).astype(np.float32)

    def _to_total(self, normalization: Normalization, sent: Float32, received: Float32) -> Float32:
        """∂loss/∂D (N,): D stands in `after`, in `before`, or as its root in both."""
        before, after = self._factors
        own = 0 if self._own is None else self._own
        if normalization == "symmetric":
            return -(before**2) / 2 * (sent + received - 2 * own)
        if normalization == "after":
            return -after * (sent - own)
        return -before * (received - own)

    def _slopes_through_total(self, v: Float32, x: Float32) -> Float32:
        """What ∂loss/∂D means for the features, (N, d), D = K·1 over those present."""
        present, column = self._present[:, None], np.ascontiguousarray(v[:, None])
        filtered = self._lattice.apply(np.concatenate([present, present * x], axis=1))  # K·1 and K·x
        back = self._lattice.apply_adjoint(np.concatenate([column, column * x], axis=1))
        total = column * filtered[:, :1] + present * back[:, :1]
        return column * filtered[:, 1:] + present * back[:, 1:] - total * x
