"""Inputs of networks: normalisation of images, and checks."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from densefield.errors import InputError, InputTypeError

Triple = tuple[float, float, float]


class InputNormalization(NamedTuple):
    """The normalisation that a network expects: (image - mean) / std by channel.

    Parameters
    ----------
    mean, std
        Mean and standard deviation of each channel, in colours 0…255.

    >>> import torch
    >>> normalize = InputNormalization(mean=(127.0, 127.0, 127.0), std=(128.0, 128.0, 128.0))
    >>> normalize(torch.full((1, 3, 1, 1), 255, dtype=torch.uint8)).flatten().tolist()
    [1.0, 1.0, 1.0]
    """

    mean: Triple
    std: Triple

    @property
    def fill(self) -> tuple[int, int, int]:
        """The mean as a colour of integers 0…255; padding of this colour is about 0 after normalisation."""
        red, green, blue = (min(max(round(value), 0), 255) for value in self.mean)
        return red, green, blue

    def __call__(self, image: Tensor) -> Tensor:
        """Normalise colours 0…255, (…, 3, H, W), integer or floating point."""
        if not isinstance(image, Tensor):
            raise InputTypeError(f"the image is of type {type(image).__name__}, expected a torch tensor (…, 3, H, W).")
        if image.dtype == torch.bool or image.is_complex():
            raise InputTypeError(f"the image has dtype {image.dtype}, expected colours 0…255.")
        if image.ndim < 3 or image.shape[-3] != 3:
            raise InputError(f"the image has shape {tuple(image.shape)}, expected (…, 3, H, W) in the order r, g, b.")
        colours = image if image.is_floating_point() else image.float()
        mean, std = (colours.new_tensor(values).view(3, 1, 1) for values in self)
        return (colours - mean) / std


# Mean and standard deviation of ImageNet's colours, with which torchvision's weights were trained.
IMAGENET = InputNormalization(mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375))


def checked_num_classes(num_classes: object) -> int:
    """The number of classes; raises unless it is a positive integer.

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
    """The image; raises unless it has three channels, finite values, and the dtype and device of the parameter."""
    image = checked_batch(image)
    if image.shape[1] != 3:
        raise InputError(
            f"the image has shape {tuple(image.shape)}, {image.shape[1]} channels, expected (batch, 3, rows, columns) "
            "in the order r, g, b." + _channel_hint(image)
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
    """The image; raises unless it is (B, C, H, W), floating point, with at least one pixel."""
    if not isinstance(image, Tensor):
        raise InputTypeError(
            f"the image is of type {type(image).__name__}, expected a torch tensor (batch, 3, rows, columns)."
        )
    if not image.is_floating_point():
        raise InputTypeError(
            f"the image has dtype {image.dtype}, expected floating point numbers, normalised for the network: "
            "use network.normalization(image)."
        )
    if image.ndim != 4:
        hint = " For a single image use image[None]." if image.ndim == 3 else ""
        raise InputError(f"the image has shape {tuple(image.shape)}, expected (batch, channels, rows, columns).{hint}")
    if image.numel() == 0:
        raise InputError(f"the image has shape {tuple(image.shape)}, expected at least one pixel.")
    return image


def _channel_hint(image: Tensor) -> str:
    if image.shape[1] == 1:
        return " For a grey image use image.expand(-1, 3, -1, -1)."
    if image.shape[1] == 4:
        return " If the fourth is alpha, use image[:, :3]."
    if image.shape[-1] == 3:
        return " They come last: use image.movedim(-1, 1)."
    return ""


def _check_finite(image: Tensor) -> None:
    if image.is_meta or torch.compiler.is_compiling():
        return  # there are no values to check
    values = image.detach()
    # A finite sum means that every value is finite: usually one pass suffices.
    if bool(values.sum().isfinite()):
        return
    wrong = ~values.isfinite()
    if bool(wrong.any()):
        raise InputError(
            f"the image holds NaN or infinity at {int(wrong.sum())} of {wrong.numel()} places, first at "
            f"{tuple(wrong.nonzero()[0].tolist())}: check how it was read and normalised."
        )
