"""The position-only Gaussian on the pixels of a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import index

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.errors import InputError, InputTypeError
from densefield.filters.checks import check_same_shape, check_simd, checked_out, checked_values
from densefield.filters.grid_axis import plan_axis
from densefield.filters.operator import GaussianFilter
from densefield.filters.threads import check_threads

Float32s = npt.NDArray[np.float32]

MOST_AXES = 3


class GridFilter(GaussianFilter[Float32s]):
    """The Gaussian over the positions of the pixels of a 1-D, 2-D or 3-D grid; no width makes it slower.

    out_i = Σ_j exp(-½ Σ_a (p_ia - p_ja)²/sigma_a²) v_j, with k(i,i) = 1; pixels outside do not exist.

    shape: pixels along every axis, as in an array's shape: (rows, columns) for an image.
    sigma: the width in pixels, one number for all axes or one per axis in the order of `shape`.
    threads: None uses every processor available; no number of threads changes a bit of the result.
    simd: "auto", or one of the instruction sets in `_core.available_simd()`.

    The filter is separable, symmetric and, up to the rounding of single precision, positive semi-definite.
    Several Python threads may use one filter at once. It keeps the memory that its calls work in for the next
    ones: about as much as the values take, twice that after a gradient, for each call that ran at the same time.

    >>> import numpy as np
    >>> blur = GridFilter((3, 4), sigma=1.0)
    >>> values = np.zeros((12, 1), np.float32)
    >>> values[5] = 1.0
    >>> blur.apply(values).reshape(3, 4).round(3)
    array([[0.368, 0.607, 0.368, 0.082],
           [0.607, 1.   , 0.607, 0.135],
           [0.368, 0.607, 0.368, 0.082]], dtype=float32)
    """

    def __init__(
        self,
        shape: Sequence[int],
        sigma: float | Sequence[float],
        *,
        threads: int | None = None,
        simd: str = "auto",
    ) -> None:
        self._shape = check_grid_shape(shape)
        self._sigma = check_sigma(sigma, self._shape)
        self._threads = check_threads(threads)
        check_simd(simd)
        self._plans = [plan_axis(n, s) for n, s in zip(self._shape, self._sigma, strict=True)]
        self._native = _core.GridFilter(
            [
                _core.GridAxis(plan.pixels, plan.taps, plan.derivative_taps, plan.cells, plan.weights)
                for plan in self._plans
            ],
            simd,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Pixels along every axis."""
        return self._shape

    @property
    def sigma(self) -> tuple[float, ...]:
        """The width along every axis, in pixels."""
        return self._sigma

    @property
    def num_points(self) -> int:
        """N, the number of pixels."""
        return math.prod(self._shape)

    def apply(self, values: Float32s, out: Float32s | None = None) -> Float32s:
        """K v for float32 values (N, C) or (B, N, C), pixels in C order; into `out` where it is given."""
        batch = checked_values(values, self.num_points)  # (B, N, C)
        result = checked_out(out, values)
        self._native.apply(batch, result.reshape(batch.shape), self._threads)
        return result

    def apply_adjoint(self, values: Float32s, out: Float32s | None = None) -> Float32s:
        """Kᵀ v, which is K v: the filter is symmetric."""
        return self.apply(values, out)

    def diagonal(self) -> Float32s:
        """k(i,i) of this very operator for every pixel, (N,): 1 up to 2e-7 per axis."""
        axes = [plan.diagonal() for plan in self._plans]
        return reduce(np.multiply.outer, axes).reshape(-1).astype(np.float32)

    def identity(self, first: int, last: int) -> Float32s:
        """Columns first…last-1 of the N×N unit matrix, (N, last-first)."""
        if not 0 <= first <= last <= self.num_points:
            raise InputError(
                f"columns {first} to {last} were asked for, expected 0 <= first <= last <= {self.num_points}."
            )
        return np.eye(self.num_points, last - first, -first, dtype=np.float32)

    def sigma_gradient(self, cotangent: Float32s, values: Float32s) -> npt.NDArray[np.float64]:
        """∂/∂sigma_a of ⟨cotangent, K v⟩ = Σ_ij (c_i·v_j) k(i,j) (p_ia - p_ja)²/sigma_a³, (axes,).

        Both arrays are (N, C) or (B, N, C). Where a wide kernel is filtered on a coarser grid, that grid is
        held fixed: the derivative is that of the function computed, up to the error of the function itself.
        The error is below 1e-6 of ``Σ_ij |c_i·v_j| k(i,j)/sigma_a``, which dwarfs the derivative itself where
        sigma is many times the image's extent.

        >>> import numpy as np
        >>> pair = np.array([[1.0], [0.0]], np.float32)
        >>> GridFilter((2,), sigma=1.0).sigma_gradient(pair[::-1], pair).round(4)  # exp(-½) 1²/1³
        array([0.6065])
        """
        batch = checked_values(values, self.num_points)
        others = checked_values(cotangent, self.num_points, "the cotangent")
        check_same_shape(cotangent.shape, values.shape)
        return np.array(self._native.sigma_gradient(others, batch, self._threads), np.float64)


def check_grid_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The extents of a grid as a tuple."""
    try:
        extents = tuple(index(n) for n in shape)
    except TypeError:
        raise InputTypeError(
            f"shape is {shape!r}, expected whole numbers such as (rows, columns) for an image."
        ) from None
    if not 1 <= len(extents) <= MOST_AXES:
        raise InputError(f"shape has {len(extents)} axes, expected 1 to {MOST_AXES}; channels belong to the values.")
    if min(extents) < 0 or math.prod(max(n, 1) for n in extents) > 2**60:
        raise InputError(f"shape is {extents}, expected extents of 0 or more and at most 2**60 pixels.")
    return extents


def check_sigma(sigma: float | Sequence[float], shape: tuple[int, ...]) -> tuple[float, ...]:
    """The widths along every axis as a tuple."""
    try:
        widths = np.asarray(sigma, np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            f"sigma is {sigma!r}, expected a number of pixels, or one for each axis of the grid."
        ) from None
    if widths.ndim == 0:
        widths = np.full(len(shape), widths)
    if widths.shape != (len(shape),):
        raise InputError(f"sigma has shape {widths.shape}, expected one number, or {len(shape)} for the grid {shape}.")
    if not (np.isfinite(widths).all() and (widths > 0).all()):
        raise InputError(
            f"sigma is {widths.tolist()}, expected finite numbers above 0; a very small one filters nothing."
        )
    return tuple(widths.tolist())
