"""Mean field of tensors, by the native loop where it serves and by torch operations elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from densefield.crf.binding import Method
from densefield.crf.kernels import Normalization
from densefield.filters.lattice_design import Operator
from densefield.nn.native_op import Adjoint, torch_mean_field
from densefield.nn.reference import reference_mean_field

# Filters are built by NumPy and native code, which a compiler cannot look into.
_reference: Callable[..., Tensor] = torch.compiler.disable(reference_mean_field)  # type: ignore[no-untyped-call]


def fastest_mean_field(
    scores: Tensor,  # (B, L, N)
    features: Sequence[Tensor],  # per kernel (B, N, d) or (1, N, d)
    shapes: Sequence[Tensor],  # per kernel (d,) or (d, d)
    weights: Sequence[Tensor],  # per kernel (), (L,) or (L, L)
    *,
    normalizations: Sequence[Normalization],
    iterations: int,
    exclude_self: bool,
    present: Tensor | None,  # (B, N)
    method: Method,
    operator: Operator,
    halo: int,
    adjoint: Adjoint,
    threads: int | None,
) -> Tensor:
    """Log marginals (B, L, N), by the fastest implementation for these tensors.

    The native loop serves the lattice in float32 on a CPU. `adjoint` and `threads` are for it alone.
    """
    if method == "lattice" and scores.device.type == "cpu" and scores.dtype == torch.float32:
        return torch_mean_field(
            scores,
            features,
            shapes,
            weights,
            normalizations=normalizations,
            iterations=iterations,
            exclude_self=exclude_self,
            present=present,
            operator=operator,
            halo=halo,
            adjoint=adjoint,
            threads=threads,
        )
    return _reference(
        scores,
        features,
        shapes,
        weights,
        normalizations=normalizations,
        iterations=iterations,
        exclude_self=exclude_self,
        present=present,
        method=method,
        operator=operator,
        halo=halo,
    )
