"""The permutohedral lattices of a batch of images as one, in torch operations on all images at once.

The number of the image is a digit of each vertex's key, so images have no vertex in common. Splat, blur and slice are
weighted sums of rows, which `torch.embedding_bag` computes in one operation, in a fixed order and without copies of the
rows. `TorchLatticeFilter` is the readable twin for one image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from densefield.filters.calibration import calibrated_magnitude
from densefield.filters.lattice_design import Operator, design_lattice
from densefield.filters.lattice_diagonal import lattice_diagonal
from densefield.filters.lattice_geometry import (
    add_neighbours,
    axis_steps,
    barycentric_weights,
    corner_codes,
    corners_at,
    elevate,
    next_vertices,
    previous_vertices,
    round_to_lattice,
    vertex_features,
)
from densefield.filters.operator import check_feature_shape, check_finite


@dataclass(frozen=True)
class WeightedSums:
    """A sparse matrix (R, S) by rows: row r of the result is the weighted sum of some rows of the argument."""

    indices: Tensor  # of all summands, those of the first row first
    offsets: Tensor  # (R,): where the summands of each row begin
    weights: Tensor  # of all summands

    def __call__(self, rows: Tensor) -> Tensor:  # (S, C) → (R, C)
        """The matrix times rows."""
        return torch.embedding_bag(rows, self.indices, self.offsets, mode=0, per_sample_weights=self.weights)[0]

    def scaled(self, factors: Tensor) -> WeightedSums:
        """With every summand's weight times a factor of its own."""
        return replace(self, weights=self.weights * factors)


@dataclass(frozen=True)
class _Embedding:
    """Points on the vertices of a lattice; the index M stands for every missing vertex."""

    vertex: Tensor  # (P, d+1): the corners of each point's simplex
    weights: Tensor  # (P, d+1)
    keys: Tensor  # (M, 1 + d+1): image and coordinates of each vertex
    following: Tensor  # (d+1, M): the next vertex along each axis

    def repeated(self, times: int) -> _Embedding:
        """The same for several images with equal features."""
        vertices, images = len(self.keys), torch.arange(times, device=self.keys.device)
        keys = self.keys.repeat(times, 1)
        keys[:, 0] = images.repeat_interleave(vertices)
        following = self.following[:, None].expand(-1, times, -1)
        following = (following + vertices * images[:, None]).where(following < vertices, times * vertices)
        vertex = self.vertex + vertices * images[:, None, None]
        return _Embedding(vertex.flatten(0, 1), self.weights.repeat(times, 1), keys, following.flatten(1))


class BatchLattice:
    """K = magnitude · S·B·Sᵀ of every image of a batch, as parts that act on the points of all images.

    Parameters
    ----------
    features
        (images, N, d) float32 or float64, already divided by the widths; or (1, N, d) for all images.
    images
        Number of images.
    operator, halo, calibrate
        As in `LatticeFilter`.

    >>> import torch
    >>> lattice = BatchLattice(torch.tensor([[[0.0], [0.5], [9.0]]]), images=2)
    >>> lattice.apply(torch.tensor([[1.0], [0.0], [0.0], [0.0], [0.0], [1.0]]))[:, 0] > 0
    tensor([ True,  True, False, False, False,  True])
    """

    def __init__(
        self,
        features: Tensor,
        images: int,
        *,
        operator: Operator = "symmetric",
        halo: int = 0,
        calibrate: bool = True,
    ) -> None:
        sets, points, dimension = features.shape
        flat = features.detach().flatten(0, 1)
        check_feature_shape(tuple(flat.shape))
        if not bool(flat.sum().isfinite()):  # or the sum overflows
            check_finite(flat.cpu().numpy())
        design = design_lattice(dimension, operator, halo)
        scale = torch.tensor(design.scale, dtype=torch.float64)
        # Embedding decides which vertices exist, so it is as precise as the native one.
        single = design.single_precision or flat.device.type == "mps"  # which has no float64
        exact = flat.to(torch.float32 if single else torch.float64)
        elevated = elevate(exact, scale)
        embedding = _embed(elevated, sets, halo, flat.dtype)
        if sets < images:
            embedding, flat = embedding.repeated(images), flat.repeat(images, 1)
        self.features = flat  # (P, d) with P = images · N
        self.moment_factor = design.moment_factor
        self._embedding, self._passes, self._points = embedding, design.passes, points
        at = vertex_features(embedding.keys[:, 1:], scale)
        at = at - at.mean(0) if len(at) else at  # differences matter; near 0 they lose less to rounding
        self.at = torch.cat([at, at.new_zeros(1, dimension)]).to(flat.dtype).to(flat.device)  # (M + 1, d)
        self._blurs = _blur_passes(embedding.following, self.at, design.passes)
        self.splat, self.slice = _splat_and_slice(embedding)
        self.magnitude = flat.new_full((images,), design.magnitude)
        if calibrate and operator != "pydensecrf" and len(flat):
            self.magnitude = self._calibrated(exact, elevated, sets, width=design.scale[0] * 2**0.5)
        self.slice = self.slice_times(self.magnitude.repeat_interleave(points)[:, None])

    @property
    def num_vertices(self) -> int:
        """Number of vertices of all images."""
        return len(self._embedding.keys)

    @property
    def vertex_magnitude(self) -> Tensor:
        """The magnitude of each vertex's image, (M,)."""
        return self.magnitude[self._embedding.keys[:, 0]]

    def blur(self, rows: Tensor, adjoint: bool = False) -> Tensor:
        """B rows, or Bᵀ rows, (M + 1, C). The last row is zero and stands for every missing vertex."""
        for each in reversed(self._blurs) if adjoint else self._blurs:
            rows = each(rows)
        return rows

    def apply(self, values: Tensor, adjoint: bool = False) -> Tensor:
        """K v, or Kᵀ v, (P, C)."""
        return self.slice(self.blur(self.splat(values), adjoint))

    def splat_times(self, factor: Tensor) -> WeightedSums:
        """Sᵀ·diag(factor), for a factor (P, 1)."""
        return self.splat.scaled(factor[:, 0].index_select(0, self.splat.indices))

    def slice_times(self, factor: Tensor) -> WeightedSums:
        """magnitude·diag(factor)·S, for a factor (P, 1)."""
        return self.slice.scaled(factor.expand_as(self._embedding.vertex).flatten())

    def diagonal(self) -> Tensor:
        """k(i,i) of this approximation, (P, 1)."""
        here = self._embedding
        own = lattice_diagonal(here.vertex, here.weights, here.following, here.keys[:, 1:], self._passes)
        return (own * self.magnitude.repeat_interleave(self._points))[:, None]

    def _calibrated(self, exact: Tensor, elevated: Tensor, sets: int, width: float) -> Tensor:
        """The magnitude of each image (images,), measured on a sample of its points."""
        mass = self.splat(torch.ones_like(self.features[:, :1]))
        filtered = self.slice(self.blur(mass))[:, 0]
        image, keys = self._embedding.keys[:, 0], self._embedding.keys[:, 1:]
        found = []
        for number in range(sets):
            points, vertices = slice(number * self._points, (number + 1) * self._points), image == number
            mass_here = mass[:-1, 0][vertices]
            found.append(
                calibrated_magnitude(
                    exact[points], elevated[points], keys[vertices], mass_here, filtered[points], width
                )
            )
        return self.magnitude.new_tensor(found).expand(len(self.magnitude))


