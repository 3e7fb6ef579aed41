"""Settings → datasets: splits, held-out images, and subsets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from densefield.datasets.adapter import as_dataset
from densefield.datasets.folder import FolderDataset, checked_folder, find_layout, split_names
from densefield.datasets.sample import Dataset, Subset
from densefield.datasets.transforms import ShrunkDataset
from densefield.datasets.voc import VOC2012, list_voc
from densefield.errors import DensefieldError, InputError, warn
from densefield.labels import VOID
from densefield.runs.config import HELD_OUT, Config, DataConfig
from densefield.runs.objects import NONE, Objects
from densefield.runs.references import OBJECT, call_reference, is_own
from densefield.scenes.scene import SceneDataset

UNLISTED = ("train", "val")  # splits of a folder without split lists


def build_datasets(config: Config, objects: Objects = NONE) -> tuple[Dataset, Dataset]:
    """The datasets for training and for validation."""
    check_splits(config.data)
    splits = {split: open_split(config, split, objects) for split in (config.data.train, config.data.val)}
    for split, dataset in splits.items():
        if len(dataset) and dataset[0].labels is None:
            raise InputError(
                f"the images of {split!r} have no masks: choose a split that has, by data.train and data.val."
            )
        if len(dataset.classes) != config.network.num_classes:
            raise InputError(
                f"network.num_classes is {config.network.num_classes}, but the data have {len(dataset.classes)} "
                "classes: set network.num_classes to that number."
            )
        if is_own(config.data.kind):
            _check_labelled(split, dataset)
    train, val = splits[config.data.train], splits[config.data.val]
    return train, evenly_spread(val, config.data.val_images or len(val))


def evenly_spread(dataset: Dataset, count: int) -> Dataset:
    """`count` samples of a dataset, evenly spread; all of them if it has fewer.

    >>> evenly_spread(SceneDataset(9, size=(96, 96)), 3).ids
    ('scene_000000', 'scene_000003', 'scene_000006')
    """
    return Subset(dataset, _evenly(len(dataset), count))


def check_splits(config: DataConfig) -> None:
    """Raises if the images for training or validation do not exist; reads no image."""
    if config.kind == "scenes" or is_own(config.kind):
        return
    if _is_unlisted(config) and not config.held_out:
        raise InputError(
            f"{config.root} has no split lists, so validation would use the training images. Set "
            "data.held_out to the number of validation images, or write splits/train.txt and splits/val.txt."
        )
    for split in dict.fromkeys(config.train if each == HELD_OUT else each for each in (config.train, config.val)):
        if config.kind == "voc2012":
            list_voc(Path(config.root), split, None if config.sbd is None else Path(config.sbd))
        else:
            checked_folder(find_layout(Path(config.root))[1], _listed_split(config, split))


def default_split(config: DataConfig) -> str:
    """The split for evaluation: that of validation, or "val" if validation uses held-out training images."""
    if config.val != HELD_OUT:
        return config.val
    if config.kind == "folder" and "val" not in split_names(find_layout(Path(config.root))[1]):
        return HELD_OUT
    return "val"


def open_split(settings: Config, split: str, objects: Objects = NONE) -> Dataset:
    """One split, with images no larger than ``longest_side``.

    The split "held_out" consists of training images, evenly spread. In a folder without split lists all images are for
    training, and "val" is "held_out". Scenes have two splits: the training scenes, and those after them.
    """
    config = settings.data
    if split == config.val and config.held_out and _is_unlisted(config):
        split = HELD_OUT
    wanted = config.train if split == HELD_OUT else split
    if is_own(config.kind):
        dataset = _own_split(config, wanted, settings.network.num_classes, objects)
    else:
        dataset = _split(config, wanted)
    if config.held_out and split in (config.train, HELD_OUT):
        held_out = _evenly(len(dataset), config.held_out)
        if len(held_out) == len(dataset):
            raise InputError(f"data.held_out is {config.held_out}, but {config.train} has {len(dataset)} images.")
        rest = sorted(set(range(len(dataset))) - set(held_out))
        dataset = Subset(dataset, held_out if split == HELD_OUT else rest)
    elif split == HELD_OUT:
        raise InputError("no images are held out: data.held_out is 0.")
    return ShrunkDataset(dataset, config.longest_side) if config.longest_side else dataset


def _evenly(length: int, count: int) -> list[int]:
    """`count` indices below the length, evenly spread; all of them if the length is smaller."""
    count = min(count, length)
    return [number * length // count for number in range(count)]


def _split(config: DataConfig, split: str) -> Dataset:
    if config.kind == "voc2012":
        return VOC2012(config.root, split, sbd=config.sbd)
    if config.kind == "folder":
        return FolderDataset(find_layout(Path(config.root))[1], _listed_split(config, split))
    if split not in (config.train, config.val):
        raise InputError(f"the split is {split!r}, but scenes have {config.train!r} and {config.val!r}.")
    scenes, later = config.scenes, split == config.val
    return SceneDataset(
        scenes.val_images if later else scenes.images,
        size=scenes.size,
        object_classes=scenes.object_classes,
        seed=scenes.seed,
        first=scenes.images if later else 0,
    )


def _own_split(config: DataConfig, split: str, num_classes: int, objects: Objects) -> Dataset:
    """A split of the user's: a Python object, or what the function of the settings returns for it."""
    if config.kind != OBJECT:
        return named_dataset(config.kind, "data.kind", split, num_classes, config.options)
    dataset = {config.train: objects.train, config.val: objects.val}.get(split)
    if dataset is None:
        raise InputError(
            f"the data of the split {split!r} were Python objects, which the files of a run do not describe. Name the "
            "data: a folder, or a function that returns a dataset, package.module:function."
        )
    return dataset


def named_dataset(
    name: str, key: str, split: str, num_classes: int | None, options: Mapping[str, Any] | None = None
) -> Dataset:
    """What the function package.module:function returns for a split; `key` names it in messages."""
    found = call_reference(name, key, split, options=options)
    try:
        return as_dataset(found, num_classes, name=split)
    except DensefieldError as error:
        raise type(error)(f"{key}: {name} was called for {split!r}, and of what it returned, {error}") from error


def _check_labelled(split: str, dataset: Dataset) -> None:
    """Warns if a few masks are only background and void; raises if all masks are void."""

    def labels(place: int) -> set[int]:
        return {int(label) for label in np.unique(dataset[place].labels)}  # type: ignore[arg-type]

    places = _evenly(len(dataset), 4)
    found = set().union(*map(labels, places))
    if found == {VOID} and all(labels(place) == {VOID} for place in range(len(dataset))):
        raise InputError(
            f"{split} has no labelled pixel: all labels are {VOID}, which is void, in all {len(dataset)} images. "
            f"Expected labels 0 to {len(dataset.classes) - 1}. If {VOID} means foreground, return mask == {VOID}."
        )
    if VOID in found and found <= {0, VOID}:
        only = " and ".join(map(str, sorted(found)))
        warn(
            f"the labels of {split} are only {only} in {len(places)} images, and {VOID} is void, which is not learnt. "
            f"If it means foreground, return mask == {VOID}."
        )


def _listed_split(config: DataConfig, split: str) -> str | None:
    """The split of a folder; None, all images, if it has no split lists and the name is a default."""
    return None if split in UNLISTED and _is_unlisted(config) else split


def _is_unlisted(config: DataConfig) -> bool:
    """Whether the data are a folder without split lists."""
    return config.kind == "folder" and not split_names(find_layout(Path(config.root))[1])
