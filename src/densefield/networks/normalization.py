"""What a network wants done to the colours 0…255 of an image before it sees them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from densefield.errors import InputError, InputTypeError

Triple = tuple[float, float, float]


class Normalization(NamedTuple):
    """(image - mean) / std by channel, with mean and std in colours 0…255; the CRF keeps the colours themselves.

    >>> import torch
    >>> normalize = Normalization(mean=(127.0, 127.0, 127.0), std=(128.0, 128.0, 128.0))
    >>> normalize(torch.full((1, 3, 1, 1), 255, dtype=torch.uint8)).flatten().tolist()
    [1.0, 1.0, 1.0]
    """

    mean: Triple
    std: Triple

    @property
    def fill(self) -> tuple[int, int, int]:
        """The mean as a colour of integers 0…255: padding of this colour is about 0 for the network."""
        red, green, blue = (min(max(round(value), 0), 255) for value in self.mean)
        return red, green, blue

    def __call__(self, image: Tensor) -> Tensor:
        """Colours (…, 3, H, W) in whole or floating point numbers as what the network takes, of the same shape."""
        if not isinstance(image, Tensor):
            raise InputTypeError(f"the image is a {type(image).__name__}, expected a torch tensor (…, 3, H, W).")
        if image.dtype == torch.bool or image.is_complex():
            raise InputTypeError(f"the image has dtype {image.dtype}, expected colours 0…255.")
        if image.ndim < 3 or image.shape[-3] != 3:
            raise InputError(f"the image has shape {tuple(image.shape)}, expected (…, 3, H, W) in the order r, g, b.")
        colours = image if image.is_floating_point() else image.float()
        mean, std = (colours.new_tensor(values).view(3, 1, 1) for values in self)
        return (colours - mean) / std


# The mean and deviation of ImageNet's colours, which the weights of torchvision were trained with.
IMAGENET = Normalization(mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375))
