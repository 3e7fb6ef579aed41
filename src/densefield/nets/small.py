"""A small network that trains from nothing on a CPU: for synthetic scenes, examples and tests."""

from __future__ import annotations

from torch import Tensor, nn

from densefield.nets.inputs import checked_image, checked_labels
from densefield.nets.normalization import IMAGENET
from densefield.nets.upsampling import upsample_points

_GROUPS = 8  # of channels that are normalised together


def small_network(labels: int = 11, width: int = 48) -> SmallNetwork:
    """Normalised image (B, 3, H, W) → scores (B, L, H, W), by a score for every fourth pixel.

    ``width``: channels at full depth, a multiple of 16. Groups of channels are normalised within each image, so that
    an image's scores do not depend on the batch it is in.

    >>> import torch
    >>> network = small_network(labels=5)
    >>> network(torch.zeros(1, 3, 30, 41)).shape
    torch.Size([1, 5, 30, 41])
    """
    return SmallNetwork(labels, width)


class SmallNetwork(nn.Module):
    """Two strides of two, then 3×3 convolutions with growing holes, each added to what it was given."""

    stride = 4
    normalization = IMAGENET
    top_layers = ("top",)

    def __init__(self, labels: int, width: int = 48) -> None:
        super().__init__()
        self.labels = checked_labels(labels)
        half = width // 2
        self.stem = nn.Sequential(_layer(3, half, stride=2), _layer(half, width, stride=2))
        self.blocks = nn.ModuleList([_layer(width, width, dilation=dilation) for dilation in (1, 2, 4, 8, 2, 1)])
        self.top = nn.Conv2d(width, self.labels, 1)

    def forward(self, image: Tensor) -> Tensor:
        """Scores (B, L, H, W) of a normalised image (B, 3, H, W)."""
        x = self.stem(checked_image(image, self.top.weight))
        for block in self.blocks:
            x = x + block(x)
        return upsample_points(self.top(x), self.stride, (image.shape[2], image.shape[3]))


def _layer(channels: int, out: int, *, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(channels, out, 3, stride=stride, padding=dilation, dilation=dilation, bias=False)
    return nn.Sequential(convolution, nn.GroupNorm(_GROUPS, out), nn.ReLU())
