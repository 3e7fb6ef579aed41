"""A network and a dataset as users write them, for settings that name their functions."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from densefield.datasets.sample import Dataset
from densefield.scenes.scene import SceneDataset

SCENES = {"train": (0, 10), "val": (10, 3)}  # the first scene and the number of scenes of tiny_settings


class Dropping(nn.Module):
    """A network with dropout, batch statistics, an unused layer and scores at half resolution."""

    def __init__(self, width: int = 8, num_classes: int = 4) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(), nn.Dropout2d(0.3))
        self.head = nn.Conv2d(width, num_classes, 1)
        self.auxiliary = nn.Conv2d(width, num_classes, 1)  # as in torchvision: no loss depends on it

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"out": self.head(self.body(image))}


class Embedding(nn.Module):
    """A network with scores and an embedding of two channels, both at half resolution."""

    def __init__(self, num_classes: int = 4) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU())
        self.head = nn.Conv2d(8, num_classes, 1)
        self.features = nn.Conv2d(8, 2, 1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.body(image)
        return self.head(x), self.features(x)


class Pairs(torch.utils.data.Dataset):
    """Scenes as tensors, (3, H, W) and (H, W), changed at random by the generators of Python, NumPy and torch."""

    def __init__(self, scenes: Dataset, changes: bool = False) -> None:
        self.scenes, self.changes = scenes, changes

    def __len__(self) -> int:
        return len(self.scenes)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        sample = self.scenes[index]
        image = torch.from_numpy(sample.image.copy()).movedim(-1, 0)
        if self.changes:
            shift = random.random() + np.random.random() + float(torch.rand(1))  # noqa: NPY002
            image = (image * (0.5 + shift / 6)).to(torch.uint8)
        return image, torch.from_numpy(sample.labels.astype(np.int64))


def scenes(split: str, seed: int = 471) -> SceneDataset:
    first, count = SCENES[split]
    return SceneDataset(count, size=(96, 96), object_classes=3, seed=seed, first=first)


def pairs(split: str, changes: bool = False) -> Pairs:
    return Pairs(scenes(split), changes and split == "train")


def dropping(width: int = 8) -> Dropping:
    return Dropping(width)


def failing() -> nn.Module:
    raise OSError("weights.bin cannot be found\nanywhere")


def labels_only() -> int:
    return 3


def endless(split: str) -> Iterator[int]:
    return iter(range(10**9))
