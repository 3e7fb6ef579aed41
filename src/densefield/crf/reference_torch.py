"""Mean field in the graph of torch, written plainly: every gradient, on any device, in either precision.

The native loop is this made fast, and equals it forward and backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from densefield.crf.binding import FilterChoice, Method
from densefield.crf.coupling import Coupling, couple
from densefield.crf.kernels import Normalization
from densefield.crf.mean_field import mean_field
from densefield.filters.autograd import apply_filter, torch_threads
from densefield.filters.exact import ExactFilter
from densefield.filters.lattice import LatticeFilter
from densefield.filters.lattice_design import Operator
from densefield.filters.lattice_torch import TorchLatticeFilter
from densefield.filters.operator import FeatureFilter


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
    threads: int | None = None,
    native: bool = True,  # whether float32 on a CPU is filtered by the native lattice
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
    choice = FilterChoice(method, operator, halo, torch_threads(threads))
    kernels = [
        [_built(x, mu.to(f.dtype), normalization, choice, exclude_self, native) for x in _scaled(p.to(f.dtype), shape)]
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
    width = shape.to(features.dtype)
    return features / width if width.ndim == 1 else features @ width.T


@dataclass(frozen=True)
class _Built:
    """The filter of one kernel on the pixels of one item."""

    filter: FeatureFilter[Any]
    features: Tensor  # (N, d)
    mu: Tensor
    normalization: Normalization
    diagonal: Tensor | None  # (N,)

    def couple(self, present: Tensor) -> Coupling[Tensor]:
        filtering = partial(apply_filter, self.filter, features=self.features)
        return couple(filtering, self.normalization, self.mu, present, self.diagonal)


def _built(
    x: Tensor, mu: Tensor, normalization: Normalization, choice: FilterChoice, exclude_self: bool, native: bool
) -> _Built:
    k = _filter(x, choice, calibrate=normalization == "none", native=native)
    diagonal = torch.as_tensor(k.diagonal()) if exclude_self else None
    return _Built(k, x, mu, normalization, diagonal)


def _filter(x: Tensor, choice: FilterChoice, calibrate: bool, native: bool) -> FeatureFilter[Any]:
    if choice.method == "exact":
        return ExactFilter(x)
    if native and x.device.type == "cpu" and x.dtype == torch.float32:
        return LatticeFilter(
            x.detach().numpy(), operator=choice.operator, halo=choice.halo, calibrate=calibrate, threads=choice.threads
        )
    return TorchLatticeFilter(x, operator=choice.operator, halo=choice.halo, calibrate=calibrate)
