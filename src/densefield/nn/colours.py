"""Images as tensors: an alpha channel that says nothing, and colours that are not from 0 to 255."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from densefield.crf.image_range import range_problem, warn_of_range
from densefield.nn.kernel_parameters import KernelParameters


def without_alpha(image: Any, channels: int) -> Any:
    """The image (B, C, …) without an alpha that is constant in every item, where it has one channel too many.

    Such a channel makes no difference to distances. Anything else is returned as it is.

    >>> without_alpha(torch.ones(1, 4, 2, 2), channels=3).shape
    torch.Size([1, 3, 2, 2])
    """
    if channels not in (1, 3) or not isinstance(image, Tensor) or image.ndim < 3 or image.shape[1] != channels + 1:
        return image
    if torch.compiler.is_compiling() or not image.numel():
        return image
    alpha = image.detach()[:, -1].flatten(1)
    return image[:, :-1] if bool((alpha == alpha[:, :1]).all()) else image


def warn_of_colours(image: Tensor, kernels: Iterable[KernelParameters], ignore: Tensor | None = None) -> bool:
    """Warns, at the user's call, where the values are probably not from 0 to 255; returns whether it did.

    Bytes are not looked at. Other images take one pass; their smallest and largest value, ignored pixels apart, are
    compared with the smallest width of colours now.

    >>> warn_of_colours(torch.zeros(1, 3, 2, 2, dtype=torch.uint8), [])
    False
    """
    widths = [each.channel_widths() for each in kernels] if image.dtype != torch.uint8 and image.numel() else []
    width = min((float(each.min()) for each in widths if each.size), default=None)
    if width is None:
        return False
    seen_pixels = image.detach()
    if ignore is not None:
        seen_pixels = seen_pixels.movedim(1, -1).expand(*ignore.shape, -1)[~ignore.to(image.device)]
    if not seen_pixels.numel():
        return False
    low, high = (float(value) for value in seen_pixels.aminmax())
    seen = low, high, width, not image.is_floating_point()
    if range_problem(*seen) is None:
        return False
    warn_of_range(*seen)
    return True
