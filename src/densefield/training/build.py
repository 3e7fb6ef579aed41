"""Settings → segmenter, datasets, optimiser: the one place that knows what the names in a config stand for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from densefield.crf.kernels import Bilateral, Kernel, Spatial
from densefield.crf.layer import DenseCRF
from densefield.data.examples import ColourScale
from densefield.data.folder import FolderDataset
from densefield.data.layout import find_layout
from densefield.data.sample import Dataset, Sample, entries_of
from densefield.data.scenes import SceneDataset
from densefield.data.shrunk import ShrunkDataset
from densefield.data.transforms import Augmentation
from densefield.data.voc import VOC2012
from densefield.errors import InputError
from densefield.nets.deeplab_efficientnet_lite0 import deeplab_efficientnet_lite0
from densefield.nets.deeplab_vgg16 import deeplab_vgg16
from densefield.nets.fcn8s_vgg16 import fcn8s_vgg16
from densefield.nets.parameter_groups import parameter_groups
from densefield.nets.small import small_network
from densefield.nets.weights import load_weights
from densefield.segmenter import Segmenter
from densefield.training.config import HELD_OUT, Config, CRFConfig, DataConfig, NetworkConfig, OptimizerConfig

_CHANNELS_LAST = ("deeplab_efficientnet_lite0", "small_network")  # the networks that are faster so on a CPU


def build_segmenter(config: Config) -> Segmenter:
    """The network and, in stage 2, the CRF, as they are before training.

    >>> from densefield.training.config import Config, NetworkConfig
    >>> build_segmenter(Config(network=NetworkConfig(name="small_network", pretrained=False))).crf is None
    True
    """
    network = build_network(config.network)
    return Segmenter(network, build_crf(config.crf, config.network.labels) if config.uses_crf else None)


def build_network(config: NetworkConfig) -> nn.Module:
    """The network with the weights that it starts from."""
    start = "imagenet" if config.pretrained is True else config.pretrained or None
    labels, options = config.labels, config.options
    network: nn.Module
    if config.name == "deeplab_vgg16":
        network = deeplab_vgg16(labels, weights=start, **options)  # type: ignore[arg-type]
    elif config.name == "fcn8s_vgg16":
        network = fcn8s_vgg16(labels, weights=start)
    elif config.name == "deeplab_efficientnet_lite0":
        network = deeplab_efficientnet_lite0(labels, weights=start, **options)  # type: ignore[arg-type]
    else:
        network = small_network(labels, **options)  # type: ignore[arg-type]
        if start is not None:
            load_weights(network, start)
    if config.name in _CHANNELS_LAST:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def build_crf(config: CRFConfig, labels: int) -> DenseCRF:
    """The CRF with its first values; what is to be frozen is.

    >>> from densefield.training.config import CRFConfig
    >>> sum(parameter.numel() for parameter in build_crf(CRFConfig(), labels=21).parameters())
    9
    """

    def weight(value: float) -> float | np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        if config.compatibility == "potts":
            return value
        return np.full(labels, value) if config.compatibility == "per_label" else value * np.eye(labels)

    kernels: list[Kernel] = []
    if config.spatial.weight:
        spatial = config.spatial
        kernels.append(Spatial(spatial.sigma, weight=weight(spatial.weight), normalization=config.normalization))
    if config.bilateral.weight:
        both = config.bilateral
        kernels.append(
            Bilateral(both.sigma_xy, both.sigma_rgb, weight=weight(both.weight), normalization=config.normalization)
        )
    crf = DenseCRF(labels, kernels, iterations=config.iterations, exclude_self=config.exclude_self)
    return crf.freeze(*config.freeze) if config.freeze else crf


def build_optimizer(config: OptimizerConfig, segmenter: Segmenter) -> torch.optim.Optimizer:
    """The optimiser, with groups that carry their rate before the schedule as ``rate``."""
    groups = parameter_groups(
        segmenter.network,
        learning_rate=config.lr_rest,
        top_factor=config.lr_top / config.lr_rest,
        bias_factor=config.bias_factor,
        weight_decay=config.weight_decay,
    )
    learnt = [] if segmenter.crf is None else [each for each in segmenter.crf.parameters() if each.requires_grad]
    if learnt:
        groups.append({"name": "crf", "params": learnt, "lr": config.lr_crf, "weight_decay": 0.0})
    for group in groups:
        group["rate"] = group["lr"]
    if config.name == "adamw":
        return torch.optim.AdamW(groups)
    return torch.optim.SGD(groups, momentum=config.momentum)


def build_datasets(config: Config) -> tuple[Dataset, Dataset]:
    """What is trained on, and what is validated on."""
    splits = {split: open_split(config.data, split) for split in (config.data.train, config.data.val)}
    for split, dataset in splits.items():
        if len(dataset) and dataset[0].label is None:
            raise InputError(
                f"the images of {split!r} have no masks: choose a split that has, by data.train and data.val."
            )
        if len(dataset.classes) != config.network.labels:
            raise InputError(
                f"network.labels is {config.network.labels}, but the data have {len(dataset.classes)} labels: set "
                f"network.labels to that."
            )
    train, val = splits[config.data.train], splits[config.data.val]
    return train, Part(val, _evenly(len(val), config.data.val_images or len(val)))


def open_split(config: DataConfig, split: str) -> Dataset:
    """One split, with images no larger than the settings allow.

    The images of "held_out" are taken out of those for training, evenly spread. Of scenes that are drawn as they are
    needed there are those for training and the ones after them.
    """
    dataset = _whole_split(config, config.train if split == HELD_OUT else split)
    if config.held_out and split in (config.train, HELD_OUT):
        apart = _evenly(len(dataset), config.held_out)
        if len(apart) == len(dataset):
            raise InputError(f"data.held_out is {config.held_out}, but {config.train} has {len(dataset)} images.")
        rest = sorted(set(range(len(dataset))) - set(apart))
        dataset = Part(dataset, apart if split == HELD_OUT else rest)
    elif split == HELD_OUT:
        raise InputError("no images are held out: data.held_out is 0.")
    return ShrunkDataset(dataset, config.longest_side) if config.longest_side else dataset


def _evenly(length: int, count: int) -> list[int]:
    """So many numbers below the length, evenly spread; all where there are not so many."""
    count = min(count, length)
    return [number * length // count for number in range(count)]


def _whole_split(config: DataConfig, split: str) -> Dataset:
    if config.kind == "voc2012":
        return VOC2012(config.root, split, sbd=config.sbd)
    if config.kind == "folder":
        return FolderDataset(find_layout(Path(config.root))[1], split)
    if split not in (config.train, config.val):
        raise InputError(f"the split is {split!r}, but scenes that are drawn have {config.train!r} and {config.val!r}.")
    scenes, later = config.scenes, split == config.val
    return SceneDataset(
        scenes.val_images if later else scenes.images,
        size=scenes.size,
        classes=scenes.classes,
        seed=scenes.seed,
        first=scenes.images if later else 0,
    )


class Part:
    """Some images of a dataset."""

    def __init__(self, dataset: Dataset, indices: Sequence[int]) -> None:
        self._dataset, self._indices = dataset, indices
        self.classes = dataset.classes
        self.ids = tuple(dataset.ids[index] for index in indices)
        entries = entries_of(dataset)
        self.entries = tuple(entries[index] for index in indices) if entries else ()

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: int) -> Sample:
        return self._dataset[self._indices[index]]


def augmentation(config: DataConfig) -> Augmentation:
    """What is done to images for training."""
    return Augmentation(config.crop, config.scales, config.mirror, config.jitter)


def colour_scale(network: nn.Module) -> ColourScale:
    """The colours that the network is used to, for the loaders."""
    normalization: Any = network.normalization
    return ColourScale(normalization.mean, normalization.std)
