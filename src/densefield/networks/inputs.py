"""Checks of what networks are made with and called with."""

from __future__ import annotations

import torch
from torch import Tensor

from densefield.errors import InputError, InputTypeError


def checked_num_classes(num_classes: object) -> int:
    """The number of classes, a positive integer.

    >>> checked_num_classes(21)
    21
    """
    if isinstance(num_classes, bool) or not isinstance(num_classes, int):
        raise InputTypeError(f"num_classes is {num_classes!r}, expected an integer such as 21.")
    if num_classes < 1:
        raise InputError(f"num_classes is {num_classes}, expected 1 or more.")
    return num_classes


def checked_image(
    image: object,  # (B, 3, H, W)
    weight: Tensor,  # any parameter of the network
) -> Tensor:
    """An image that a network with such a parameter can take: normalised, of its dtype, on its device."""
    image = checked_batch(image)
    if image.shape[1] != 3:
        raise InputError(
            f"the image has shape {tuple(image.shape)}, {image.shape[1]} channels, expected (batch, 3, rows, columns) "
            "in the order r, g, b." + _cure_for_channels(image)
        )
    if image.device != weight.device:
        raise InputError(f"the image is on {image.device}, but the network is on {weight.device}: move one of them.")
    if image.dtype != weight.dtype and not torch.is_autocast_enabled(image.device.type):
        raise InputTypeError(
            f"the image has dtype {image.dtype}, but the network's weights have {weight.dtype}: use "
            f"image.to({weight.dtype})."
        )
    _check_finite(image)
    return image


def checked_batch(image: object) -> Tensor:
    """An image (B, C, H, W) of floating point numbers with at least one pixel."""
    if not isinstance(image, Tensor):
        raise InputTypeError(
            f"the image is a {type(image).__name__}, expected a torch tensor (batch, 3, rows, columns)."
        )
    if not image.is_floating_point():
        raise InputTypeError(
            f"the image has dtype {image.dtype}, expected floating point numbers, normalised as the network wants it: "
            "use network.normalization(image)."
        )
    if image.ndim != 4:
        hint = " For a single image use image[None]." if image.ndim == 3 else ""
        raise InputError(f"the image has shape {tuple(image.shape)}, expected (batch, channels, rows, columns).{hint}")
    if image.numel() == 0:
        raise InputError(f"the image has shape {tuple(image.shape)}, expected at least one pixel.")
    return image


def check_enough_values(image: Tensor, values: int) -> None:
    """Raises if batch normalisation is to be trained on one value per channel, of which no variance can be taken."""
    if values < 2:
        raise InputError(
            f"the image has shape {tuple(image.shape)}, which leaves batch normalisation one value per channel to "
            "learn from: use a larger image or batch, or network.eval()."
        )


def _cure_for_channels(image: Tensor) -> str:
    if image.shape[1] == 1:
        return " For a grey image use image.expand(-1, 3, -1, -1)."
    if image.shape[1] == 4:
        return " If the fourth is alpha, use image[:, :3]."
    if image.shape[-1] == 3:
        return " They come last: use image.movedim(-1, 1)."
    return ""


def _check_finite(image: Tensor) -> None:
    if image.is_meta or torch.compiler.is_compiling():
        return  # there are no values to look at
    values = image.detach()
    # The sum is finite only if every value is; most of the time one pass settles it.
    if bool(values.sum().isfinite()):
        return
    wrong = ~values.isfinite()
    if bool(wrong.any()):
        raise InputError(
            f"the image holds NaN or infinity at {int(wrong.sum())} of {wrong.numel()} places, first at "
            f"{tuple(wrong.nonzero()[0].tolist())}: check how it was read and normalised."
        )
