"""Arithmetic with logarithms of sums: −inf is the logarithm of 0 and has a gradient of 0."""

from __future__ import annotations

import torch
from torch import Tensor

NEG_INF = float("-inf")


def log_sum(
    x: Tensor,
    axes: tuple[int, ...] | int,
    keepdim: bool = False,
) -> Tensor:
    """log Σ exp x over some axes; if all terms are −inf it is −inf with a gradient of 0 instead of NaN.

    >>> import torch
    >>> log_sum(torch.tensor([[0.0, 0.0], [float("-inf"), float("-inf")]]), 1)
    tensor([0.6931,   -inf])
    """
    if axes == ():
        return x
    if not x.requires_grad:
        return torch.logsumexp(x, axes, keepdim)
    top = finite_or_zero(x.detach().amax(axes, keepdim=True))
    total = (x - top).exp().sum(axes, keepdim=True)
    zero = total <= 0
    total = total.masked_fill(zero, 1).log().masked_fill(zero, NEG_INF) + top
    return total if keepdim else total.squeeze(axes)


def log_add(a: Tensor, b: Tensor) -> Tensor:
    """log(exp a + exp b)."""
    return log_sum(torch.stack([a, b]), 0)


def log_others(nu: Tensor) -> Tensor:
    """log Σ_{y≠x} exp ν(y) for every state x (…, L), in O(L) and without cancellation.

    Subtracting one term from the total is accurate for all states but the most probable one, whose other terms are
    summed directly.

    >>> import torch
    >>> log_others(torch.tensor([3.0, 0.0, 0.0]))
    tensor([0.6931, 3.0486, 3.0486])
    """
    norm = log_sum(nu, -1, keepdim=True)
    greatest = torch.zeros_like(nu, dtype=torch.bool).scatter_(-1, nu.argmax(-1, keepdim=True), True)
    p = difference(nu, norm).exp().masked_fill(greatest, 0)
    return torch.where(greatest, log_sum(nu.masked_fill(greatest, NEG_INF), -1, keepdim=True), norm + torch.log1p(-p))


def finite_or_zero(x: Tensor) -> Tensor:
    """Replace −inf by 0, so that the result can be subtracted."""
    return x.masked_fill(x == NEG_INF, 0)


def difference(total: Tensor, part: Tensor) -> Tensor:
    """total − part, and −inf where the total is −inf, even if the part is too."""
    return torch.where(total == NEG_INF, total, total - part)


def align(
    table: Tensor,  # (B, L_a, L_b, …), axes of the variables `have`
    have: tuple[int, ...],
    want: tuple[int, ...],
) -> Tensor:
    """View a table over some variables as one over more variables, with axes of length 1 for the new ones.

    >>> import torch
    >>> align(torch.zeros(1, 2, 3), have=(7, 4), want=(4, 5, 7)).shape
    torch.Size([1, 3, 1, 2])
    """
    order = sorted(range(len(have)), key=lambda axis: want.index(have[axis]))
    known = {have[axis]: table.shape[axis + 1] for axis in order}
    moved = table.permute(0, *(axis + 1 for axis in order))
    return moved.reshape(table.shape[0], *(known.get(variable, 1) for variable in want))


def marginalise(
    log_table: Tensor,  # (B, L_a, L_b, …), axes of the variables `have`
    have: tuple[int, ...],
    keep: tuple[int, ...],
) -> Tensor:
    """The log-sum over all variables except `keep`; the remaining axes are in the order of `keep`."""
    rest = [variable for variable in have if variable in keep]
    summed = log_sum(log_table, tuple(axis + 1 for axis, variable in enumerate(have) if variable not in keep))
    return summed.permute(0, *(rest.index(variable) + 1 for variable in keep))
