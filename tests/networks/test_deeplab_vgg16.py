from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import linear, relu  # noqa: E402

from densefield.errors import InputError  # noqa: E402
from densefield.networks.deeplab import DeepLabVGG16  # noqa: E402
from densefield.networks.vgg16 import vgg16_features  # noqa: E402
from tests.support.torchvision_weights import FEW, torchvision_weights  # noqa: E402


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(61027)


@pytest.mark.parametrize("fc6", ["7x7", "4x4", "3x3", "large-fov"])
def test_306_pixels_become_40_scores_and_are_upsampled_to_306(fc6):
    with torch.device("meta"):  # only shapes, with all channels
        network = DeepLabVGG16(21, fc6)
        image = torch.empty(1, 3, 306, 306)
    assert network.coarse_scores(image).shape == (1, 21, 40, 40)
    assert network(image).shape == (1, 21, 306, 306)


def test_poolings_halve_306_to_154_78_and_40():
    network = DeepLabVGG16(2, **FEW)
    sizes, x = [], torch.zeros(1, 3, 306, 306)
    for layer in network.features:
        x = layer(x)
        if isinstance(layer, nn.MaxPool2d | nn.Sequential):
            sizes.append(tuple(x.shape[2:]))
    assert sizes == [(154, 154), (78, 78), (40, 40), (40, 40), (40, 40)]


@pytest.mark.parametrize(
    ("fc6", "millions"),
    # 134.3, 65.1 and 20.5 are those of Chen et al., table 2.
    [("7x7", 134.3), ("4x4", 65.1), ("3x3", 50.5), ("large-fov", 20.5)],
)
def test_the_number_of_parameters_matches_chen_et_al(fc6, millions):
    with torch.device("meta"):
        network = DeepLabVGG16(21, fc6)
    assert round(sum(parameter.numel() for parameter in network.parameters()) / 1e6, 1) == millions


class Strided(nn.Module):
    """The original strided VGG-16: all five poolings have stride 2, and nothing is dilated."""

    def __init__(self, other):
        super().__init__()
        pools = [nn.MaxPool2d(3, 2, padding=1, ceil_mode=True) for _ in range(5)]
        self.features = vgg16_features(pools, widths=FEW["widths"])
        self.fc6 = nn.Conv2d(other.fc6.in_channels, other.fc6.out_channels, 7, padding=3)
        self.fc7 = nn.Conv2d(other.fc7.in_channels, other.fc7.out_channels, 1)
        self.top = nn.Conv2d(other.top.in_channels, other.top.out_channels, 1)
        self.double().load_state_dict(other.state_dict())

    def forward(self, image):
        return self.top(relu(self.fc7(relu(self.fc6(self.features(image))))))


@pytest.fixture(scope="module")
def atrous():
    torch.manual_seed(55021)
    network = DeepLabVGG16(3, "7x7", **FEW).double().eval()
    with torch.no_grad():
        for parameter in network.parameters():  # initial biases are zero, which would hide wrong padding
            if parameter.ndim == 1:
                parameter.uniform_(-0.1, 0.3)
        network.top.weight.normal_()  # initial weights are small, and so would be differences
    return network


# Scores of pixels further than this from the border do not depend on padding: the sum of the reach of the convolutions
# and poolings of each stage to one side, times their stride, and fc6's three positions at stride 32.
REACH = (2 + 1) * 1 + (2 + 1) * 2 + (3 + 1) * 4 + (3 + 1) * 8 + (3 + 1) * 16 + 3 * 32


@pytest.fixture(scope="module")
def scored(atrous):
    """An image, and the scores of its pixels 0, 8, 16, …"""
    image = torch.randn(1, 3, 536, 536, dtype=torch.float64, generator=torch.Generator().manual_seed(904423))
    with torch.no_grad():
        return image, atrous.coarse_scores(image)


