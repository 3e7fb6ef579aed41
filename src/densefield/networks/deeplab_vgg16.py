"""DeepLab on the 16-layer VGG network: the network of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from torch import Tensor, nn
from torch.nn.functional import relu

from densefield.errors import InputError
from densefield.networks.inputs import checked_image, checked_num_classes
from densefield.networks.normalization import IMAGENET
from densefield.networks.upsampling import upsample_points
from densefield.networks.vgg16 import FULLY_CONNECTED, WIDTHS, converted_weights, initialise, new_top, vgg16_features
from densefield.networks.weights import Weights

FC6 = Literal["7x7", "4x4", "3x3", "large-fov"]


class _Shape(NamedTuple):
    size: int
    dilation: int
    share: int  # one of so many channels is kept


# Chen et al., ICLR 2015, table 2, and the 3×3 of its text. On the strided network's grid fc6 has dilation 1, hence 4.
_SHAPES: dict[str, _Shape] = {
    "7x7": _Shape(7, 4, 1),
    "4x4": _Shape(4, 4, 1),
    "3x3": _Shape(3, 4, 1),
    "large-fov": _Shape(3, 12, 4),
}


def deeplab_vgg16(num_classes: int = 21, fc6: FC6 = "7x7", weights: Weights | None = None) -> DeepLabVGG16:
    """Normalised image (B, 3, H, W) → scores (B, L, H, W), by a score for every eighth pixel (paper, Experiments).

    * ``fc6``: how the first fully connected layer looks at its neighbourhood: "7x7" (134 million parameters for 21
      labels), "4x4" (65), "3x3" (50), or "large-fov" (20.5), the 3×3 with dilation 12 and 1024 channels.
    * ``weights``: where to start from: torchvision's vgg16 as a state dict or the name of its file, or "imagenet",
      which downloads that file once. fc6 is decimated from its 7×7 filters, and the top layer is new.

    >>> import torch
    >>> network = deeplab_vgg16(num_classes=2, fc6="large-fov").eval()
    >>> image = network.normalization(torch.randint(256, (1, 3, 20, 30)))
    >>> network(image).shape
    torch.Size([1, 2, 20, 30])
    """
    network = DeepLabVGG16(num_classes, fc6)
    if weights is not None:
        network.start_from(weights)
    return network


class DeepLabVGG16(nn.Module):
    """VGG-16 with holes: the last two poolings keep the resolution, later convolutions are dilated by 2 and 4.

    It computes exactly what the network with all its strides computes, at four times as many rows and columns. To that
    end the last pooling has holes as well, which it has not in the network of Chen et al.

    ``widths`` and ``fully_connected`` are the channels of the five stages and of fc6 and fc7 before decimation.
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
        if fc6 not in _SHAPES:
            raise InputError(f"fc6 is {fc6!r}, expected one of {', '.join(_SHAPES)}.")
        self.num_classes = checked_num_classes(num_classes)
        self._fully_connected = fully_connected
        size, dilation, share = _SHAPES[fc6]
        channels = fully_connected // share
        # Of odd size and symmetric, so that score i lies on pixel 8·i; the ceiling keeps what is left at the far edge.
        pools: list[nn.Module] = [nn.MaxPool2d(3, 2, padding=1, ceil_mode=True) for _ in range(3)]
        # The last one follows a pooling whose stride was left out, so it has holes as the convolutions have. Torch does
        # not pad it by two; zeros do as well as -∞, since nothing after a rectifier is below them.
        pools += [nn.MaxPool2d(3, 1, padding=1), nn.Sequential(nn.ZeroPad2d(2), nn.MaxPool2d(3, 1, dilation=2))]
        self.features = vgg16_features(pools, dilations=(1, 1, 1, 1, 2), widths=widths)
        self.fc6 = nn.Conv2d(widths[-1], channels, size, padding=dilation * (size - 1) // 2, dilation=dilation)
        self.fc7 = nn.Conv2d(channels, channels, 1)
        self.dropout = nn.Dropout()
        initialise(self)
        self.top = new_top(channels, self.num_classes)

    def forward(self, image: Tensor) -> Tensor:
        """Scores (B, L, H, W) of a normalised image (B, 3, H, W)."""
        scores = self.coarse_scores(checked_image(image, self.top.weight))
        return upsample_points(scores, self.stride, (image.shape[2], image.shape[3]))

    def coarse_scores(self, image: Tensor) -> Tensor:
        """Scores before upsampling: of the pixels in rows and columns 0, 8, 16, …; 40×40 for an image of 306×306."""
        x = self.features(image)
        x = self.dropout(relu(self.fc6(x)))
        x = self.dropout(relu(self.fc7(x)))
        scores: Tensor = self.top(x)
        return scores

    def start_from(self, weights: Weights) -> None:
        """Takes all layers but the top from torchvision's vgg16."""
        new = converted_weights(weights, self.features, self.fc6, self._fully_connected)
        self.load_state_dict(self.state_dict() | new)
