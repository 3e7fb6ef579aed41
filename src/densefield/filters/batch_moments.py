"""Second moments of the features of a batch of images, for gradients by a kernel's shape; see `moments`."""

from __future__ import annotations

import torch
from torch import Tensor

from densefield.filters.lattice_batch import BatchLattice


def batch_moments(
    lattice: BatchLattice,
    diagonal: Tensor,  # (M + 1,): a·(B b) + (Bᵀ a)·b at each vertex, with a = Sᵀ g and b = Sᵀ v
    moved: Tensor,  # (M + 1, d): a·(B (p b)), with the vertices' features p
    row_sums: Tensor,  # (P,): t
    extra: Tensor | None,  # (P,): g of further pairs (g, 1), whose point moments are added
    present: Tensor,  # (P, 1)
) -> Tensor:
    """The second moments of all images together, (d, d) in float64 on the CPU, as point_moments() has them."""
    y = present * row_sums[:, None] / (lattice.apply(present) + (1 - present))
    a, one = lattice.splat(y), lattice.splat(present)
    blurred = lattice.blur(torch.cat([one, lattice.at * one], 1))
    diagonal = diagonal - (a * blurred[:, :1] + lattice.blur(a, adjoint=True) * one)[:, 0]
    moved = moved - a * blurred[:, 1:]
    scale = lattice.vertex_magnitude[:, None]
    between = _spread(lattice.at[:-1], scale * diagonal[:-1, None], scale * moved[:-1])
    # Pairs (w, 1) of points.
    w = y if extra is None else y + extra[:, None]
    x = lattice.features - lattice.features.mean(0)
    filtered = lattice.apply(torch.cat([present, present * x], 1))
    both_sums = w * filtered[:, :1] + present * lattice.apply(w, adjoint=True)
    return lattice.moment_factor * between + _spread(x, both_sums, w * filtered[:, 1:])


def _spread(x: Tensor, sums: Tensor, moved: Tensor) -> Tensor:
    """Σ_i s_i x_i x_iᵀ - x_i m_iᵀ - m_i x_iᵀ, (d, d): a difference of larger sums, in float64 if the device has it."""
    device = "cpu" if x.device.type == "mps" else x.device
    x, sums, moved = (each.to(device).double() for each in (x, sums, moved))
    cross = x.T @ moved
    return (x.T @ (sums * x) - cross - cross.T).cpu()