@torch.no_grad()
@pytest.mark.parametrize("down", range(4))
@pytest.mark.parametrize("right", range(4))
def test_the_atrous_network_equals_the_strided_one_on_shifted_images(atrous, scored, down, right):
    image, dense = scored
    size = image.shape[2]
    shifted = Strided(atrous)(image[:, :, 8 * down :, 8 * right :])  # of pixels 8·down + 0, 32, 64, …
    first, last = -(-REACH // 32), (size - 1 - REACH - 24) // 32  # positions that see no border
    assert last - first >= 2
    for row in range(first, last + 1):
        for column in range(first, last + 1):
            found = dense[0, :, 4 * row + down, 4 * column + right]
            # The same float64 sums, perhaps in another order.
            torch.testing.assert_close(found, shifted[0, :, row, column], rtol=1e-11, atol=1e-12)
    assert dense.std() > 0.01


@torch.no_grad()
@pytest.mark.parametrize("size", [(1, 1), (33, 65), (97, 161)])
def test_every_fourth_score_equals_the_strided_network_away_from_the_border(atrous, size):
    # Sizes 32n + 1, at which neither network has a position beyond the last pixel.
    image = torch.randn(2, 3, *size, dtype=torch.float64, generator=torch.Generator().manual_seed(118013))
    torch.testing.assert_close(
        atrous.coarse_scores(image)[:, :, ::4, ::4], Strided(atrous)(image), rtol=1e-11, atol=1e-12
    )


@torch.no_grad()
def test_scores_are_translation_equivariant(atrous):
    size, reach = 520, REACH + 8
    image = torch.randn(1, 3, size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(6110))
    moved = atrous(image[:, :, 8:, 16:])
    full = atrous(image)[:, :, 8:, 16:]
    inner = (slice(None), slice(None), slice(reach, -reach), slice(reach, -reach))
    assert full[inner].numel() > 3000
    # Bilinear weights of float64 pixel positions round to about 1e-13.
    torch.testing.assert_close(moved[inner], full[inner], rtol=1e-9, atol=1e-10)


def test_fully_connected_layers_become_convolutions():
    weights = torchvision_weights()
    network = DeepLabVGG16(3, "7x7", **FEW)
    network.start_from(weights)
    x = torch.randn(2, 4, 7, 7)
    flat = relu(linear(x.flatten(1), weights["classifier.0.weight"], weights["classifier.0.bias"]))
    flat = linear(flat, weights["classifier.3.weight"], weights["classifier.3.bias"])
    fc6 = torch.nn.functional.conv2d(x, network.fc6.weight, network.fc6.bias)
    torch.testing.assert_close(network.fc7(relu(fc6))[:, :, 0, 0], flat, rtol=1e-4, atol=1e-3)  # float32, sums of 196


def test_convolutions_are_loaded_unchanged_and_the_top_is_new():
    weights = torchvision_weights()
    network = DeepLabVGG16(3, "7x7", **FEW)
    top = network.top.weight.clone()
    network.start_from(weights)
    for name, value in network.features.state_dict().items():
        assert torch.equal(value, weights[f"features.{name}"])
    assert torch.equal(network.top.weight, top)


@pytest.mark.parametrize(
    ("fc6", "taps", "channels"),
    [
        ("7x7", [0, 1, 2, 3, 4, 5, 6], range(8)),
        ("4x4", [0, 2, 4, 6], range(8)),
        ("3x3", [0, 3, 6], range(8)),
        ("large-fov", [0, 3, 6], [0, 4]),
    ],
)
def test_decimation_keeps_evenly_spaced_taps_and_channels(fc6, taps, channels):
    weights = torchvision_weights()
    network = DeepLabVGG16(3, fc6, **FEW)
    network.start_from(weights)
    filters = weights["classifier.0.weight"].reshape(8, 4, 7, 7)
    assert network.fc6.weight.shape == (len(channels), 4, len(taps), len(taps))
    for o, channel in enumerate(channels):
        for y, row in enumerate(taps):
            for x, column in enumerate(taps):
                assert torch.equal(network.fc6.weight[o, :, y, x], filters[channel, :, row, column])
        assert network.fc6.bias[o] == weights["classifier.0.bias"][channel]
        for i, before in enumerate(channels):
            assert network.fc7.weight[o, i, 0, 0] == weights["classifier.3.weight"][channel, before]
        assert network.fc7.bias[o] == weights["classifier.3.bias"][channel]


def test_taps_of_the_large_field_of_view_keep_their_places_in_the_full_filter():
    full, large = DeepLabVGG16(1, "7x7", **FEW).fc6, DeepLabVGG16(1, "large-fov", **FEW).fc6
    offsets = [
        [layer.dilation[0] * tap - layer.padding[0] for tap in range(layer.kernel_size[0])] for layer in (full, large)
    ]
    assert offsets[1] == offsets[0][::3] == [-12, 0, 12]


def test_dropout_is_active_only_in_training():
    network = DeepLabVGG16(3, "7x7", **FEW)
    image = torch.randn(1, 3, 40, 40)
    assert not torch.equal(network.train()(image), network(image))
    assert torch.equal(network.eval()(image), network(image))


def test_an_unknown_fc6_raises():
    with pytest.raises(InputError, match="fc6 is '5x5', expected one of 7x7, 4x4, 3x3, large-fov"):
        DeepLabVGG16(21, "5x5")
