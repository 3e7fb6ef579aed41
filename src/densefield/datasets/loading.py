"""Batches for training and for evaluation, by worker processes or without."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator

import torch
from torch.utils.data import DataLoader

from densefield.datasets.examples import Batch, Stack, stack_samples, to_batch
from densefield.datasets.order import BEGINNING, Position, batch_order
from densefield.datasets.sample import Dataset, Sample
from densefield.datasets.transforms import Augmentation, augment
from densefield.errors import DensefieldError, InputError


def training_batches(
    dataset: Dataset,
    augmentation: Augmentation,
    batch_size: int,
    *,
    seed: int = 0,
    workers: int = 0,
    start: Position = BEGINNING,
    shard: tuple[int, int] = (0, 1),
) -> Generator[Batch, None, None]:
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
    stacks = _stacks(_Augmented(dataset, augmentation, seed), keys, workers)
    return (to_batch(stack, position) for stack, (_, position) in zip(stacks, order, strict=False))


def evaluation_batches(dataset: Dataset, *, workers: int = 0) -> Iterator[Batch]:
    """Every sample in order and as it is, in a batch of its own, since sizes differ."""
    keys = ([(0, index)] for index in range(len(dataset)))
    return (to_batch(stack) for stack in _stacks(_Plain(dataset), keys, workers))


class _Augmented:
    """Samples as training sees them, by (epoch, index)."""

    def __init__(self, dataset: Dataset, augmentation: Augmentation, seed: int) -> None:
        self._dataset, self._augmentation, self._seed = dataset, augmentation, seed

    def __getitem__(self, key: tuple[int, int]) -> Sample:
        epoch, index = key
        return augment(self._dataset[index], self._augmentation, self._seed, epoch, index)


class _Plain:
    """Samples as they are, by (anything, index)."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __getitem__(self, key: tuple[int, int]) -> Sample:
        return self._dataset[key[1]]


def _stacks(samples: _Augmented | _Plain, keys: Iterator[list[tuple[int, int]]], workers: int) -> Iterator[Stack]:
    """Stacks of samples; workers hand over bytes, since what passes between processes costs more than to convert it."""
    if workers < 0:
        raise InputError(f"workers is {workers}, expected 0 or more.")
    loader: DataLoader[Stack] = DataLoader(
        samples,  # type: ignore[arg-type]
        batch_sampler=keys,
        num_workers=workers,
        collate_fn=stack_samples,
        # Workers are seeded by a generator of their own, so that reading data leaves torch's state alone.
        generator=torch.Generator().manual_seed(0),
        worker_init_fn=_outlive_first_sigterm,
    )
    return _told_plainly(loader)


def _outlive_first_sigterm(number: int) -> None:
    """Has a worker ignore the first SIGTERM: a signal to all processes of a run is for the one that trains.

    That one writes a checkpoint and then ends its workers. The second signal ends a worker as usual.
    """

    def ignore_once(signum: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    signal.signal(signal.SIGTERM, ignore_once)


def _told_plainly(stacks: DataLoader[Stack]) -> Iterator[Stack]:
    """torch hands on what a worker raised with the worker's whole traceback for a message: what was said is its end."""
    try:
        yield from stacks
    except DensefieldError as error:
        said = str(error).rpartition(f"{type(error).__name__}: ")[2].rstrip()
        raise type(error)(said) from None
