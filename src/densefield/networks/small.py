"""A small network that trains from random weights on a CPU: for synthetic scenes, examples and tests."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, get_args

from torch import Tensor, nn

from densefield.errors import InputError
from densefield.networks.embedding import FINE_STRIDE, EmbeddingHead, checked_embedding
from densefield.networks.inputs import IMAGENET, checked_image, checked_num_classes
from densefield.networks.network import SegmentationNetwork
from densefield.networks.upsampling import Size, upsample_points

Norm = Literal["batch", "group"]

_GROUPS = 8  # of channels, for group normalisation


def small_network(num_classes: int = 11, width: int = 96, norm: Norm = "batch", embedding: int = 0) -> SmallNetwork:
    """A small atrous network with a score for every eighth pixel.

    Parameters
    ----------
    num_classes
        The number of classes.
    width
        Maximum number of channels, a multiple of 32.
    norm
        "batch" for batch normalisation, which learns fastest; "group" for group normalisation, with which an image's
        scores do not depend on the batch or on how processes share it.
    embedding
        Channels of an embedding of every pixel, which the network then returns with the scores; 0 for none.

    >>> import torch
    >>> network = small_network(num_classes=5).eval()
    >>> network(torch.zeros(1, 3, 30, 41)).shape
    torch.Size([1, 5, 30, 41])
    """
    return SmallNetwork(num_classes, width, norm, embedding)


class SmallNetwork(SegmentationNetwork):
    """Three strides of two, then atrous 3×3 convolutions with residual connections."""

    stride = 8
    normalization = IMAGENET
    top_layers: tuple[str, ...] = ("top",)

    def __init__(self, num_classes: int, width: int = 96, norm: Norm = "batch", embedding: int = 0) -> None:
        super().__init__()
        self.num_classes = checked_num_classes(num_classes)
        if isinstance(width, bool) or not isinstance(width, int) or width < 32 or width % 32:
            raise InputError(f"width is {width!r}, expected a multiple of 32.")
        if norm not in get_args(Norm):
            raise InputError(f"norm is {norm!r}, expected one of {', '.join(get_args(Norm))}.")
        widths = (3, width // 4, width // 2, width)
        self.stem = nn.Sequential(*(_layer(here, out, norm, stride=2) for here, out in pairwise(widths)))
        self.blocks = nn.ModuleList([_layer(width, width, norm, dilation=dilation) for dilation in (1, 2, 4, 1)])
        self.top = nn.Conv2d(width, self.num_classes, 1)
        self.embedding = checked_embedding(embedding)
        if embedding:  # after all other layers, so that their random weights are the same without it
            self.embedding_head = EmbeddingHead(widths[1], width, embedding, self.stride // FINE_STRIDE)
            self.top_layers = ("top", "embedding_head")

    def checked(self, image: object) -> Tensor:
        """The image; raises unless it is (B, 3, H, W) with the type and the device of the weights."""
        return checked_image(image, self.top.weight)

    def coarse_scores(self, image: Tensor) -> Tensor:
        """Scores of every eighth pixel, before upsampling."""
        scores: Tensor = self.top(self._fine_and_deep(image)[1])
        return scores

    def coarse_outputs(self, image: Tensor) -> tuple[Tensor, ...]:
        """Scores of every eighth pixel, and the embedding of every second one if there is one."""
        if not self.embedding:
            return super().coarse_outputs(image)
        fine, deep = self._fine_and_deep(image)
        return self.top(deep), self.embedding_head(fine, deep)

    def _fine_and_deep(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs of the first layer, which has stride 2, and of the last block."""
        fine: Tensor = self.stem[0](image)
        x: Tensor = self.stem[1:](fine)
        for block in self.blocks:
            x = x + block(x)
        return fine, x

    def upsample(self, scores: Tensor, size: Size, seen: Size) -> Tensor:
        """Scores (B, L, H, W): score i lies on pixel s·i of the image that was seen."""
        return upsample_points(scores, self.stride, size, seen)


def _layer(channels: int, out: int, norm: Norm, *, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(channels, out, 3, stride=stride, padding=dilation, dilation=dilation, bias=False)
    normalise = nn.BatchNorm2d(out) if norm == "batch" else nn.GroupNorm(_GROUPS, out)
    return nn.Sequential(convolution, normalise, nn.ReLU())
