"""Settings, or Python objects, → network, CRF and segmenter."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from densefield.crf.crf_tables import crf_from_tables
from densefield.errors import InputError, InputTypeError
from densefield.networks.adapter import NetworkAdapter, as_network
from densefield.networks.deeplab import deeplab_efficientnet_lite0, deeplab_vgg16
from densefield.networks.fcn8s import fcn8s_vgg16
from densefield.networks.network import SegmentationNetwork
from densefield.networks.small import small_network
from densefield.networks.weights import load_weights
from densefield.nn.dense_crf import DenseCRF
from densefield.nn.segmenter import Segmenter
from densefield.runs.config import Config, NetworkConfig
from densefield.runs.crf_config import CRFConfig
from densefield.runs.objects import NONE, NetworkObject, Objects
from densefield.runs.references import OBJECT, call_reference, is_reference

_CHANNELS_LAST = ("deeplab_efficientnet_lite0", "small_network")  # faster in this format on a CPU


def build_segmenter(config: Config, objects: Objects = NONE) -> Segmenter:
    """The network and, in stage 2, the CRF, as they are before training.

    Parameters
    ----------
    config
        The settings of the run.
    objects
        Network and CRF, if they are Python objects.

    Examples
    --------
    >>> from densefield.runs.config import Config, NetworkConfig
    >>> build_segmenter(Config(network=NetworkConfig(name="small_network", pretrained=False))).crf is None
    True
    """
    if config.network.is_own:
        module = own_module(config.network) if objects.network is None else objects.network
        network = adapt(module, config.network)
        if config.data.network_size is not None:  # it may have its own
            network.input_size = config.data.network_size
        if config.network.frozen:
            network.requires_grad_(False)
    else:
        network = build_network(config.network)
        network.input_size = config.data.network_size
        network.requires_grad_(not config.network.frozen)
        if config.network.embedding and not config.uses_crf:  # nothing compares it: it is not learnt
            network.embedding_head.requires_grad_(False)
    if not config.uses_crf:
        return Segmenter(network)
    return Segmenter(network, objects.crf or build_crf(config.crf, config.network.num_classes))


def own_module(config: NetworkConfig) -> nn.Module:
    """The module that the function of the settings returns, with the weights of a file if one is named."""
    if config.name == OBJECT:
        raise InputError(
            f"the network is a Python object ({config.options.get('class', 'of unknown type')}), which the files of a "
            "run do not describe. Name a function that builds it, network=package.module:function, or pass the object "
            "to densefield.runs.load_segmenter(run, network)."
        )
    module = call_reference(config.name, "network.name", options=config.options)
    if not isinstance(module, nn.Module):
        raise InputTypeError(
            f"network.name: {config.name} returned an object of type {type(module).__name__}, expected a "
            "torch.nn.Module."
        )
    if isinstance(config.pretrained, str):
        load_weights(module, config.pretrained)
    return module


def adapt(module: nn.Module, config: NetworkConfig) -> SegmentationNetwork:
    """The user's module as a network."""
    for name, value in module.state_dict().items():
        if not isinstance(value, Tensor):
            raise InputTypeError(
                f"the state of {type(module).__name__} holds {name!r} of type {type(value).__name__}, which "
                "checkpoints cannot hold: keep tensors only, without get_extra_state()."
            )
    is_ready = isinstance(module, SegmentationNetwork) and config.mean is None and config.std is None
    if is_ready and config.multiple == 1 and not config.top_layers:
        network: SegmentationNetwork = module  # type: ignore[assignment]
    else:
        layers = config.top_layers or None
        network = as_network(module, mean=config.mean, std=config.std, multiple=config.multiple, top_layers=layers)
    if isinstance(network, NetworkAdapter):
        network.embedding = config.embedding  # whose features are checked when it returns them
    elif config.embedding and network.embedding != config.embedding:
        raise InputError(
            f"network.embedding is {config.embedding}, but {type(module).__name__} returns an embedding of "
            f"{network.embedding} channels: use that number."
        )
    return network


def given_module(network: NetworkObject) -> nn.Module:
    """The module itself, or what the function, or the function of that name, returns."""
    if isinstance(network, str) and is_reference(network):
        network = call_reference(network, "network")
    elif callable(network) and not isinstance(network, nn.Module):
        network = network()
    if not isinstance(network, nn.Module):
        raise InputTypeError(
            f"network is {network!r}, expected a torch.nn.Module, a function that returns one, or the name of such a "
            "function, package.module:function."
        )
    return network


def build_network(config: NetworkConfig) -> SegmentationNetwork:
    """A network of densefield with its initial weights."""
    start = "imagenet" if config.pretrained is True else config.pretrained or None
    num_classes, options = config.num_classes, dict(config.options)
    if config.embedding:
        options["embedding"] = config.embedding
    network: SegmentationNetwork
    if config.name == "deeplab_vgg16":
        network = deeplab_vgg16(num_classes, weights=start, **options)
    elif config.name == "fcn8s_vgg16":
        network = fcn8s_vgg16(num_classes, weights=start)
    elif config.name == "deeplab_efficientnet_lite0":
        network = deeplab_efficientnet_lite0(num_classes, weights=start, **options)
    else:
        network = small_network(num_classes, **options)
        if start is not None:
            load_weights(network, start)
    if config.name in _CHANNELS_LAST:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def build_crf(config: CRFConfig, num_classes: int) -> DenseCRF:
    """The CRF with its initial values; frozen parameters are not learnt.

    >>> from densefield.runs.config import CRFConfig
    >>> sum(parameter.numel() for parameter in build_crf(CRFConfig(), num_classes=21).parameters())
    9
    """
    crf = DenseCRF.from_numpy(crf_from_tables(config.tables(), num_classes), num_classes)
    return crf.freeze(*config.freeze) if config.freeze else crf


def set_iterations(crf: DenseCRF | None, iterations: int | None) -> None:
    """Changes the number of iterations of the CRF, if there are both.

    >>> crf = DenseCRF(num_classes=2)
    >>> set_iterations(crf, 10)
    >>> crf.options.iterations
    10
    """
    if crf is not None and iterations is not None:
        crf.options = replace(crf.options, iterations=iterations)
