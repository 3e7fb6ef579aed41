"""Mean field of a batch by native code, or by torch operations on the device of the tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from densefield.crf.options import CRFOptions
from densefield.nn.batch import OpOptions
from densefield.nn.hand_over import on_cpu
from densefield.nn.inference import Adjoint
from densefield.nn.inputs import kernel_features
from densefield.nn.native_op import native_op
from densefield.nn.reference import grid_positions, reference_mean_field
from densefield.nn.torch_mean_field import torch_mean_field

Backend = Literal["native", "torch"]

# The number of vertices depends on the values, which a compiler cannot trace.
_reference: Callable[..., Tensor] = torch.compiler.disable(reference_mean_field)  # type: ignore[no-untyped-call]
_batched: Callable[..., Tensor] = torch.compiler.disable(torch_mean_field)  # type: ignore[no-untyped-call]


class CheckedBatch(NamedTuple):
    """The tensors of a batch, in the precision of the computation."""

    scores: Tensor  # (B, L, …)
    parts: Mapping[str, Tensor]  # the features that kernels compare besides positions, by name, (B, d, …) each
    present: Tensor | None  # (B, N): 0 for ignored pixels, 1 for others
    spacing: Sequence[Sequence[float]] | None  # one for all images, or one for each


def infer_batch(
    batch: CheckedBatch,
    shapes: Sequence[Tensor],  # per kernel: widths (d,), or the matrix W (d, d) of features W p
    weights: Sequence[Tensor],  # per kernel μ: (), (L,) or (L, L)
    settings: OpOptions,
    encoded: str,  # settings.encode()
    adjoint: Adjoint,
    backend: Backend,
) -> Tensor:  # (B, L, …)
    """log q^T with gradients (paper, Eq. 5 and Learning).

    Float64 and exact filters always use torch operations.
    """
    scores, options = batch.scores, settings.options
    is_lattice = options.method == "lattice"
    if is_lattice and scores.dtype == torch.float32 and backend == "native":
        op = native_op if scores.device.type == "cpu" else partial(on_cpu, native_op)
        parts = list(batch.parts.values())
        return op(scores, parts, shapes, weights, batch.present, batch.spacing, encoded, adjoint)
    every = all_parts(batch, options) if any("position" in each.parts for each in settings.kernels) else batch.parts
    columns = [kernel_features([every[name] for name in each.parts]) for each in settings.kernels]
    normalizations = [each.normalization for each in settings.kernels]
    mean_field = _batched if is_lattice else _reference
    flat = scores.flatten(2)
    log_q = mean_field(flat, columns, shapes, weights, normalizations, options, batch.present, adjoint)
    return log_q.reshape(scores.shape)


def all_parts(batch: CheckedBatch, options: CRFOptions) -> Mapping[str, Tensor]:
    """The features of the batch, with the positions of its pixels."""
    shape = tuple(batch.scores.shape[2:])
    steps: Sequence[Sequence[float] | None] = batch.spacing or [None]
    positions = torch.cat([grid_positions(shape, each, options.axis_order) for each in steps])
    return {"position": positions.to(batch.scores.device, batch.scores.dtype), **batch.parts}
