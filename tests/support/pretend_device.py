"""A pretended device: tensors in the CPU's memory that report another device and refuse to meet tensors of the CPU.

Operations run on the CPU. The device type is "lazy", which every build of torch knows and none of the tests uses.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

DEVICE = torch.device("lazy", 0)


class PretendTensor(torch.Tensor):
    """A tensor that reports DEVICE; `inner` holds its values."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> PretendTensor:
        self: PretendTensor = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=DEVICE
        )
        self.inner = inner.detach()
        return self

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"PretendTensor({self.inner!r})"

    def tolist(self) -> Any:
        """As on other devices: the values are copied to the CPU."""
        return self.inner.tolist()

    def new_tensor(self, data: Any, **options: Any) -> Any:
        """A tensor of the same dtype on DEVICE; torch makes it without a dispatched operation."""
        return PretendTensor(self.inner.new_tensor(data, **options))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class PretendDevice(TorchDispatchMode):
    """While it is active, DEVICE exists: tensors can be made on it and copied to it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The operation on the CPU; the result is on DEVICE if the arguments are, or if it is asked for."""
    tensors = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, torch.Tensor)]
    here = [each for each in tensors if isinstance(each, PretendTensor)]
    there = [each for each in tensors if not isinstance(each, PretendTensor) and each.ndim]
    # In inference mode, to() comes as it was called, with the device as an argument.
    target = kwargs.get("device", next((each for each in args if isinstance(each, torch.device)), None))
    copies = func in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
    if here and there and not copies:
        raise RuntimeError(f"{func}: some tensors are on {DEVICE} and some on the CPU")
    is_here = bool(here) if target is None else torch.device(target) == DEVICE
    args, kwargs = tree_map_only(torch.device, lambda _: torch.device("cpu"), (args, kwargs))
    inner_args, inner_kwargs = tree_map_only(PretendTensor, lambda each: each.inner, (args, kwargs))
    result = func(*inner_args, **inner_kwargs)
    if func is torch.ops.aten.copy_.default:
        return args[0]
    if not is_here:
        return result
    for given in here:  # operations in place return their argument
        if result is given.inner:
            return given
    return tree_map_only(torch.Tensor, PretendTensor, result)


def pretend(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor on DEVICE, as a leaf of its own."""
    return PretendTensor(tensor.detach().clone()).requires_grad_(tensor.requires_grad)


def values(tensor: Any) -> torch.Tensor:
    """The values of a tensor on DEVICE."""
    assert isinstance(tensor, PretendTensor), f"expected a tensor on {DEVICE}, got {type(tensor).__name__}"
    return tensor.inner


def pretend_module(module: torch.nn.Module) -> torch.nn.Module:
    """The module with its parameters on DEVICE, in place."""
    for owner in module.modules():
        for name, parameter in list(owner.named_parameters(recurse=False)):
            moved = pretend(parameter.detach())
            owner._parameters[name] = torch.nn.Parameter(moved, requires_grad=parameter.requires_grad)
    return module
