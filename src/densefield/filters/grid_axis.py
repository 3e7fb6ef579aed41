"""The Gaussian along one axis of a pixel grid: all its taps, or a coarser grid of nodes where it is wide.

A wide Gaussian is smooth, so K ≈ P G Pᵀ: Pᵀ splats pixels onto nodes that are NODE_SPACING·sigma apart, G
blurs the nodes, P slices back. P holds a window φ of GRID_SUPPORT nodes, and G undoes it in frequency:

    Ĝ(θ) = √(2π) s exp(-½ s²θ²) / φ̂(θ)²,   s = 1 / NODE_SPACING, |θ| <= π.

In units of nodes G is the same for every sigma. K is symmetric, and positive semi-definite since Ĝ > 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from densefield import _core

Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]

TAP_CUTOFF = 5.678  # in sigmas: exp(-½ r²) is 1e-7 there
NODE_SPACING = 0.45  # in sigmas
NODE_RADIUS = 12  # in nodes: beyond it G is below 1e-8 of its centre
# φ = exp(β (√(1-z²) - 1)) with z = ±1 at the window's ends; benchmarks/fit_grid_window.py finds the β with
# the smallest worst error, 4e-8 of the peak.
WINDOW_SHARPNESS = 18.75

# What splat and slice cost per pixel beside their multiply-adds, in multiply-adds: both ways then cost the
# same at sigma 4.5, as was measured at 375×500×21 with AVX-512.
NODE_PASSES_COST = 24.0
MOST_NODES_PER_PIXEL = 0.75


@dataclass(frozen=True)
class AxisPlan:
    """What the native filter does along one axis of n pixels."""

    pixels: int
    taps: Float32s  # (radius + 1,) of the pixels, or of the nodes where there are any
    derivative_taps: Float32s  # (radius + 1,) d/dsigma of the taps
    cells: npt.NDArray[np.int64]  # (n,) first node of every pixel, or (0,)
    weights: Float32s  # (n, GRID_SUPPORT) window P, or (0, GRID_SUPPORT)

    @property
    def has_nodes(self) -> bool:
        """Whether the axis is filtered on a coarser grid."""
        return len(self.cells) > 0

    def diagonal(self) -> Float64s:
        """k(i,i) along this axis, (n,), from the very numbers that the filter multiplies with."""
        if not self.has_nodes:
            return np.full(self.pixels, self.taps[0], np.float64)
        return _self_terms(self.weights.astype(np.float64), self.taps.astype(np.float64))


def plan_axis(pixels: int, sigma: float) -> AxisPlan:
    """The cheaper way to filter `pixels` samples with exp(-½ (i-j)²/sigma²).

    >>> plan_axis(500, 1.0).taps.round(3)
    array([1.   , 0.607, 0.135, 0.011, 0.   , 0.   , 0.   ], dtype=float32)
    >>> plan_axis(500, 30.0).weights.shape
    (500, 8)
    """
    if choose_nodes(pixels, sigma):
        return _plan_nodes(pixels, sigma)
    return _plan_taps(pixels, sigma)


def choose_nodes(pixels: int, sigma: float) -> bool:
    """Whether the coarser grid is cheaper than all taps, by the work per pixel as measured."""
    nodes = _core.GRID_SUPPORT + (pixels - 1) / sigma / NODE_SPACING
    if pixels < 1 or nodes > MOST_NODES_PER_PIXEL * pixels:
        return False
    all_taps = 2 * _tap_radius(pixels, sigma) + 1
    on_nodes = 2 * _core.GRID_SUPPORT + (2 * NODE_RADIUS + 1) * nodes / pixels + NODE_PASSES_COST
    return on_nodes < all_taps


def _tap_radius(pixels: int, sigma: float) -> int:
    return int(min(max(pixels - 1, 0), TAP_CUTOFF * sigma + 0.5))


def _plan_taps(pixels: int, sigma: float) -> AxisPlan:
    radius = _tap_radius(pixels, sigma)
    beyond = min(max(pixels - 1, 0), 2 * radius + 1)
    with np.errstate(over="ignore"):
        r = np.arange(beyond + 1) / sigma
        exact = np.exp(-0.5 * r**2)  # (beyond + 1,)
    taps = _round_positive(exact, radius)
    derivative = r[: radius + 1] ** 2 / sigma * taps
    none = np.empty((0, _core.GRID_SUPPORT), np.float32)
    return AxisPlan(pixels, taps, derivative.astype(np.float32), np.empty(0, np.int64), none)


def _plan_nodes(pixels: int, sigma: float) -> AxisPlan:
    u = np.arange(pixels) / (NODE_SPACING * sigma)  # (n,) in nodes
    cells = np.floor(u).astype(np.int64)
    taps, derivative = _node_taps()
    return AxisPlan(
        pixels,
        taps,
        (derivative / sigma).astype(np.float32),
        cells,
        node_weights(u - cells).astype(np.float32),
    )


def node_weights(place: Float64s, sharpness: float = WINDOW_SHARPNESS) -> Float64s:
    """Row of P, (n, GRID_SUPPORT), for pixels at `place` (n,), 0 to 1 between the two middle nodes."""
    nodes = np.arange(_core.GRID_SUPPORT) - (_core.GRID_SUPPORT / 2 - 1)
    return window(place[:, None] - nodes, sharpness)


def window(z: Float64s, sharpness: float = WINDOW_SHARPNESS) -> Float64s:
    """φ at distance z in nodes: 1 at the centre, 0 beyond GRID_SUPPORT/2.

    >>> window(np.array([0.0, 2.0, 5.0])).round(4)
    array([1.    , 0.0811, 0.    ])
    """
    inside = 1 - (2 * z / _core.GRID_SUPPORT) ** 2
    return np.where(inside >= 0, np.exp(sharpness * (np.sqrt(np.maximum(inside, 0)) - 1)), 0.0)


def node_blur(theta: Float64s, sharpness: float = WINDOW_SHARPNESS) -> Float64s:
    """Ĝ(θ), what the blur of the nodes does to frequency θ per node."""
    nodes, gauss = np.polynomial.legendre.leggauss(64)
    half = _core.GRID_SUPPORT / 2
    transform = np.cos(np.outer(theta, half * nodes)) @ (half * gauss * window(half * nodes, sharpness))
    s = 1 / NODE_SPACING
    result: Float64s = np.sqrt(2 * np.pi) * s * np.exp(-0.5 * (s * theta) ** 2) / transform**2
    return result


@lru_cache(maxsize=1)
def _node_taps() -> tuple[Float32s, Float64s]:
    """The taps of G, and sigma times their derivative, each (NODE_RADIUS + 1,)."""
    theta = np.arange(-256, 256, dtype=np.float64) * (np.pi / 256)
    spectrum = node_blur(theta)
    waves = np.cos(np.outer(np.arange(256), theta)) / len(theta)
    taps = waves @ spectrum
    derivative = waves @ (spectrum * (1 - (theta / NODE_SPACING) ** 2))
    return _round_positive(taps, NODE_RADIUS), derivative[: NODE_RADIUS + 1]


def _self_terms(weights: Float64s, taps: Float64s) -> Float64s:
    """(P G Pᵀ)_ii for the rows of P in `weights` (n, GRID_SUPPORT), (n,)."""
    steps = np.arange(_core.GRID_SUPPORT)
    blurred = weights @ taps[np.abs(steps[:, None] - steps)]
    terms: Float64s = (blurred * weights).sum(1)
    return terms


def _round_positive(exact: Float64s, radius: int) -> Float32s:
    """The taps up to `radius` in float32, off the centre a little smaller so that K stays positive.

    Cutting and rounding change the taps; where the change's spectrum is nowhere negative, no eigenvalue of
    any grid falls. Shrinking all taps but the centre by 1 + shrink lifts that spectrum by shrink · centre.
    """
    shrink = 0.0
    while True:
        taps = (exact[: radius + 1] / (1 + shrink)).astype(np.float32)
        taps[0] = exact[0]
        change = -exact
        change[: radius + 1] += (1 + shrink) * taps.astype(np.float64)
        spectrum = 2 * np.fft.rfft(change, 4096).real - change[0]
        # A hundredth of its range is more than the spectrum dips between 4096 samples.
        shortfall = (0.01 * np.ptp(spectrum) - spectrum.min()) / exact[0]
        if shortfall <= 0:
            return taps
        shrink += max(1.1 * shortfall, float(np.finfo(np.float64).eps))  # less would not change 1 + shrink
