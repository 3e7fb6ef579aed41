"""The permutohedral lattice in native code: Gaussian filtering of N points in O(N)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.errors import InputError
from densefield.filters.checks import (
    Array,
    check_finite,
    check_pair,
    check_simd,
    checked_features,
    checked_out,
    checked_values,
)
from densefield.filters.lattice_design import Operator, design_lattice
from densefield.filters.moments import moment_gradients
from densefield.filters.operator import Derivative, FeatureFilter
from densefield.filters.pixels import PixelFeatures
from densefield.filters.threads import check_threads

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]


class LatticeFilter(FeatureFilter[Float32]):
    """K v = Σ_j exp(-½‖x_i - x_j‖²) v_j, approximated on the permutohedral lattice (Adams, Baek & Davis 2010).

    Features (N, d) are float32 or float64, already divided by the kernel's widths; values (N, C) are float32.

    * ``operator``: "symmetric" (default) is exactly symmetric and positive semi-definite; "pydensecrf" is that
      package's own.
    * ``halo``: rings of vertices added around those that points touch; more are slower and more accurate.
    * ``calibrate``: measure the magnitude on a sample, once, so that K·1 is right on average. Without it the
      magnitude is that of a lattice with no vertex missing, which is too small where data are sparse; where K is
      normalised anyway, it can be left out. The operator of pydensecrf has its own magnitude.
    * ``threads``: the CPUs this process may use, unless given. Results do not depend on it.
    * ``simd``: "auto", or one of the instruction sets the processor runs.

    >>> import numpy as np
    >>> features = np.array([[0.0, 0.0], [0.5, 0.0], [9.0, 9.0]])
    >>> k = LatticeFilter(features).to_dense()
    >>> k.shape, bool(np.allclose(k, k.T)), bool(k[0, 2] == 0)
    ((3, 3), True, True)
    """

    def __init__(
        self,
        features: npt.NDArray[np.float32] | npt.NDArray[np.float64] | PixelFeatures,  # (N, d)
        *,
        operator: Operator = "symmetric",
        halo: int = 0,
        calibrate: bool = True,
        threads: int | None = None,
        simd: str = "auto",
    ) -> None:
        points = features if isinstance(features, PixelFeatures) else checked_features(features)
        design = design_lattice(points.shape[1], operator, halo)
        self._threads = check_threads(threads)
        check_simd(simd)
        if design.single_precision and not isinstance(points, PixelFeatures):
            points = points.astype(np.float32, copy=False)
        self._core = _build(points, design.scale, design.passes, design.single_precision, halo, self._threads, simd)
        self._features = self._core.features  # its own copy: a filter stays what it was made as
        calibrated = calibrate and operator != "pydensecrf"
        self._magnitude = None if calibrated else design.magnitude
        self._moment_factor = design.moment_factor

    @property
    def num_points(self) -> int:
        """N, the number of points."""
        return len(self._features)

    @property
    def dimension(self) -> int:
        """d, the number of features."""
        return int(self._features.shape[1])

    @property
    def num_vertices(self) -> int:
        """How many vertices the lattice has; the blur's cost grows with it."""
        return self._core.vertices

    @property
    def magnitude(self) -> float:
        """The factor by which the lattice's own sums are multiplied; measured when it is first needed."""
        if self._magnitude is None:
            self._magnitude = self._core.calibrated_magnitude(self._threads)
        return self._magnitude

    @property
    def features(self) -> Array:
        """The features it was made from, (N, d), not to be written to."""
        return self._features

    @property
    def native(self) -> _core.Lattice:
        """The lattice in native code, for mean field, which splats and slices by itself."""
        return self._core

    def apply(self, values: Float32, out: Float32 | None = None) -> Float32:
        """K v for values (N, C) or (B, N, C); written into `out` where it is given.

        >>> import numpy as np
        >>> LatticeFilter(np.zeros((3, 2))).apply(np.ones((3, 1), np.float32)).round(2).tolist()
        [[3.0], [3.0], [3.0]]
        """
        return self._filter(values, out, adjoint=False)

    def apply_adjoint(self, values: Float32, out: Float32 | None = None) -> Float32:
        """Kᵀ v: the same as K v for the symmetric operator."""
        return self._filter(values, out, adjoint=True)

    def gradients(
        self, cotangent: Float32, values: Float32, derivative: Derivative = "gaussian"
    ) -> tuple[Float32, Float32]:
        """Kᵀ g and ∂⟨g, K v⟩/∂x, (…, N, C) and (N, d).

        "gaussian" is the derivative of the Gaussian, with its sums by the lattice, for 2(d+1) filterings; "lattice"
        that of the lattice's own function inside each simplex, for about two.
        """
        batch, back = check_pair(values, cotangent, self.num_points, derivative)
        if derivative == "gaussian":
            return moment_gradients(self, cotangent, values, self._features)
        to_values, to_features = np.empty(batch.shape, np.float32), np.empty(self._features.shape, np.float32)
        self._core.gradients(back, batch, to_values, to_features, self.magnitude, self._threads)
        return to_values.reshape(values.shape), to_features

    def moments_of_pairs(
        self, vertices: Float64, sums: Float32, more: Float32 | None = None, present: Float32 | None = None
    ) -> Float64:
        """Σ_ij k(i,j) w_ij (x_i - x_j)(x_i - x_j)ᵀ, (d, d), from the same between vertices.

        sums (N,) are Σ_j k(i,j) w_ij. `present` (N,) is 0 for points with w_ij = w_ji = 0 because they take no part, 1
        for others, as all are where it is None. Where `more` (N,) is given, w_ij + more_i present_j is meant instead,
        and neither `vertices` nor sums have it yet. See densefield.filters.shape_moments.
        """
        moments: Float64 = vertices.copy()
        self._core.pair_moments(sums, more, present, moments, self._moment_factor, self.magnitude, self._threads)
        return moments

    def diagonal(self) -> Float32:
        """k(i,i) of this very operator, (N,); some hundred times slower than apply()."""
        out = np.empty(self.num_points, np.float32)
        self._core.diagonal(out, self.magnitude, self._threads)
        return out

    def identity(self, first: int, last: int) -> Float32:
        """Columns first…last-1 of the N×N unit matrix, (N, last - first)."""
        return np.eye(self.num_points, last - first, -first, dtype=np.float32)

    def _filter(self, values: Float32, out: Float32 | None, *, adjoint: bool) -> Float32:
        batch = checked_values(values, self.num_points)
        result = checked_out(out, values)
        self._core.apply(batch, result.reshape(batch.shape), adjoint, self.magnitude, self._threads)
        return result


def _build(
    points: Array | PixelFeatures,
    scale: tuple[float, ...],
    passes: tuple[tuple[int, float], ...],
    single_precision: bool,
    halo: int,
    threads: int,
    simd: str,
) -> _core.Lattice:
    axes, taps = [axis for axis, _ in passes], [tap for _, tap in passes]
    given = points.native if isinstance(points, PixelFeatures) else points
    try:
        return _core.Lattice(given, list(scale), axes, taps, single_precision, halo, threads, simd)
    except (OverflowError, ValueError) as error:
        written = points.array() if isinstance(points, PixelFeatures) else points
        if isinstance(error, OverflowError):
            raise InputError(
                f"{error}. The kernel's widths are too small for the spread of these features: "
                f"they range over {np.ptp(written, axis=0).max():.3g} widths. Use larger widths."
            ) from None
        check_finite(written)
        if "not finite" not in str(error):
            raise
        raise InputError(
            f"features reach {np.abs(written).max():.3g}, which is too large to compute with. Use larger widths, or "
            "smaller numbers."
        ) from None
