"""Ways of torch to run a function that native filters cannot follow, and what to use instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

# torch.func hands over tensors that are wrapped, without memory of their own. The tests for it have no public names.
_functorch: Any = getattr(torch._C, "_functorch", None)
_TESTS = [
    getattr(_functorch, name)
    for name in ("is_functorch_wrapped_tensor", "is_legacy_batchedtensor")
    if hasattr(_functorch, name)
]


def check_torch_mode(what: str, tensors: Iterable[object]) -> None:
    """Raises NotImplementedError, with the cure, under transforms that would fail later, or be wrong without a word.

    * ``what``: what is called, such as "DenseCRF".
    * ``tensors``: its arguments; what is no tensor is passed over.

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
