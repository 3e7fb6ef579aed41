from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn.functional import interpolate  # noqa: E402

from densefield.networks.fcn8s import Doubling, FCN8sVGG16  # noqa: E402
from densefield.networks.vgg16 import pooled  # noqa: E402

FEW = {"widths": (2, 3, 3, 3, 4), "fully_connected": 8}


@pytest.fixture
def network():
    torch.manual_seed(51803)
    return FCN8sVGG16(3, **FEW).double().eval()


def test_the_number_of_parameters_is_that_of_vgg16_and_the_layers_of_scores():
    with torch.device("meta"):
        network = FCN8sVGG16(21)
    vgg16 = 138_357_544 - 4097 * 1000  # torchvision's, without its last layer
    scores = 4097 * 21 + 513 * 21 + 257 * 21
    assert sum(parameter.numel() for parameter in network.parameters()) == vgg16 + scores + 2 * 21 * 21 * 16


def test_upsampling_is_initially_bilinear():
    scores = torch.randn(2, 3, 5, 7, generator=torch.Generator().manual_seed(1234577))
    expected = interpolate(scores, scale_factor=2, mode="bilinear", align_corners=False)
    with torch.no_grad():
        torch.testing.assert_close(Doubling(3)(scores, (10, 14)), expected, rtol=0, atol=1e-6)  # float32
        torch.testing.assert_close(Doubling(3)(scores, (9, 13)), expected[..., :9, :13], rtol=0, atol=1e-6)


def test_upsampling_is_learnt():
    doubling = Doubling(2)
    doubling(torch.ones(1, 2, 3, 3), (6, 6))[:, 0].sum().backward()
    assert doubling.transposed.weight.grad[1, 0].any()  # from class 1 to class 0, which is zero initially


@torch.no_grad()
def test_initial_scores_are_those_of_fc7(network):
    image = torch.randn(1, 3, 64, 96, dtype=torch.float64, generator=torch.Generator().manual_seed(83))
    x = pooled(network.features, image)[-1]
    scores = network.top(torch.relu(network.fc7(torch.relu(network.fc6(x)))))
    for factor in (2, 2, 8):
        scores = interpolate(scores, scale_factor=factor, mode="bilinear", align_corners=False)
    torch.testing.assert_close(network(image), scores, rtol=1e-12, atol=1e-14)


@torch.no_grad()
@pytest.mark.parametrize(("layer", "place", "stride"), [("top_pool4", 3, 16), ("top_pool3", 2, 8)])
def test_a_skip_connection_adds_its_scores(network, layer, place, stride):
    image = torch.randn(1, 3, 64, 96, dtype=torch.float64, generator=torch.Generator().manual_seed(47))
    without = network(image)
    for parameter in getattr(network, layer).parameters():
        parameter.normal_()
    skip = getattr(network, layer)(pooled(network.features, image)[place])
    while stride > 8:
        skip, stride = interpolate(skip, scale_factor=2, mode="bilinear", align_corners=False), stride // 2
    skip = interpolate(skip, scale_factor=8, mode="bilinear", align_corners=False)
    torch.testing.assert_close(network(image), without + skip, rtol=1e-11, atol=1e-12)


@torch.no_grad()
def test_scores_are_translation_equivariant(network):
    for parameter in network.parameters():
        if parameter.ndim == 1:
            parameter.uniform_(-0.1, 0.3)
    network.top_pool3.weight.normal_()
    image = torch.randn(1, 3, 576, 576, dtype=torch.float64, generator=torch.Generator().manual_seed(6113))
    moved, full = network(image[:, :, 32:, 32:]), network(image)[:, :, 32:, 32:]
    # The reach of padding: 2 + 4 + 12 + 24 + 48 of the convolutions, 96 of fc6, 31 of the poolings, and then 31 of
    # the upsampling.
    reach = 2 + 4 + 12 + 24 + 48 + 96 + 31 + 31
    inner = (slice(None), slice(None), slice(reach, -reach), slice(reach, -reach))
    assert full[inner].numel() > 3000 and full[inner].std() > 1e-3
    torch.testing.assert_close(moved[inner], full[inner], rtol=1e-11, atol=1e-12)
