"""The permutohedral lattice in torch operations: the reference of the native code, for any device.

Both build the same vertices and agree up to rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor

from densefield.errors import InputTypeError
from densefield.filters.calibration import calibrated_magnitude
from densefield.filters.lattice_design import Operator, design_lattice
from densefield.filters.lattice_diagonal import lattice_diagonal
from densefield.filters.lattice_geometry import (
    add_neighbours,
    axis_steps,
    barycentric_weights,
    corner_keys,
    distinct_rows,
    elevate,
    next_vertices,
    previous_vertices,
    pull_back,
    round_to_lattice,
    vertex_features,
)
from densefield.filters.moments import gaussian_gradients, point_moments
from densefield.filters.operator import (
    Derivative,
    GaussianFilter,
    check_derivative,
    check_feature_shape,
    check_finite,
    check_out,
    check_same_shape,
    check_value_shape,
)


class TorchLatticeFilter(GaussianFilter[Tensor]):
    """K v = Σ_j exp(-½‖x_i - x_j‖²) v_j, approximated as K = magnitude · S·B·Sᵀ.

    Sᵀ splats values to the d+1 corners of each point's simplex, B blurs along the lattice's d+1 axes, and S slices:
    it interpolates at the points. Values are tensors of the dtype and device of the features.

    Parameters
    ----------
    features
        (N, d) float32 or float64 tensor, already divided by the kernel's widths.
    operator, halo, calibrate
        As in `LatticeFilter`.

    >>> import torch
    >>> k = TorchLatticeFilter(torch.tensor([[0.0, 0.0], [0.5, 0.0], [9.0, 9.0]])).to_dense()
    >>> torch.equal(k[:2, 2], torch.zeros(2))
    True
    """

    def __init__(
        self, features: Tensor, *, operator: Operator = "symmetric", halo: int = 0, calibrate: bool = True
    ) -> None:
        if not isinstance(features, Tensor):
            raise InputTypeError(f"features are of type {type(features).__name__}, expected a torch tensor (N, d).")
        if features.dtype not in (torch.float32, torch.float64):
            raise InputTypeError(f"features have dtype {features.dtype}, expected torch.float32 or torch.float64.")
        check_feature_shape(tuple(features.shape))
        check_finite(features.detach().cpu().numpy())
        dimension = features.shape[1]
        design = design_lattice(dimension, operator, halo)
        self._features = features.detach().clone()
        self._dtype, self._device = features.dtype, features.device
        self._scale = torch.tensor(design.scale, dtype=torch.float64)
        self._passes = design.passes
        self._moment_factor = design.moment_factor

        # Embedding decides which vertices exist, so it is as precise as the native one.
        single = design.single_precision or features.device.type == "mps"  # which has no float64
        exact = features.detach().to(torch.float32 if single else torch.float64)
        elevated = elevate(exact, self._scale)
        cells, self._rank, residual = round_to_lattice(elevated)
        self._weights = barycentric_weights(residual, self._rank).to(features.dtype)  # (N, d+1)

        corners = corner_keys(cells, self._rank)  # (N, d+1, d+1)
        self._vertex, keys = distinct_rows(corners.reshape(-1, dimension + 1))
        self._vertex = self._vertex.reshape(-1, dimension + 1)  # (N, d+1): which vertex each corner is
        steps = axis_steps(dimension, keys.device)
        for _ in range(halo):
            keys = add_neighbours(keys, steps)
        self._keys, self._num_vertices = keys, len(keys)
        at = vertex_features(keys, self._scale)
        self._centred = at - at.mean(0) if len(at) else at  # (M, d) on the CPU, centred against rounding errors
        self._next = next_vertices(keys, steps)  # (d+1, M)
        self._previous = previous_vertices(self._next)

        self._magnitude = design.magnitude
        if calibrate and operator != "pydensecrf" and self.num_points > 0:
            mass = self._splat(torch.ones_like(features[:, :1]))
            filtered = self._slice(self._blur(mass))[:, 0]
            self._magnitude = calibrated_magnitude(
                exact, elevated, keys, mass[:-1, 0], filtered, width=design.scale[0] * 2**0.5
            )

    @property
    def num_vertices(self) -> int:
        """Number of vertices of the lattice."""
        return self._num_vertices

    @property
    def magnitude(self) -> float:
        """Factor by which the lattice's sums are multiplied."""
        return self._magnitude

    def gradients(
        self, cotangent: Tensor, values: Tensor, derivative: Derivative = "gaussian"
    ) -> tuple[Tensor, Tensor]:
        """Return Kᵀ g and ∂⟨g, K v⟩/∂x, (…, N, C) and (N, d).

        "lattice" differentiates the barycentric weights of splat and slice: ⟨g, S B Sᵀ v⟩ changes with the weight of
        point i's corner k by g_i·(B Sᵀ v)_k + v_i·(Bᵀ Sᵀ g)_k; the weights are linear in the elevated point, and that
        is linear in x.
        """
        check_derivative(derivative)
        v, g = self._columns(values), self._columns(cotangent, "the cotangent")
        check_same_shape(tuple(cotangent.shape), tuple(values.shape))
        if derivative == "gaussian":
            return gaussian_gradients(self, cotangent, values, self._features)
        blurred_v = self._blur(self._splat(v))
        blurred_g = self._blur(self._splat(g), adjoint=True)
        slopes = torch.stack(
            [(g * blurred_v[vertex]).sum(1) + (v * blurred_g[vertex]).sum(1) for vertex in self._vertex.T],
            dim=1,
        )
        back = self._uncolumns(self._slice(blurred_g) * self._magnitude, values)
        return back, pull_back(slopes * self._magnitude, self._rank, self._scale)

    def second_moments(self, cotangent: Tensor, values: Tensor, present: Tensor | None = None) -> Tensor:
        """Return Σ_ij k(i,j) (g_i·v_j) (x_i - x_j)(x_i - x_j)ᵀ, (d, d): -∂⟨g, K v⟩/∂A at A = 1 for features A x.

        It is computed from moments between vertices; see `densefield.filters.moments`.

        Parameters
        ----------
        cotangent
            g, of the shape of `values`.
        values
            v, (N, C) or (B, N, C).
        present
            (N, 1) 0 for points that take no part, where g and v are zero, 1 for others; None for all 1.
        """
        v, g = self._columns(values), self._columns(cotangent, "the cotangent")
        check_same_shape(tuple(cotangent.shape), tuple(values.shape))
        row_sums = (g * self.apply(v)).sum(1, keepdim=True)
        one = torch.ones_like(row_sums) if present is None else present.to(row_sums)
        between = self._vertex_moments
        moments = point_moments(self, self._features, row_sums, one, between(g, v), between, self._moment_factor)
        return moments.to(self._dtype).to(self._device)

    def _vertex_moments(self, g: Tensor, v: Tensor) -> Tensor:
        """Σ_uw B(u,w) (a_u·b_w) (p_u - p_w)(p_u - p_w)ᵀ, (d, d), times the magnitude.

        The sums are over vertices at p; a = Sᵀ g and b = Sᵀ v. They are differences of larger sums, so sums over
        channels are on the device, but sums over vertices in float64 on the CPU.
        """
        a, b = self._splat(g), self._splat(v)
        p = torch.cat([self._centred, self._centred.new_zeros(1, self.dimension)])
        on_device = p.to(self._dtype).to(self._device)
        diagonal = (a * self._blur(b) + self._blur(a, adjoint=True) * b).sum(1).cpu().double()
        moved = torch.stack([(a * self._blur(on_device[:, e, None] * b)).sum(1) for e in range(self.dimension)], dim=1)
        cross = p.T @ moved.cpu().double()
        return self._magnitude * (p.T @ (diagonal[:, None] * p) - cross - cross.T)

    def diagonal(self) -> Tensor:
        """Return k(i,i) of this approximation, (N,)."""
        return self._magnitude * lattice_diagonal(self._vertex, self._weights, self._next, self._keys, self._passes)

    def _filter(self, values: Tensor, out: Tensor | None, *, adjoint: bool) -> Tensor:
        columns = self._columns(values)
        result = self._uncolumns(self._slice(self._blur(self._splat(columns), adjoint)) * self._magnitude, values)
        if out is None:
            return result
        check_out(out, values)
        return out.copy_(result)

    def _splat(self, values: Tensor) -> Tensor:
        """Sᵀ v: (N, C) → (M + 1, C). The last row is zero and stands for every missing vertex."""
        rows = values.new_zeros(self._num_vertices + 1, values.shape[1])
        for weight, vertex in zip(self._weights.T, self._vertex.T, strict=True):
            rows.index_add_(0, vertex, weight[:, None] * values)
        return rows

    def _blur(self, rows: Tensor, adjoint: bool = False) -> Tensor:
        """B rows, or Bᵀ rows: each pass is symmetric, so the adjoint applies them in reverse order."""
        for axis, tap in reversed(self._passes) if adjoint else self._passes:
            neighbours = rows[self._next[axis]] + rows[self._previous[axis]]
            rows = torch.cat([rows[:-1] + tap * neighbours, rows[-1:]])
        return rows

    def _slice(self, rows: Tensor) -> Tensor:
        """S rows: (M + 1, C) → (N, C)."""
        values = rows.new_zeros(self.num_points, rows.shape[1])
        for weight, vertex in zip(self._weights.T, self._vertex.T, strict=True):
            values += weight[:, None] * rows[vertex]
        return values

    def _columns(self, values: Tensor, name: str = "values") -> Tensor:
        """(N, C) as it is, (B, N, C) as (N, B·C)."""
        if not isinstance(values, Tensor) or values.dtype != self._dtype or values.device != self._device:
            came = f"{values.dtype} on {values.device}" if isinstance(values, Tensor) else type(values).__name__
            raise InputTypeError(
                f"{name} are {came}, expected a {self._dtype} tensor on {self._device}, as the features were."
            )
        check_value_shape(tuple(values.shape), self.num_points)
        return values if values.ndim == 2 else values.permute(1, 0, 2).flatten(1)

    def _uncolumns(self, columns: Tensor, like: Tensor) -> Tensor:
        if like.ndim == 2:
            return columns
        return columns.reshape(like.shape[1], like.shape[0], like.shape[2]).permute(1, 0, 2).contiguous()
