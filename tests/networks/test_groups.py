from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from densefield.errors import InputError, InputTypeError  # noqa: E402
from densefield.networks.adapter import as_network  # noqa: E402
from densefield.networks.deeplab import DeepLabEfficientNetLite0, DeepLabVGG16  # noqa: E402
from densefield.networks.fcn8s import FCN8sVGG16  # noqa: E402
from densefield.networks.groups import parameter_groups  # noqa: E402

FEW = {"widths": (2, 2, 2, 2, 2), "fully_connected": 8}
MAKE = {
    "deeplab": lambda: DeepLabVGG16(3, **FEW),
    "fcn8s": lambda: FCN8sVGG16(3, **FEW),
    "lite0": lambda: DeepLabEfficientNetLite0(3),
}


@pytest.fixture(params=MAKE)
def network(request):
    return MAKE[request.param]()


def names_of(network, group):
    known = {parameter: name for name, parameter in network.named_parameters()}
    return {known[parameter] for parameter in group["params"]}


def test_every_parameter_is_in_one_group(network):
    groups = parameter_groups(network)
    members = [parameter for group in groups for parameter in group["params"]]
    assert len(members) == len(set(members)) == len(list(network.parameters()))


def test_learning_rates_are_those_of_the_paper():
    groups = {group["name"]: group for group in parameter_groups(DeepLabVGG16(3, **FEW))}
    assert {name: (group["lr"], group["weight_decay"]) for name, group in groups.items()} == {
        "top": (0.01, 0.0005),
        "top biases": (0.02, 0.0),
        "rest": (0.001, 0.0005),
        "rest biases": (0.002, 0.0),
    }


def test_groups_are_formed_by_name():
    network = DeepLabVGG16(3, **FEW)
    groups = {group["name"]: names_of(network, group) for group in parameter_groups(network)}
    assert groups["top"] == {"top.weight"}
    assert groups["top biases"] == {"top.bias"}
    assert {"features.0.weight", "fc6.weight", "fc7.weight"} <= groups["rest"]
    assert {"features.28.bias", "fc6.bias", "fc7.bias"} <= groups["rest biases"]
    assert len(groups["rest"]) == len(groups["rest biases"]) == 15


def test_the_top_layers_are_those_without_imagenet_weights(network):
    (top,) = (group for group in parameter_groups(network) if group["name"] == "top")
    assert all(name.startswith(network.top_layers) for name in names_of(network, top))
    rest = [name for group in parameter_groups(network) if "rest" in group["name"] for name in names_of(network, group)]
    assert {name.partition(".")[0] for name in rest} <= {"features", "fc6", "fc7"}


def test_an_optimiser_uses_the_learning_rate_of_each_group(network):
    groups = parameter_groups(network, learning_rate=0.125, top_factor=4, bias_factor=2, weight_decay=0.0)
    before = [parameter.detach().clone() for group in groups for parameter in group["params"]]
    optimizer = torch.optim.SGD(groups)
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    after = [(parameter, group["lr"]) for group in groups for parameter in group["params"]]
    assert {group["lr"] for group in groups} == {0.125, 0.25, 0.5, 1.0}
    for old, (new, rate) in zip(before, after, strict=True):
        torch.testing.assert_close(old - new.detach(), torch.full_like(old, rate), rtol=1e-5, atol=1e-6)  # float32


def test_frozen_parameters_are_excluded():
    network = DeepLabVGG16(3, **FEW)
    for parameter in network.features.parameters():
        parameter.requires_grad_(False)
    names = [name for group in parameter_groups(network) for name in names_of(network, group)]
    assert sorted(names) == ["fc6.bias", "fc6.weight", "fc7.bias", "fc7.weight", "top.bias", "top.weight"]


def test_top_layers_of_other_modules_are_given_by_name():
    network = as_network(nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.Conv2d(4, 2, 1)))
    groups = {group["name"]: names_of(network, group) for group in parameter_groups(network, top=["module.1"])}
    assert groups == {"top": {"module.1.weight"}, "top biases": {"module.1.bias"}, "rest": {"module.0.weight"}}


def test_a_module_with_unknown_top_layers_raises_and_lists_its_layers():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 1))
    with pytest.raises(InputError, match=r"layers of Sequential.*top=\[…\].*0, 1"):
        parameter_groups(network)


def test_an_unknown_top_layer_raises():
    with pytest.raises(InputError, match=r"top has 'classifier', which has no parameters; .*fc6, fc7, top"):
        parameter_groups(DeepLabVGG16(3, **FEW), top=["classifier"])


def test_layer_names_match_only_completely():
    with pytest.raises(InputError, match="top has 'to'"):
        parameter_groups(DeepLabVGG16(3, **FEW), top=["to"])


def test_a_single_name_must_be_in_a_list():
    with pytest.raises(InputTypeError, match=r"use \['top'\]"):
        parameter_groups(DeepLabVGG16(3, **FEW), top="top")


def test_an_object_that_is_not_a_module_raises():
    with pytest.raises(InputTypeError, match=r"expected a torch.nn.Module"):
        parameter_groups([torch.zeros(1)])


@pytest.mark.parametrize("name", ["learning_rate", "top_factor", "bias_factor", "weight_decay"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_invalid_rates_raise(name, value):
    with pytest.raises(InputError, match=f"{name} is .*not negative"):
        parameter_groups(DeepLabVGG16(3, **FEW), **{name: value})
