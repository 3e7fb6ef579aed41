"""The permutohedral lattice in native code: Gaussian filtering of N points in O(N)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.errors import FeatureSpanError
from densefield.filters.lattice_design import Operator, design_lattice
from densefield.filters.moments import gaussian_gradients
from densefield.filters.operator import (
    Array,
    Derivative,
    Float32,
    GaussianFilter,
    check_derivative,
    check_finite,
    check_out,
    check_same_shape,
    check_simd,
    checked_features,
    checked_values,
)
from densefield.filters.threads import check_threads

Float64 = npt.NDArray[np.float64]


class LatticeFilter(GaussianFilter[Float32]):
    """K v = Σ_j exp(-½‖x_i - x_j‖²) v_j, approximated on the permutohedral lattice (Adams, Baek & Davis 2010).

    Values (N, C) are float32. Several Python threads may use one filter at once.

    Parameters
    ----------
    features
        (N, d) float32 or float64, already divided by the kernel's widths.
    operator
        "symmetric" is exactly symmetric and positive semi-definite; "pydensecrf" reproduces that package.
    halo
        Rings of vertices added around those that points touch; more are slower and more accurate.
    calibrate
        Measure the magnitude on a sample of the points, so that K·1 is right on average. Without it, sums are too small
        where data are sparse; a normalised kernel does not need it. "pydensecrf" is never calibrated.
    threads
        Number of threads; None uses the CPUs this process may use. Results do not depend on it.
    simd
        "auto", or an instruction set of `densefield._core.available_simd()`.

    >>> import numpy as np
    >>> features = np.array([[0.0, 0.0], [0.5, 0.0], [9.0, 9.0]])
    >>> k = LatticeFilter(features).to_dense()
    >>> k.shape, bool(np.allclose(k, k.T)), bool(k[0, 2] == 0)
    ((3, 3), True, True)
    """

    def __init__(
        self,
        features: npt.NDArray[np.float32] | npt.NDArray[np.float64],
        *,
        operator: Operator = "symmetric",
        halo: int = 0,
        calibrate: bool = True,
        threads: int | None = None,
        simd: str = "auto",
    ) -> None:
        points = checked_features(features)
        design = design_lattice(points.shape[1], operator, halo)
        self._threads = check_threads(threads)
        check_simd(simd)
        if design.single_precision:
            points = points.astype(np.float32, copy=False)
        axes, taps = [axis for axis, _ in design.passes], [tap for _, tap in design.passes]
        try:
            self._core = _core.Lattice(
                points, list(design.scale), axes, taps, design.single_precision, halo, self._threads, simd
            )
        except (OverflowError, ValueError) as error:
            raise _explained(error, points) from None
        self._features = self._core.features  # the lattice's own copy
        calibrated = calibrate and operator != "pydensecrf"
        self._magnitude = None if calibrated else design.magnitude
        self._moment_factor = design.moment_factor

    @property
    def num_vertices(self) -> int:
        """Number of vertices of the lattice, to which the cost of the blur is proportional."""
        return self._core.num_vertices

    @property
    def magnitude(self) -> float:
        """Factor by which the lattice's sums are multiplied; measured when first needed."""
        if self._magnitude is None:
            self._magnitude = self._core.calibrated_magnitude(self._threads)
        return self._magnitude

    @property
    def features(self) -> Array:
        """The features (N, d); read-only."""
        return self._core.features

    @property
    def native(self) -> _core.Lattice:
        """The lattice in native code, which native mean field splats to and slices from directly."""
        return self._core

    def gradients(
        self, cotangent: Float32, values: Float32, derivative: Derivative = "gaussian"
    ) -> tuple[Float32, Float32]:
        """Return Kᵀ g and ∂⟨g, K v⟩/∂x, (…, N, C) and (N, d).

        "gaussian" takes 2(d+1) filterings, "lattice" about two; see `GaussianFilter.gradients`.
        """
        check_derivative(derivative)
        v, g = checked_values(values, self.num_points), checked_values(cotangent, self.num_points, "the cotangent")
        check_same_shape(tuple(cotangent.shape), tuple(values.shape))
        if derivative == "gaussian":
            return gaussian_gradients(self, cotangent, values, self._features)
        to_values, to_features = np.empty(v.shape, np.float32), np.empty(self._features.shape, np.float32)
        self._core.gradients(g, v, to_values, to_features, self.magnitude, self._threads)
        return to_values.reshape(values.shape), to_features

    def point_moments(
        self, vertex_moments: Float64, row_sums: Float32, extra: Float32 | None = None, present: Float32 | None = None
    ) -> Float64:
        """Return Σ_ij k(i,j) w_ij (x_i - x_j)(x_i - x_j)ᵀ, (d, d), from the same moments between vertices.

        The method is that of `densefield.filters.moments.point_moments`.

        Parameters
        ----------
        vertex_moments
            (d, d), without those of `extra`.
        row_sums
            (N,) Σ_j k(i,j) w_ij, without `extra`.
        extra
            (N,) or None; adds extra_i present_j to w_ij.
        present
            (N,) 0 for points with w_ij = w_ji = 0 that take no part, 1 for others; None for all 1.
        """
        moments: Float64 = vertex_moments.copy()
        self._core.point_moments(row_sums, extra, present, moments, self._moment_factor, self.magnitude, self._threads)
        return moments

    def diagonal(self) -> Float32:
        """Return k(i,i) of this approximation, (N,).

        In up to six dimensions it takes a few times as long as building the lattice, in more some hundred times.
        """
        out = np.empty(self.num_points, np.float32)
        self._core.diagonal(out, self.magnitude, self._threads)
        return out

    def identity(self, first: int, last: int) -> Float32:
        """Return columns `first` to `last` - 1 of the N×N unit matrix."""
        return np.eye(self.num_points, last - first, -first, dtype=np.float32)

    def _filter(self, values: Float32, out: Float32 | None, *, adjoint: bool) -> Float32:
        batch = checked_values(values, self.num_points)
        if out is None:
            out = np.empty(values.shape, np.float32)
        else:
            check_out(out, values)
        self._core.apply(batch, out.reshape(batch.shape), adjoint, self.magnitude, self._threads)
        return out


def _explained(error: OverflowError | ValueError, features: Array) -> Exception:
    """The error of native code in terms of the features."""
    if isinstance(error, OverflowError):
        return FeatureSpanError(
            f"{error}. The kernel's widths are too small for the spread of these features: "
            f"they range over {np.ptp(features, axis=0).max():.3g} widths. Use larger widths."
        )
    check_finite(features)
    if "not finite" not in str(error):
        return error
    return FeatureSpanError(
        f"features reach {np.abs(features).max():.3g}, which is too large to compute with. Use larger widths, or "
        "smaller numbers."
    )
