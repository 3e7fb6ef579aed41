"""Checks of the sizes and parameters of a module, and parameters by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import SupportsIndex

import torch
from torch import Tensor, nn

from densefield.crf.compatibility import MOST_WEIGHT
from densefield.crf.kernels import MOST_WIDTH
from densefield.errors import InputError
from densefield.nn.kernel_parameters import META_CURE, KernelParameters


def matching_parameters(module: nn.Module, patterns: Sequence[str]) -> list[nn.Parameter]:
    """The parameters whose names match a shell-style pattern; each pattern must match at least one.

    >>> [tuple(found.shape) for found in matching_parameters(nn.Linear(2, 3), ["b*"])]
    [(3,)]
    """
    known = dict(module.named_parameters())
    matched: list[nn.Parameter] = []
    for pattern in patterns or ("",):
        found = [parameter for name, parameter in known.items() if fnmatchcase(name, pattern)]
        if not found:
            close = difflib.get_close_matches(pattern, known, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise InputError(f"no parameter is called {pattern!r}, expected one of {', '.join(known)}; or '*'.{hint}")
        matched += found
    return matched


def check_parameters(
    kernels: Mapping[str, KernelParameters],
    shapes: Sequence[Tensor],
    weights: Sequence[Tensor],
    dtype: torch.dtype,
) -> None:
    """Raises, with the parameter's name, if a width is 0, or a width or weight is not finite or too large."""
    divisors = [1 / (shape if shape.ndim == 1 else shape.diagonal()).detach() for shape in shapes]
    # Relative to their limits all are within ±1, except NaN.
    numbers = [each.detach().flatten() / MOST_WIDTH for each in shapes]
    numbers += [each.detach().flatten() / MOST_WEIGHT for each in weights]
    numbers += [torch.where(each.to(dtype).isfinite(), 0.0, torch.inf) for each in divisors]
    if not numbers or bool((torch.cat([each.to(dtype) for each in numbers]).abs() <= 1).all()):
        return
    for kernel, parameters in kernels.items():
        for name, parameter in parameters.named_parameters():
            value = parameters.value(name).detach().to(dtype)
            most = MOST_WEIGHT if name in ("log_weight", "matrix") else MOST_WIDTH
            good = (value.abs() <= most) & ((value != 0) | (name not in ("log_sigma", "log_diagonal")))
            if bool(good.all()):
                continue
            what = f", which stands for {value[~good][0].item():g}" if name.startswith("log_") else ""
            raise InputError(
                f"the parameter {kernel}.{name} holds {parameter.detach()[~good][0].item():g}{what}: expected finite "
                f"numbers, no width of 0, and none beyond {most:g}. Lower the learning rate, and restore an earlier "
                "checkpoint, or call crf.reset_parameters()."
            )


def check_devices(kernels: Mapping[str, KernelParameters], device: torch.device) -> None:
    """Raises if a parameter is not on the device of the scores, or that device holds no values."""
    for kernel, parameters in kernels.items():
        for name, parameter in parameters.named_parameters():
            if parameter.device == device:
                continue
            if parameter.is_meta:
                raise InputError(f"the parameter {kernel}.{name} is on the meta device and has no value: {META_CURE}")
            raise InputError(
                f"the parameter {kernel}.{name} is on {parameter.device}, but the scores are on {device}: use "
                f"crf.to({str(device)!r})."
            )
    if device.type == "meta":
        raise InputError("the scores are on the meta device, where tensors have no values: move them to another.")


def checked_size(size: object, name: str) -> int:
    """A number of classes, channels or axes.

    >>> checked_size(21, "num_classes")
    21
    """
    if isinstance(size, bool) or not isinstance(size, SupportsIndex) or size.__index__() < 1:
        raise InputError(f"{name} is {size!r}, expected an integer, 1 or more.")
    return size.__index__()
