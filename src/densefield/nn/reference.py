"""Mean field in the graph of torch, written plainly: every gradient, on any device, in either precision.

The native loop is this made fast, and equals it forward and backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from densefield.crf.binding import Method
from densefield.crf.coupling import Coupling, couple
from densefield.crf.kernels import Normalization
from densefield.crf.mean_field import mean_field
from densefield.filters.autograd import apply_filter
from densefield.filters.exact import ExactFilter
from densefield.filters.lattice_design import Operator
from densefield.filters.lattice_torch import TorchLatticeFilter
from densefield.filters.operator import GaussianFilter


def reference_mean_field(
    scores: Tensor,  # (B, L, N)
    features: Sequence[Tensor],  # per kernel (B, N, d), or (1, N, d) for all items: positions, colours, …
    shapes: Sequence[Tensor],  # per kernel widths (d,), features become p/σ; or a matrix W (d, d), they become W p
    weights: Sequence[Tensor],  # per kernel μ: (), (L,) or (L, L)
    *,
    normalizations: Sequence[Normalization],
    iterations: int,
    exclude_self: bool = False,
    present: Tensor | None = None,  # (B, N), 1 or 0: pixels with 0 neither send nor receive
    method: Method = "lattice",
    operator: Operator = "symmetric",
    halo: int = 0,
) -> Tensor:
    """log q^T of T updates, (B, L, N), with gradients to scores, features, shapes and weights (paper, Eq. 5).

    D = K·1 is part of the graph, so the derivative of the normalisation is included. Constants are: k(i,i), where
    pixels send nothing to themselves (for the Gaussian it is 1); and the magnitude of a lattice, which is measured
    where K is not normalised.

    >>> import torch
    >>> scores = torch.tensor([[[2.0, 0.0], [0.0, 0.5]]])  # two labels, two pixels that are near each other
    >>> log_q = reference_mean_field(
    ...     scores, [torch.tensor([[[0.0], [1.0]]])], [torch.tensor([5.0])], [torch.tensor(3.0)],
    ...     normalizations=["after"], iterations=5, method="exact")
    >>> log_q.argmax(1)
    tensor([[0, 0]])
    """
    if scores.numel() == 0:
        return scores.log_softmax(1)
    f = scores.transpose(1, 2)  # (B, N, L)
    here = torch.ones_like(f[..., :1]) if present is None else present[..., None].to(f.dtype)
    kernels = [
        [
            _built(item, shape.to(f.dtype), mu.to(f.dtype), normalization, exclude_self, method, operator, halo)
            for item in p.to(f.dtype)
        ]
        for p, shape, mu, normalization in zip(features, shapes, weights, normalizations, strict=True)
    ]
    items = []
    for index, (row, mask) in enumerate(zip(f, here, strict=True)):
        # A kernel whose features are the same for all items was built once.
        couplings = [built[index if len(built) > 1 else 0].couple(mask) for built in kernels]
        items.append(mean_field(row, couplings, iterations))
    return torch.stack(items).transpose(1, 2).contiguous()  # which some losses insist on


def _scaled(features: Tensor, shape: Tensor) -> Tensor:
    """p/σ or W p, of which the kernel is exp(-½‖x_i - x_j‖²)."""
    return features / shape if shape.ndim == 1 else features @ shape.T


def _stretch(shape: Tensor) -> Tensor:
    """The unit matrix, as what the shape makes of features that it has been applied to as a constant, (d, d)."""
    now = shape.detach()
    return torch.diag(now / shape) if shape.ndim == 1 else torch.linalg.solve(now, shape, left=False)


@dataclass(frozen=True)
class _Built:
    """The filter of one kernel on the pixels of one item."""

    filtering: Callable[..., Tensor]
    mu: Tensor
    normalization: Normalization
    diagonal: Tensor | None  # (N,)
    stretch: Tensor | None  # (d, d)

    def couple(self, present: Tensor) -> Coupling[Tensor]:
        filtering = self.filtering
        if self.stretch is not None:
            filtering = partial(filtering, stretch=self.stretch, present=present)
        return couple(filtering, self.normalization, self.mu, present, self.diagonal)


def _built(
    features: Tensor,  # (N, d)
    shape: Tensor,
    mu: Tensor,
    normalization: Normalization,
    exclude_self: bool,
    method: Method,
    operator: Operator,
    halo: int,
) -> _Built:
    k: GaussianFilter[Tensor]
    stretch = None
    if method == "exact":
        x = _scaled(features, shape)
        k = ExactFilter(x)
    else:
        x = _scaled(features, shape.detach())
        k = TorchLatticeFilter(x, operator=operator, halo=halo, calibrate=normalization == "none")
        stretch = _stretch(shape) if shape.requires_grad else None
    filtering = partial(apply_filter, k, features=x)
    return _Built(filtering, mu, normalization, k.diagonal() if exclude_self else None, stretch)
