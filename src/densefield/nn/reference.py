"""Mean field in plain torch operations, image by image, with gradients by autograd.

It is the readable twin of the native operator and of `torch_mean_field`, forward and backward, and computes exact
filters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from densefield.crf.features import checked_spacing
from densefield.crf.kernels import Normalization
from densefield.crf.options import AxisOrder, CRFOptions
from densefield.crf.pairwise import Pairwise, normalized
from densefield.filters.autograd import apply_filter
from densefield.filters.exact import ExactFilter
from densefield.filters.lattice_torch import TorchLatticeFilter
from densefield.filters.operator import GaussianFilter
from densefield.nn.inference import Adjoint, infer


def reference_mean_field(
    scores: Tensor,  # (B, L, N)
    features: Sequence[Tensor],  # per kernel (B, N, d), or (1, N, d) for all items: positions, colours, …
    shapes: Sequence[Tensor],  # per kernel widths (d,), features become p/σ; or a matrix W (d, d), they become W p
    weights: Sequence[Tensor],  # per kernel μ: (), (L,) or (L, L)
    normalizations: Sequence[Normalization],
    options: CRFOptions,
    present: Tensor | None = None,  # (B, N): 0 for ignored pixels, 1 for others
    adjoint: Adjoint = "store",  # "recompute" is the same as "store" here
) -> Tensor:
    """log q^T of T iterations, (B, L, N), with gradients to scores, features, shapes and weights (paper, Eq. 5).

    D = K·1 is part of the graph, so the derivative of the normalization is included. Constants are k(i,i), which
    exclude_self needs (1 for the Gaussian), and the calibrated magnitude of a lattice without normalization.

    >>> import torch
    >>> scores = torch.tensor([[[2.0, 0.0], [0.0, 0.5]]])  # two classes, two pixels close together
    >>> log_q = reference_mean_field(
    ...     scores, [torch.tensor([[[0.0], [1.0]]])], [torch.tensor([5.0])], [torch.tensor(3.0)],
    ...     ["after"], CRFOptions(method="exact"))
    >>> log_q.argmax(1)
    tensor([[0, 0]])
    """
    if scores.numel() == 0:
        return scores.log_softmax(1)
    f = scores.transpose(1, 2)  # (B, N, L)
    here = torch.ones_like(f[..., :1]) if present is None else present[..., None].to(f.dtype)
    kernels = [
        [_build(item, shape.to(f.dtype), mu.to(f.dtype), normalization, options) for item in p.to(f.dtype)]
        for p, shape, mu, normalization in zip(features, shapes, weights, normalizations, strict=True)
    ]
    items = []
    for index, (row, mask) in enumerate(zip(f, here, strict=True)):
        # A kernel with the same features for all items is built once.
        pairwise = [built[index if len(built) > 1 else 0].pairwise(mask) for built in kernels]
        items.append(infer(row, pairwise, options, adjoint))
    return torch.stack(items).transpose(1, 2).contiguous()  # some losses require it


def _scaled(features: Tensor, shape: Tensor) -> Tensor:
    """p/σ or W p, of which the kernel is exp(-½‖x_i - x_j‖²)."""
    return features / shape if shape.ndim == 1 else features @ shape.T


def _stretch(shape: Tensor) -> Tensor:
    """The unit matrix (d, d) as a function of the shape, for features scaled by it as a constant."""
    now = shape.detach()
    return torch.diag(now / shape) if shape.ndim == 1 else torch.linalg.solve(now, shape, left=False)


@dataclass(frozen=True)
class _Kernel:
    """The filter of one kernel on the pixels of one item."""

    filtering: Callable[..., Tensor]
    mu: Tensor
    normalization: Normalization
    diagonal: Tensor | None  # (N,)
    stretch: Tensor | None  # (d, d)

    def pairwise(self, present: Tensor) -> Pairwise[Tensor]:
        filtering = self.filtering
        if self.stretch is not None:
            filtering = partial(filtering, stretch=self.stretch, present=present)
        return normalized(filtering, self.normalization, self.mu, present, self.diagonal)


def _build(
    features: Tensor,  # (N, d)
    shape: Tensor,
    mu: Tensor,
    normalization: Normalization,
    options: CRFOptions,
) -> _Kernel:
    k: GaussianFilter[Tensor]
    stretch = None
    if options.method == "exact":
        x = _scaled(features, shape)
        k = ExactFilter(x)
    else:
        x = _scaled(features, shape.detach())
        k = TorchLatticeFilter(x, operator=options.operator, halo=options.halo, calibrate=normalization == "none")
        stretch = _stretch(shape) if shape.requires_grad else None
    filtering = partial(apply_filter, k, features=x)
    return _Kernel(filtering, mu, normalization, k.diagonal() if options.exclude_self else None, stretch)


def grid_positions(
    shape: Sequence[int], spacing: Sequence[float] | None = None, axis_order: AxisOrder = "xy"
) -> Tensor:
    """Positions of the pixels of a grid, (1, axes, …), in the order of densefield.crf.features.grid_positions.

    >>> grid_positions((2, 2))[0].flatten(1).tolist()
    [[0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]]
    """
    steps = checked_spacing(spacing, len(shape))
    dtype = torch.float32 if spacing is None else torch.float64
    lines = [
        (torch.arange(count, dtype=torch.float64) * step).to(dtype)
        for count, step in zip(reversed(tuple(shape)), steps, strict=True)
    ]
    grids = torch.meshgrid(lines[::-1], indexing="ij")  # z, y, x: as the axes of the grid
    return torch.stack(grids if axis_order == "yx" else grids[::-1])[None]
