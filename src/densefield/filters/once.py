"""Gradients that cannot be differentiated again: trying raises an error."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

SECOND_DERIVATIVES = (
    "densefield has no second derivatives: outputs can be differentiated once only. Do not differentiate gradients "
    "that were made by create_graph=True."
)


def once(gradients: tuple[Tensor | None, ...], *causes: Tensor | None) -> tuple[Tensor | None, ...]:
    """Gradients as they are, whose derivative with respect to what caused them is an error.

    torch's own ``once_differentiable`` raises in ``backward()`` alone: ``torch.autograd.grad`` passes its error by, and
    returns the part of a second derivative that takes other ways.

    >>> import torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> (slope,) = once((torch.full((1,), 2.0),), x)
    >>> torch.autograd.grad(slope, x)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    NotImplementedError: densefield has no second derivatives: outputs can be differentiated once only. ...
    """
    reasons = [cause for cause in causes if cause is not None and cause.requires_grad]
    if not torch.is_grad_enabled() or not reasons:
        return gradients
    given = [gradient for gradient in gradients if gradient is not None]
    marked = iter(_Refusal.apply(len(given), *given, *reasons))  # type: ignore[no-untyped-call]
    return tuple(None if gradient is None else next(marked) for gradient in gradients)


class _Refusal(torch.autograd.Function):
    """The first tensors unchanged; no way back from them to any."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> None:
        raise NotImplementedError(SECOND_DERIVATIVES)
