"""Modes of torch that native operators do not support: errors that say what to use instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

SECOND_DERIVATIVES = (
    "densefield has no second derivatives: outputs can be differentiated once only. Do not differentiate gradients "
    "that were made by create_graph=True."
)

# torch.func wraps tensors without memory of their own. Its tests for that have no public names.
_functorch: Any = getattr(torch._C, "_functorch", None)
_TESTS = [
    getattr(_functorch, name)
    for name in ("is_functorch_wrapped_tensor", "is_legacy_batchedtensor")
    if hasattr(_functorch, name)
]


def check_torch_mode(what: str, tensors: Iterable[object]) -> None:
    """Raise NotImplementedError under transforms that would fail later or give wrong results silently.

    Parameters
    ----------
    what
        Name of the operator for the message, such as "DenseCRF".
    tensors
        Its arguments; other types are skipped.

    >>> import torch
    >>> torch.func.vmap(lambda v: check_torch_mode("DenseCRF", [v]))(torch.zeros(2, 3))
    Traceback (most recent call last):
    NotImplementedError: DenseCRF does not support torch.func (vmap, grad, vjp, jvp, jacrev, ...). Use backward() or \
torch.autograd.grad; it takes batches as they are. torch.func.functional_call is supported.
    """
    if torch.onnx.is_in_onnx_export():
        raise NotImplementedError(
            f"{what} cannot be exported to ONNX: its operator is native code. Export the network alone, and run the "
            "CRF on its scores, for instance by densefield.CRF; or use torch.export."
        )
    if torch.compiler.is_compiling():
        return
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        raise NotImplementedError(f"{what} does not support torch.jit.trace. Use torch.export or torch.compile.")
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            continue
        if is_transformed(tensor):
            raise NotImplementedError(
                f"{what} does not support torch.func (vmap, grad, vjp, jvp, jacrev, ...). Use backward() or "
                "torch.autograd.grad; it takes batches as they are. torch.func.functional_call is supported."
            )
        if forward_ad.unpack_dual(tensor).tangent is not None:  # type: ignore[no-untyped-call]
            raise NotImplementedError(
                f"{what} has no derivatives in forward mode. Use reverse mode: backward() or torch.autograd.grad."
            )


def is_transformed(tensor: Tensor) -> bool:
    """Whether torch.func, or a backward pass of several cotangents at once, has wrapped the tensor."""
    return any(test(tensor) for test in _TESTS)


def forbid_second_derivatives(
    gradients: tuple[Tensor | None, ...], *inputs: Tensor | None
) -> tuple[Tensor | None, ...]:
    """Return the gradients unchanged; differentiating them by the inputs they were computed from raises.

    torch's ``once_differentiable`` raises in ``backward()`` only: ``torch.autograd.grad`` skips its error and returns
    the part of a second derivative that takes other paths.

    >>> import torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> (slope,) = forbid_second_derivatives((torch.full((1,), 2.0),), x)
    >>> torch.autograd.grad(slope, x)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    NotImplementedError: densefield has no second derivatives: outputs can be differentiated once only. ...
    """
    sources = [tensor for tensor in inputs if tensor is not None and tensor.requires_grad]
    if not torch.is_grad_enabled() or not sources:
        return gradients
    given = [gradient for gradient in gradients if gradient is not None]
    marked = iter(_NoDerivative.apply(len(given), *given, *sources))  # type: ignore[no-untyped-call]
    return tuple(None if gradient is None else next(marked) for gradient in gradients)


class _NoDerivative(torch.autograd.Function):
    """Identity on the first tensors, whose backward raises."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> None:
        raise NotImplementedError(SECOND_DERIVATIVES)
