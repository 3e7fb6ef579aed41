"""Tensors of another device handed over to native code on the CPU, and results and gradients brought back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

_PINNED = ("cuda", "xpu")  # devices that copy from and to page-locked memory while the CPU goes on


def on_cpu(
    op: Callable[..., Tensor],
    scores: Tensor,
    parts: Sequence[Tensor],
    shapes: Sequence[Tensor],
    weights: Sequence[Tensor],
    present: Tensor | None,
    *fixed: Any,
) -> Tensor:
    """op(scores, parts, …) computed on the CPU, with the result on the device of the scores.

    All tensors are copied together. Gradients are copied to the device of their tensors in the backward pass.
    """
    tensors = [scores, *parts, *shapes, *weights, *([] if present is None else [present])]
    moved = copied(tensors, torch.device("cpu"))
    rest = iter(moved[1:])
    groups = [[next(rest) for _ in group] for group in (parts, shapes, weights)]
    log_q = op(moved[0], *groups, None if present is None else moved[-1], *fixed)
    return copied([log_q], scores.device)[0]


def copied(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """The tensors on a device, with gradients on the devices they came from.

    >>> copied([torch.ones(2)], torch.device("cpu"))[0]
    tensor([1., 1.])
    """
    if torch.compiler.is_compiling():
        return [tensor.to(device) for tensor in tensors]
    return list(_Copies.apply(device, *tensors))  # type: ignore[no-untyped-call]


class _Copies(torch.autograd.Function):
    """Copies of tensors on a device; backward copies the gradients back."""

    @staticmethod
    def forward(ctx: Any, device: torch.device, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.devices = [tensor.device for tensor in tensors]
        ctx.set_materialize_grads(False)
        return tuple(_transfer(tensors, device))

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple[Any, ...]:
        given = [slope for slope in slopes if slope is not None]
        if not given:
            return (None, *slopes)
        source = next(device for device, slope in zip(ctx.devices, slopes, strict=True) if slope is not None)
        back = iter(copied(given, source))
        return (None, *(None if slope is None else next(back) for slope in slopes))


def _transfer(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Copies of tensors of one device on another one; copies to the CPU are complete on return."""
    source = tensors[0].device
    if device.type in _PINNED and source.type == "cpu":
        return [tensor.pin_memory().to(device, non_blocking=True) for tensor in tensors]
    if device.type != "cpu" or source.type not in _PINNED:
        return [tensor.to(device, copy=True) for tensor in tensors]
    buffers = [torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True) for tensor in tensors]
    for buffer, tensor in zip(buffers, tensors, strict=True):
        buffer.copy_(tensor, non_blocking=True)
    getattr(torch, source.type).current_stream(source).synchronize()
    return buffers


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """A context in which operations on the device keep their precision."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)
