"""Sums, maxima and differences of logarithms, where −inf is the logarithm of nothing and has no gradient."""

from __future__ import annotations

import torch
from torch import Tensor

NEVER = float("-inf")


def log_sum(
    x: Tensor,
    axes: tuple[int, ...] | int,
    keepdim: bool = False,
) -> Tensor:
    """log Σ exp x over some axes; where all are −inf it is −inf, with a gradient of 0 and not NaN.

    >>> import torch
    >>> log_sum(torch.tensor([[0.0, 0.0], [float("-inf"), float("-inf")]]), 1)
    tensor([0.6931,   -inf])
    """
    if axes == ():
        return x
    if not x.requires_grad:
        return torch.logsumexp(x, axes, keepdim)
    top = finite_or_zero(x.detach().amax(axes, keepdim=True))
    total = safe_log((x - top).exp().sum(axes, keepdim=True)) + top
    return total if keepdim else total.squeeze(axes)


def safe_log(p: Tensor) -> Tensor:
    """log p, which is −inf at 0, with a gradient of 0 there."""
    nothing = p <= 0
    return p.masked_fill(nothing, 1).log().masked_fill(nothing, NEVER)


def finite_or_zero(x: Tensor) -> Tensor:
    """x, and 0 where it is −inf: something that can be subtracted."""
    return x.masked_fill(x == NEVER, 0)


def difference(total: Tensor, part: Tensor) -> Tensor:
    """total − part, and −inf where the total is: a label that is impossible stays so, whoever asks."""
    return torch.where(total == NEVER, total, total - part)


def align(
    table: Tensor,  # (B, L_a, L_b, …), of the variables `have`
    have: tuple[int, ...],
    want: tuple[int, ...],
) -> Tensor:
    """A table over some variables as one over more of them, with axes of length 1 for those it does not know.

    >>> import torch
    >>> align(torch.zeros(1, 2, 3), have=(7, 4), want=(4, 5, 7)).shape
    torch.Size([1, 3, 1, 2])
    """
    order = sorted(range(len(have)), key=lambda axis: want.index(have[axis]))
    known = {have[axis]: table.shape[axis + 1] for axis in order}
    moved = table.permute(0, *(axis + 1 for axis in order))
    return moved.reshape(table.shape[0], *(known.get(variable, 1) for variable in want))


def marginalise(
    log_table: Tensor,  # (B, L_a, L_b, …), of the variables `have`
    have: tuple[int, ...],
    keep: tuple[int, ...],
) -> Tensor:
    """The logarithm of the sum over all variables but some, whose axes come in the order of `keep`."""
    rest = [variable for variable in have if variable in keep]
    summed = log_sum(log_table, tuple(axis + 1 for axis, variable in enumerate(have) if variable not in keep))
    return summed.permute(0, *(rest.index(variable) + 1 for variable in keep))
