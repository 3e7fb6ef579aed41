"""Samples as tensors: what the network sees, what the CRF sees, and the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from densefield.data.epoch_order import Position
from densefield.data.sample import Sample
from densefield.errors import InputError


@dataclass(frozen=True)
class ColourScale:
    """The colours that a network is used to: (v - mean) / deviation of colours 0…255; by default ImageNet's.

    >>> ColourScale(mean=(100, 100, 100), deviation=(50, 50, 50))(torch.full((3, 1, 1), 150.0)).flatten().tolist()
    [1.0, 1.0, 1.0]
    """

    mean: tuple[float, float, float] = (123.675, 116.28, 103.53)
    deviation: tuple[float, float, float] = (58.395, 57.12, 57.375)

    def __post_init__(self) -> None:
        """Checks both."""
        if len(self.mean) != 3 or len(self.deviation) != 3 or not all(value > 0 for value in self.deviation):
            raise InputError(
                f"mean is {self.mean} and deviation {self.deviation}, expected three numbers each, deviations above 0."
            )

    @property
    def fill(self) -> tuple[int, int, int]:
        """The mean as a colour of whole numbers: what lies beyond an image, so that the network sees about 0."""
        red, green, blue = (min(max(round(value), 0), 255) for value in self.mean)
        return red, green, blue

    def __call__(self, image: Tensor) -> Tensor:
        """The network's input, float32, of colours 0…255, both (…, 3, H, W)."""
        mean, deviation = (torch.tensor(values)[:, None, None] for values in (self.mean, self.deviation))
        return (image.to(torch.float32) - mean) / deviation


@dataclass(frozen=True)
class Example:
    """One sample: the network's input, the CRF's image, the labels, and its name."""

    input: Tensor  # (3, H, W) float32
    image: Tensor  # (3, H, W) uint8, colours 0…255
    label: Tensor | None  # (H, W) int64, 255 is void; None where unknown
    id: str


@dataclass(frozen=True)
class Batch:
    """Several examples of one size, and for training where the stream of samples stands after them."""

    input: Tensor  # (B, 3, H, W) float32
    image: Tensor  # (B, 3, H, W) uint8, colours 0…255
    label: Tensor | None  # (B, H, W) int64, 255 is void; None where unknown
    ids: tuple[str, ...]
    position: Position | None = None


def to_example(sample: Sample, scale: ColourScale | None = None) -> Example:
    """The tensors of a sample.

    >>> example = to_example(Sample(np.zeros((4, 6, 3), np.uint8), None, "a"))
    >>> example.input.shape, example.input.dtype, example.image.dtype, example.label
    (torch.Size([3, 4, 6]), torch.float32, torch.uint8, None)
    """
    colours = scale or ColourScale()
    image = np.ascontiguousarray(sample.image.transpose(2, 0, 1))
    # The numbers of ColourScale, to the last bit, but by NumPy: torch would gather its threads for each image.
    seen = image.astype(np.float32)
    seen -= np.array(colours.mean, np.float32)[:, None, None]
    seen /= np.array(colours.deviation, np.float32)[:, None, None]
    label = None if sample.label is None else torch.from_numpy(sample.label.astype(np.int64))
    return Example(torch.from_numpy(seen), torch.from_numpy(image), label, sample.id)


def to_batch(examples: Sequence[Example]) -> Batch:
    """Examples of one size as one batch."""
    labels = [example.label for example in examples if example.label is not None]
    if 0 < len(labels) < len(examples):
        raise InputError(f"{len(examples) - len(labels)} of {len(examples)} examples have no labels: expected none.")
    return Batch(
        _stack([example.input for example in examples]),
        _stack([example.image for example in examples]),
        _stack(labels) if labels else None,
        tuple(example.id for example in examples),
    )


def _stack(tensors: Sequence[Tensor]) -> Tensor:
    """As torch.stack, but by NumPy: a copy is not worth torch's threads, which wait for each other on busy machines."""
    return torch.from_numpy(np.stack([tensor.numpy() for tensor in tensors]))
