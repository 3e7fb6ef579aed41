"""Parameter groups for optimisers: the top layers, the rest, and the biases of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from densefield.errors import InputError, InputTypeError


def parameter_groups(
    network: nn.Module,
    *,
    top: Sequence[str] | None = None,
    learning_rate: float = 0.001,
    top_factor: float = 10.0,
    bias_factor: float = 2.0,
    weight_decay: float = 0.0005,
) -> list[dict[str, Any]]:
    """Groups for an optimiser, each with its ``name``, ``params``, ``lr`` and ``weight_decay`` (paper, Experiments).

    The defaults are the paper's: 0.01 for the top layer, 0.001 for all others. As usual in Caffe, in which Chen et al.
    trained, biases learn twice as fast and do not decay. Frozen parameters are in no group.

    Parameters
    ----------
    network
        The network.
    top
        Names of the top layers, by default ``network.top_layers``.
    learning_rate
        The learning rate of all layers but the top.
    top_factor, bias_factor
        Factors of the learning rate of the top layers, and of biases.
    weight_decay
        The weight decay of all parameters but biases.

    >>> import torch
    >>> network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 21, 1))
    >>> groups = parameter_groups(network, top=["2"])
    >>> [(group["name"], group["lr"]) for group in groups]
    [('top', 0.01), ('top biases', 0.02), ('rest', 0.001), ('rest biases', 0.002)]
    >>> optimizer = torch.optim.SGD(groups, momentum=0.9)
    """
    rates = {"learning_rate": learning_rate, "top_factor": top_factor, "bias_factor": bias_factor}
    for name, value in {**rates, "weight_decay": weight_decay}.items():
        if not 0 <= value < float("inf"):
            raise InputError(f"{name} is {value!r}, expected a number that is not negative.")
    layers = _checked_top(network, top)
    top_rate = learning_rate * top_factor
    groups: dict[str, dict[str, Any]] = {
        "top": {"lr": top_rate, "weight_decay": weight_decay},
        "top biases": {"lr": top_rate * bias_factor, "weight_decay": 0.0},
        "rest": {"lr": learning_rate, "weight_decay": weight_decay},
        "rest biases": {"lr": learning_rate * bias_factor, "weight_decay": 0.0},
    }
    members: dict[str, list[nn.Parameter]] = {name: [] for name in groups}
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            place = "top" if _lies_in(name, layers) else "rest"
            members[place + (" biases" if name.rpartition(".")[2] == "bias" else "")].append(parameter)
    return [{"name": name, "params": members[name], **groups[name]} for name in groups if members[name]]


def _checked_top(network: nn.Module, top: Sequence[str] | None) -> Sequence[str]:
    if not isinstance(network, nn.Module):
        raise InputTypeError(f"network is {network!r}, expected a torch.nn.Module.")
    if isinstance(top, str):
        raise InputTypeError(f"top is {top!r}, expected a list of names: use [{top!r}].")
    layers = getattr(network, "top_layers", None) if top is None else top
    if layers is None:
        raise InputError(
            f"the top layers of {type(network).__name__} are unknown: pass their names, top=[…]. Its "
            f"layers are {_layers(network)}."
        )
    names = [name for name, _ in network.named_parameters()]
    for layer in layers:
        if not any(_lies_in(name, [layer]) for name in names):
            raise InputError(f"top has {layer!r}, which has no parameters; the layers are {_layers(network)}.")
    checked: Sequence[str] = layers
    return checked


def _lies_in(name: str, layers: Sequence[str]) -> bool:
    return any(name == layer or name.startswith(f"{layer}.") for layer in layers)


def _layers(network: nn.Module) -> str:
    """Names of the last layers that have parameters."""
    names = list(dict.fromkeys(name.rpartition(".")[0] for name, _ in network.named_parameters()))
    return ("…, " if len(names) > 10 else "") + ", ".join(names[-10:])
