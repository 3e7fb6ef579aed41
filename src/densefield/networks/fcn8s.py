"""FCN-8s on VGG-16, the network of CRF-as-RNN."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, relu

from densefield.networks.inputs import IMAGENET, checked_image, checked_num_classes
from densefield.networks.network import SegmentationNetwork
from densefield.networks.upsampling import Size, upsample_cells
from densefield.networks.vgg16 import (
    FULLY_CONNECTED,
    GRID,
    WIDTHS,
    converted_weights,
    initialise,
    new_top,
    pooled,
    vgg16_features,
)
from densefield.networks.weights import Weights


def fcn8s_vgg16(num_classes: int = 21, weights: Weights | None = None) -> FCN8sVGG16:
    """FCN-8s on VGG-16: scores are summed at strides 32, 16 and 8 (Long et al., CVPR 2015).

    Long et al. pad the image by 100 pixels so that fc6 fits into it; here fc6 itself is padded, for less than half of
    the work. Away from the border that is the same network, on a grid shifted by three pixels.

    Parameters
    ----------
    num_classes
        The number of classes.
    weights
        Initial weights: torchvision's vgg16 as a state dict or a file, or "imagenet", which downloads that file once.
        The layers that compute scores are new. By default, all weights are random.

    >>> small = FCN8sVGG16(num_classes=5, widths=(4, 4, 8, 8, 8), fully_connected=16)  # the same with few channels
    >>> small(torch.zeros(1, 3, 33, 50)).shape
    torch.Size([1, 5, 33, 50])
    """
    network = FCN8sVGG16(num_classes)
    if weights is not None:
        network.start_from(weights)
    return network


class FCN8sVGG16(SegmentationNetwork):
    """VGG-16 as a fully convolutional network, with scores from fc7, pool4 and pool3.

    `widths` are the channels of the five stages, `fully_connected` those of fc6 and fc7.
    """

    stride = 8
    normalization = IMAGENET
    top_layers = ("top", "top_pool4", "top_pool3", "double_fc7", "double_pool4")

    def __init__(
        self,
        num_classes: int,
        *,
        widths: Sequence[int] = WIDTHS,
        fully_connected: int = FULLY_CONNECTED,
    ) -> None:
        super().__init__()
        self.num_classes = checked_num_classes(num_classes)
        pools = [nn.MaxPool2d(2, ceil_mode=True) for _ in range(5)]  # position i covers pixels 2i and 2i + 1
        self.features = vgg16_features(pools, widths=widths)
        self.fc6 = nn.Conv2d(widths[4], fully_connected, GRID, padding=GRID // 2)
        self.fc7 = nn.Conv2d(fully_connected, fully_connected, 1)
        self.dropout = nn.Dropout()
        initialise(self)
        self.top = new_top(fully_connected, self.num_classes)
        self.top_pool4 = nn.Conv2d(widths[3], self.num_classes, 1)
        self.top_pool3 = nn.Conv2d(widths[2], self.num_classes, 1)
        for skip in (self.top_pool4, self.top_pool3):  # zero, so that training starts from the coarse network
            for parameter in skip.parameters():
                nn.init.zeros_(parameter)
        self.double_fc7 = Doubling(self.num_classes)
        self.double_pool4 = Doubling(self.num_classes)

    def checked(self, image: object) -> Tensor:
        """The image; raises unless it is (B, 3, H, W) with the type and the device of the weights."""
        return checked_image(image, self.top.weight)

    def coarse_scores(self, image: Tensor) -> Tensor:
        """Scores of squares of 8×8 pixels, before upsampling."""
        _, _, pool3, pool4, pool5 = pooled(self.features, image)
        x = self.dropout(relu(self.fc6(pool5)))
        x = self.dropout(relu(self.fc7(x)))
        scores = self.double_fc7(self.top(x), _size(pool4)) + self.top_pool4(pool4)
        finest: Tensor = self.double_pool4(scores, _size(pool3)) + self.top_pool3(pool3)
        return finest

    def upsample(self, scores: Tensor, size: Size, seen: Size) -> Tensor:
        """Scores (B, L, H, W): score i is the centre of eight pixels of the image that was seen."""
        return upsample_cells(scores, self.stride, size, seen)

    def start_from(self, weights: Weights) -> None:
        """Load the convolutions, fc6 and fc7 from torchvision's vgg16."""
        new = converted_weights(weights, self.features, self.fc6, self.fc6.out_channels)
        self.load_state_dict(self.state_dict() | new)


class Doubling(nn.Module):
    """Upsampling by two with learnt weights, which are bilinear at first.

    >>> Doubling(1)(torch.tensor([[[[0.0, 4.0]]]]), (1, 3)).flatten().tolist()
    [0.0, 1.0, 3.0]
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.transposed = nn.ConvTranspose2d(num_classes, num_classes, 4, stride=2, padding=1, bias=False)
        line = torch.tensor([0.25, 0.75, 0.75, 0.25])
        with torch.no_grad():
            self.transposed.weight.copy_(torch.eye(num_classes)[:, :, None, None] * (line[:, None] * line))

    def forward(
        self,
        scores: Tensor,  # (B, L, h, w)
        size: Size,  # H, W, at most twice h, w
    ) -> Tensor:
        """Scores (B, L, H, W)."""
        padded = pad(scores, (1, 1, 1, 1), mode="replicate")  # otherwise scores fade at the border
        fine: Tensor = self.transposed(padded)
        return fine[..., 2 : 2 + size[0], 2 : 2 + size[1]]


def _size(x: Tensor) -> Size:
    return x.shape[2], x.shape[3]
