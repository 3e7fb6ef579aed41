"""Settings → network, CRF and segmenter."""

from __future__ import annotations

from dataclasses import replace

import torch

from densefield.crf.crf_tables import crf_from_tables
from densefield.networks.deeplab import deeplab_efficientnet_lite0, deeplab_vgg16
from densefield.networks.fcn8s import fcn8s_vgg16
from densefield.networks.network import SegmentationNetwork
from densefield.networks.small import small_network
from densefield.networks.weights import load_weights
from densefield.nn.dense_crf import DenseCRF
from densefield.nn.segmenter import Segmenter
from densefield.runs.config import Config, CRFConfig, NetworkConfig

_CHANNELS_LAST = ("deeplab_efficientnet_lite0", "small_network")  # faster in this format on a CPU


def build_segmenter(config: Config) -> Segmenter:
    """The network and, in stage 2, the CRF, as they are before training.

    Parameters
    ----------
    config
        The settings of the run.

    Examples
    --------
    >>> from densefield.runs.config import Config, NetworkConfig
    >>> build_segmenter(Config(network=NetworkConfig(name="small_network", pretrained=False))).crf is None
    True
    """
    network = build_network(config.network)
    network.input_size = config.data.network_size
    network.requires_grad_(not config.network.frozen)
    if config.network.embedding and not config.uses_crf:  # nothing compares it: without a gradient it is not learnt
        network.embedding_head.requires_grad_(False)
    return Segmenter(network, build_crf(config.crf, config.network.num_classes) if config.uses_crf else None)


def build_network(config: NetworkConfig) -> SegmentationNetwork:
    """The network with its initial weights."""
    start = "imagenet" if config.pretrained is True else config.pretrained or None
    num_classes, options = config.num_classes, dict(config.options)
    if config.embedding:
        options["embedding"] = config.embedding
    network: SegmentationNetwork
    if config.name == "deeplab_vgg16":
        network = deeplab_vgg16(num_classes, weights=start, **options)  # type: ignore[arg-type]
    elif config.name == "fcn8s_vgg16":
        network = fcn8s_vgg16(num_classes, weights=start)
    elif config.name == "deeplab_efficientnet_lite0":
        network = deeplab_efficientnet_lite0(num_classes, weights=start, **options)  # type: ignore[arg-type]
    else:
        network = small_network(num_classes, **options)  # type: ignore[arg-type]
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