def _embed(elevated: Tensor, sets: int, halo: int, dtype: torch.dtype) -> _Embedding:
    """The lattice of `sets` images of equal size, whose points are in one array (P, d+1)."""
    cells, rank, residual = round_to_lattice(elevated)
    weights = barycentric_weights(residual, rank).to(dtype)
    image = torch.arange(sets, device=cells.device).repeat_interleave(len(cells) // max(sets, 1))
    codes, vertex = torch.unique(corner_codes(cells, rank, image, sets), return_inverse=True)
    example = torch.zeros_like(codes)  # the key of a vertex is that of any corner there
    example[vertex.flatten()] = torch.arange(vertex.numel(), device=codes.device)
    keys = corners_at(cells, rank, image, example)
    steps = axis_steps(cells.shape[1] - 1, keys.device)
    steps = torch.cat([torch.zeros_like(steps[:, :1]), steps], 1)  # the image stays the same
    for _ in range(halo):
        keys = add_neighbours(keys, steps)
    return _Embedding(vertex, weights, keys, next_vertices(keys, steps))


def _splat_and_slice(embedding: _Embedding) -> tuple[WeightedSums, WeightedSums]:
    """Sᵀ with an empty last row, and S."""
    vertex, weights = embedding.vertex, embedding.weights
    dtype = torch.int32 if vertex.numel() < 2**31 else torch.int64  # half the memory
    flat, corners = vertex.flatten(), vertex.shape[1]
    ordered, order = flat.sort(stable=True)
    starts = torch.searchsorted(ordered, torch.arange(len(embedding.keys) + 1, device=flat.device))
    splat = WeightedSums((order // corners).to(dtype), starts.to(dtype), weights.flatten()[order])
    offsets = torch.arange(0, vertex.numel(), corners, device=flat.device, dtype=dtype)
    return splat, WeightedSums(flat.to(dtype), offsets, weights.flatten())


def _blur_passes(following: Tensor, like: Tensor, passes: Sequence[tuple[int, float]]) -> list[WeightedSums]:
    """The passes of the blur: rows + tap · (next + previous)."""
    axes, missing = following.shape
    here = torch.arange(missing + 1, device=following.device)
    last = following.new_full((axes, 1), missing)
    after, before = (torch.cat([each, last], 1) for each in (following, previous_vertices(following)))
    indices = [torch.stack([here, *pair], 1).flatten() for pair in zip(after, before, strict=True)]
    weights = {tap: like.new_tensor([1.0, tap, tap]).repeat(missing + 1) for _, tap in passes}
    return [WeightedSums(indices[axis], 3 * here, weights[tap]) for axis, tap in passes]
