"""The parameters of a lattice operator: scale, blur passes and magnitude."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Literal, SupportsIndex, get_args

from densefield.errors import InputError

Operator = Literal["symmetric", "pydensecrf"]

MAX_DIMENSION = 16
MAX_HALO = 8
MAX_RING_VERTICES = 1 << 20

_VARIANCE = 2 / 3

# Factors on features before embedding: where vertices are missing, a slightly coarser lattice loses less. They have the
# least mean error of the normalised filter over photos for d = 1…6 (benchmarks/accuracy.py), extrapolated beyond.
_COARSENING = (1.0, 0.99, 0.97, 0.945, 0.91, 0.88)
_COARSENING_WITH_HALO = (1.0, 0.99, 0.97, 0.955, 0.945, 0.925)


@dataclass(frozen=True)
class LatticeDesign:
    """K = magnitude · S·B·Sᵀ, with B the product of the blur passes and S barycentric interpolation."""

    scale: tuple[float, ...]  # of each feature before elevation into the plane of the lattice
    passes: tuple[tuple[int, float], ...]  # (axis, tap) in order: rows += tap · (previous + next)
    magnitude: float
    moment_factor: float  # V/v² of densefield.filters.moments
    single_precision: bool  # embed in float32


def design_lattice(dimension: int, operator: Operator = "symmetric", halo: int = 0) -> LatticeDesign:
    """Return the scale, passes and magnitude of an operator in d dimensions.

    Blurring an axis by taps (h, 1, h) has the variance 2h/(1+2h). "symmetric" blurs the axes 0…d and back with h = 1/6,
    so B = HᵀH is symmetric and positive semi-definite whichever vertices are missing. "pydensecrf" blurs each axis once
    with h = 1/2, as that package does; its adjoint reverses the order.

    >>> design_lattice(2, "pydensecrf").passes
    ((0, 0.5), (1, 0.5), (2, 0.5))
    """
    check_lattice_options(operator, halo)
    if ring_vertices(dimension, halo) > MAX_RING_VERTICES:
        raise InputError(
            f"halo is {halo} in {dimension} dimensions, which adds up to {ring_vertices(dimension, halo):.2g} vertices "
            f"around each, expected {MAX_RING_VERTICES:.2g} at most. Use a smaller halo."
        )
    forward = tuple(range(dimension + 1))
    # The variance of the blur and of both interpolations, in units of (d+1)².
    fineness = math.sqrt(_VARIANCE)
    if operator == "pydensecrf":
        passes = tuple((axis, 0.5) for axis in forward)
        magnitude = 1 / (1 + 2.0**-dimension)
    else:
        fineness *= _coarsening(dimension, halo)
        passes = tuple((axis, 1 / 6) for axis in forward + forward[::-1])
        magnitude = 1 / _mass_per_density(dimension, passes, fineness)
    spread = fineness * (dimension + 1)
    if operator == "pydensecrf":
        # pydensecrf stores this number in float32, and its last bit can decide which simplex contains a point.
        (spread,) = struct.unpack("f", struct.pack("f", spread))
    scale = tuple(spread / math.sqrt((i + 1) * (i + 2)) for i in range(dimension))
    # V = _VARIANCE/fineness² and the blur's v, in units of features; see densefield.filters.moments.
    blur = sum(2 * tap / (1 + 2 * tap) for axis, tap in passes if axis == 0)
    moment_factor = _VARIANCE * fineness**2 / blur**2
    return LatticeDesign(scale, passes, magnitude, moment_factor, single_precision=operator == "pydensecrf")


def check_lattice_options(operator: str, halo: object) -> None:
    """Raise for an unknown operator or an invalid halo."""
    if operator not in get_args(Operator):
        raise InputError(f"operator is {operator!r}, expected one of {', '.join(get_args(Operator))}.")
    if isinstance(halo, bool) or not isinstance(halo, SupportsIndex) or not 0 <= halo.__index__() <= MAX_HALO:
        raise InputError(f"halo is {halo!r}, expected an integer from 0 to {MAX_HALO}.")


def ring_vertices(dimension: int, halo: int) -> int:
    """Upper bound of the vertices within `halo` steps of one: Σ_j 2^j C(d+1, j) C(halo, j).

    >>> ring_vertices(2, 1), ring_vertices(16, 8) > 10**7
    (7, True)
    """
    return sum(2**j * math.comb(dimension + 1, j) * math.comb(halo, j) for j in range(halo + 1))


def _coarsening(dimension: int, halo: int) -> float:
    table = _COARSENING_WITH_HALO if halo else _COARSENING
    if dimension <= len(table):
        return table[dimension - 1]
    return max(table[-1] - 0.03 * (dimension - len(table)), 0.7)


def _mass_per_density(dimension: int, passes: tuple[tuple[int, float], ...], fineness: float) -> float:
    """S·B·Sᵀ·1 over the Gaussian sum for dense, evenly spread points, where no vertex is missing."""
    gain = math.prod(1 + 2 * tap for _, tap in passes)
    volume_per_vertex = fineness**-dimension / math.sqrt(dimension + 1)
    return float(gain * volume_per_vertex / (2 * math.pi) ** (dimension / 2))
