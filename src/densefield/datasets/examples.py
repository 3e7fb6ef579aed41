"""Samples as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from densefield.datasets.order import Position
from densefield.datasets.sample import Sample
from densefield.errors import InputError


@dataclass(frozen=True)
class Batch:
    """Several samples of one size, and for training where the stream of samples stands after them."""

    image: Tensor  # (B, 3, H, W) uint8, colours 0…255
    label: Tensor | None  # (B, H, W) int64, 255 is void; None where unknown
    ids: tuple[str, ...]
    position: Position | None = None
    padding: Tensor | None = None  # (B, H, W) bool: beyond the image; None where no sample is padded


@dataclass(frozen=True)
class Stack:
    """Several samples of one size in the fewest bytes, a sixth of what a batch takes: what a worker hands over."""

    image: Tensor  # (B, 3, H, W) uint8
    label: Tensor | None  # (B, H, W) uint8
    ids: tuple[str, ...]
    inside: tuple[tuple[int, int, int, int] | None, ...]  # of each sample


def stack_samples(samples: Sequence[Sample]) -> Stack:
    """Samples of one size, one on the other.

    >>> stack = stack_samples([Sample(np.zeros((4, 6, 3), np.uint8), None, "a")])
    >>> stack.image.shape, stack.label
    (torch.Size([1, 3, 4, 6]), None)
    """
    labels = [sample.label for sample in samples if sample.label is not None]
    if 0 < len(labels) < len(samples):
        raise InputError(f"{len(samples) - len(labels)} of {len(samples)} samples have no labels: expected none.")
    # By NumPy: a copy is not worth torch's threads, which wait for each other on busy machines.
    rows, columns = samples[0].image.shape[:2]
    images = np.empty((len(samples), 3, rows, columns), np.uint8)
    np.stack([sample.image.transpose(2, 0, 1) for sample in samples], out=images)
    return Stack(
        torch.from_numpy(images),
        torch.from_numpy(np.stack(labels)) if labels else None,
        tuple(sample.id for sample in samples),
        tuple(sample.inside for sample in samples),
    )


def to_batch(stack: Stack, position: Position | None = None) -> Batch:
    """The tensors that training takes.

    >>> batch = to_batch(stack_samples([Sample(np.zeros((4, 6, 3), np.uint8), None, "a")]))
    >>> batch.image.shape, batch.image.dtype, batch.label
    (torch.Size([1, 3, 4, 6]), torch.uint8, None)
    """
    label = None if stack.label is None else torch.from_numpy(stack.label.numpy().astype(np.int64))
    return Batch(stack.image, label, stack.ids, position, _padding(stack))


def _padding(stack: Stack) -> Tensor | None:
    """True beyond the images, (B, H, W); None where no sample is padded."""
    if all(inside is None for inside in stack.inside):
        return None
    padding = np.zeros((len(stack.inside), *stack.image.shape[2:]), bool)
    for mask, inside in zip(padding, stack.inside, strict=True):
        if inside is not None:
            top, bottom, left, right = inside
            mask[...] = True
            mask[top:bottom, left:right] = False
    return torch.from_numpy(padding)
