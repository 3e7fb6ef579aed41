"""The convolutions of VGG-16 (Simonyan and Zisserman), and torchvision's weights for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor, nn

from densefield.io.download import cache_folder, download
from densefield.networks.weights import Weights, checked_weights

WIDTHS = (64, 128, 256, 512, 512)  # channels of the five stages
FULLY_CONNECTED = 4096  # channels of fc6 and fc7
GRID = 7  # fc6 has 7×7 filters

_CONVOLUTIONS = (2, 2, 3, 3, 3)  # of 3×3, in each stage
_URL = "https://download.pytorch.org/models/vgg16-397923af.pth"  # the name has the first digits of the checksum
_SHA256 = "397923af8e79cdbb6a7127f12361acd7a2f83e06b05044ddf496e83de57a5bf0"


def vgg16_features(
    pools: Sequence[nn.Module],  # five, one after each stage
    dilations: Sequence[int] = (1, 1, 1, 1, 1),  # of the convolutions in each stage
    widths: Sequence[int] = WIDTHS,
) -> nn.Sequential:
    """The thirteen convolutions and five poolings, numbered as torchvision numbers them.

    >>> features = vgg16_features([nn.MaxPool2d(2)] * 5)
    >>> [number for number, layer in enumerate(features) if isinstance(layer, nn.Conv2d)]
    [0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28]
    """
    layers: list[nn.Module] = []
    channels = 3
    for count, width, dilation, pool in zip(_CONVOLUTIONS, widths, dilations, pools, strict=True):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=dilation, dilation=dilation), nn.ReLU(inplace=True)]
            channels = width
        layers.append(pool)
    return nn.Sequential(*layers)


def pooled(features: nn.Sequential, image: Tensor) -> list[Tensor]:
    """The output of each pooling; the last one is that of the network.

    >>> import torch
    >>> features = vgg16_features([nn.MaxPool2d(2, ceil_mode=True) for _ in range(5)], widths=(1, 1, 1, 1, 1))
    >>> [tuple(each.shape[2:]) for each in pooled(features, torch.zeros(1, 3, 33, 32))]
    [(17, 16), (9, 8), (5, 4), (3, 2), (2, 1)]
    """
    outputs = []
    for layer in features:
        image = layer(image)
        if isinstance(layer, nn.MaxPool2d):
            outputs.append(image)
    return outputs


def initialise(network: nn.Module) -> None:
    """Initialise convolutions by He et al., biases by 0."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def new_top(channels: int, num_classes: int) -> nn.Conv2d:
    """The layer that computes the scores, with the small random weights of Chen et al."""
    top = nn.Conv2d(channels, num_classes, 1)
    nn.init.normal_(top.weight, std=0.01)
    nn.init.zeros_(top.get_parameter("bias"))
    return top


def imagenet_weights() -> Path:
    """The file of torchvision's weights for ImageNet, 528 MiB, downloaded to the cache if missing."""
    return download(_URL, cache_folder() / _URL.rpartition("/")[2], sha256=_SHA256)


def converted_weights(
    weights: Weights,  # torchvision's: features.*, classifier.*; "imagenet" downloads them
    features: nn.Sequential,
    fc6: nn.Conv2d,
    width: int = FULLY_CONNECTED,  # channels of fc6 and fc7 in the weights
) -> dict[str, Tensor]:
    """Weights for ``features``, ``fc6`` and ``fc7``: fully connected layers as decimated convolutions."""
    shapes = {f"features.{name}": tuple(value.shape) for name, value in features.state_dict().items()}
    shapes |= {
        "classifier.0.weight": (width, fc6.in_channels * GRID**2),
        "classifier.0.bias": (width,),
        "classifier.3.weight": (width, width),
        "classifier.3.bias": (width,),
    }
    if isinstance(weights, str) and weights == "imagenet":
        weights = imagenet_weights()
    given = checked_weights(weights, shapes, ignored=("classifier.6.weight", "classifier.6.bias"))
    step = width // fc6.out_channels
    first = given["classifier.0.weight"].view(width, -1, GRID, GRID)
    second = given["classifier.3.weight"]
    return {name: value for name, value in given.items() if name.startswith("features.")} | {
        "fc6.weight": decimate(first[::step], fc6.kernel_size[0]),
        "fc6.bias": given["classifier.0.bias"][::step],
        "fc7.weight": second[::step, ::step, None, None],
        "fc7.bias": given["classifier.3.bias"][::step],
    }


def decimate(filters: Tensor, size: int) -> Tensor:
    """Filters (…, 7, 7) reduced to size×size evenly spaced taps: 0, 2, 4, 6 or 0, 3, 6.

    >>> import torch
    >>> decimate(torch.arange(49.0).view(7, 7), 3)
    tensor([[ 0.,  3.,  6.],
            [21., 24., 27.],
            [42., 45., 48.]])
    """
    step = (GRID - 1) // (size - 1)
    return filters[..., ::step, ::step]
