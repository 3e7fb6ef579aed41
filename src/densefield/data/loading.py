"""Batches for training and for evaluation, by worker processes or without."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from dataclasses import replace
from typing import Protocol

import torch
from torch.utils.data import DataLoader

from densefield.data.epoch_order import BEGINNING, Position, batch_order
from densefield.data.examples import Batch, ColourScale, Example, to_batch, to_example
from densefield.data.sample import Sample
from densefield.data.transforms import Augmentation, augment
from densefield.errors import InputError


class Samples(Sized, Protocol):
    """A dataset: samples by their number from 0, the names of its labels and of its images."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the labels, from 0."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The names of the images."""

    def __getitem__(self, index: int, /) -> Sample: ...


def training_batches(
    dataset: Samples,
    augmentation: Augmentation,
    batch_size: int,
    *,
    seed: int = 0,
    workers: int = 0,
    start: Position = BEGINNING,
    scale: ColourScale | None = None,
    shard: tuple[int, int] = (0, 1),
) -> Iterator[Batch]:
    """Batches without end, each sample once in every epoch, augmented afresh in each.

    They depend on the seed alone: not on the number of workers, nor on where the stream began. Each batch tells the
    `position` after it; to go on from there, pass it as `start`. The shard (k, n) gives the k-th, from 0, of n equal
    parts of every batch: together n processes see the same batches as one.
    """
    part, parts = shard
    if not 0 <= part < parts or batch_size % parts:
        raise InputError(
            f"the shard is part {part} of {parts} of batches of {batch_size}, expected a part from 0 to parts - 1, and "
            "a batch size that is a multiple of parts."
        )
    share = slice(part * batch_size // parts, (part + 1) * batch_size // parts)
    order = batch_order(len(dataset), batch_size, seed, start)
    keys = (batch[share] for batch, _ in batch_order(len(dataset), batch_size, seed, start))
    loader = _loader(_Augmented(dataset, augmentation, seed, scale or ColourScale()), keys, workers)
    return (replace(batch, position=position) for batch, (_, position) in zip(loader, order, strict=False))


def evaluation_batches(dataset: Samples, *, workers: int = 0, scale: ColourScale | None = None) -> Iterator[Batch]:
    """Every sample in order and as it is, in a batch of its own, since sizes differ."""
    keys = ([(0, index)] for index in range(len(dataset)))
    return iter(_loader(_Plain(dataset, scale or ColourScale()), keys, workers))


class _Augmented:
    """Training examples by (epoch, index)."""

    def __init__(self, dataset: Samples, augmentation: Augmentation, seed: int, scale: ColourScale) -> None:
        self._dataset, self._augmentation, self._seed, self._scale = dataset, augmentation, seed, scale

    def __getitem__(self, key: tuple[int, int]) -> Example:
        epoch, index = key
        seen = augment(self._dataset[index], self._augmentation, self._seed, epoch, index, self._scale.fill)
        return to_example(seen, self._scale)


class _Plain:
    """Examples as they are by (anything, index)."""

    def __init__(self, dataset: Samples, scale: ColourScale) -> None:
        self._dataset, self._scale = dataset, scale

    def __getitem__(self, key: tuple[int, int]) -> Example:
        return to_example(self._dataset[key[1]], self._scale)


def _loader(examples: _Augmented | _Plain, keys: Iterator[list[tuple[int, int]]], workers: int) -> DataLoader[Example]:
    if workers < 0:
        raise InputError(f"workers is {workers}, expected 0 or more.")
    return DataLoader(
        examples,  # type: ignore[arg-type]
        batch_sampler=keys,
        num_workers=workers,
        collate_fn=to_batch,
        # Workers are seeded by a generator of their own, so that reading data leaves torch's state alone.
        generator=torch.Generator().manual_seed(0),
    )
