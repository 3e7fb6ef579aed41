"""The Gaussian on a pixel grid as one small matrix per axis: the readable twin, on any device and in any precision."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from densefield.errors import InputError


def grid_filter_dense(
    values: Tensor,  # (N, C) or (B, N, C)
    shape: tuple[int, ...],
    sigma: Tensor,  # (axes,) or a scalar
) -> Tensor:
    """Σ_j exp(-½‖(p_i - p_j)/σ‖²) v_j, axis by axis; O(N · side), differentiable by torch itself.

    >>> import torch
    >>> grid_filter_dense(torch.ones(4, 1), (2, 2), torch.tensor([1e6])).tolist()
    [[4.0], [4.0], [4.0], [4.0]]
    """
    if values.ndim not in (2, 3) or values.shape[-2] != math.prod(shape):
        raise InputError(
            f"values have shape {tuple(values.shape)}, expected ({math.prod(shape)}, C) or (B, {math.prod(shape)}, C) "
            f"for a grid of {tuple(shape)}."
        )
    result = values.reshape(*values.shape[:-2], *shape, values.shape[-1])
    for axis, (length, width) in enumerate(zip(shape, sigma.expand(len(shape)), strict=True)):
        position = torch.arange(length, dtype=values.dtype, device=values.device)
        kernel = torch.exp(-0.5 * ((position[:, None] - position) / width.to(values)) ** 2)
        at = values.ndim - 2 + axis
        result = torch.tensordot(result, kernel, dims=([at], [1])).movedim(-1, at)
    return result.reshape(values.shape)
