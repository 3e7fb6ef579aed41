"""Batches for training and evaluation, loaded by worker processes or in the main process."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from densefield.datasets.global_generators import global_generators
from densefield.datasets.sample import Dataset, Sample
from densefield.datasets.sampling import BEGINNING, Position, batch_order
from densefield.datasets.transforms import Augmentation, augment
from densefield.errors import DensefieldError, InputError


@dataclass(frozen=True)
class Batch:
    """Several samples: tensors if all have one size, else lists with a tensor for each sample.

    Parameters
    ----------
    image
        Colours 0…255, (B, 3, H, W) uint8; or a list of (3, H, W).
    labels
        Labels (B, H, W) int64 with 255 for void; or a list of (H, W); None if unknown.
    ids
        The names of the samples.
    position
        The position in the stream of training samples after this batch.
    padding
        True at padded pixels, (B, H, W); None if no sample is padded. Only crops are, which have one size.
    spacing
        Size of a pixel of each sample along x and y, in pixels of the original image; None if all are 1.

    >>> Batch(torch.zeros(1, 3, 4, 6, dtype=torch.uint8), None, ("a",)).image.shape
    torch.Size([1, 3, 4, 6])
    """

    image: Tensor | list[Tensor]
    labels: Tensor | list[Tensor] | None
    ids: tuple[str, ...]
    position: Position | None = None
    padding: Tensor | None = None
    spacing: tuple[tuple[float, float], ...] | None = None


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
    """Endless batches of augmented samples: each epoch visits every sample once, in its own random order.

    Batches depend only on the seed, not on the number of workers or on where the stream started. So do random changes
    that the dataset itself makes with the global generators of Python, NumPy and torch.

    Parameters
    ----------
    dataset
        The samples.
    augmentation
        The random changes of each sample.
    batch_size
        The number of samples in a batch.
    seed
        The random seed.
    workers
        The number of worker processes; 0 loads in this process.
    start
        The position to start from; pass a batch's ``position`` to resume after it.
    shard
        (k, n) gives the k-th, from 0, of n equal parts of every batch, so that n processes together see the same
        batches as one.

    >>> from densefield.scenes import SceneDataset
    >>> batch = next(training_batches(SceneDataset(9, size=(96, 96)), Augmentation(crop=(64, 64)), batch_size=2))
    >>> batch.image.shape, batch.labels.shape, batch.position
    (torch.Size([2, 3, 64, 64]), torch.Size([2, 64, 64]), Position(epoch=0, sample=2))
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
    stacks = _load(_Samples(dataset, augmentation, seed), keys, workers)
    return (to_batch(stack, position) for stack, (_, position) in zip(stacks, order, strict=False))


def evaluation_batches(dataset: Dataset, *, workers: int = 0) -> Iterator[Batch]:
    """Every sample in order and unchanged, each in a batch of its own, since sizes differ.

    Parameters
    ----------
    dataset
        The samples.
    workers
        The number of worker processes; 0 loads in this process.

    >>> from densefield.scenes import SceneDataset
    >>> [batch.ids for batch in evaluation_batches(SceneDataset(2, size=(96, 96)))]
    [('scene_000000',), ('scene_000001',)]
    """
    keys = ([(0, index)] for index in range(len(dataset)))
    return (to_batch(stack) for stack in _load(_Samples(dataset), keys, workers))


@dataclass(frozen=True)
class _Samples:
    """Samples by (epoch, index), augmented if requested."""

    dataset: Dataset
    augmentation: Augmentation | None = None
    seed: int = 0

    def __getitem__(self, key: tuple[int, int]) -> Sample:
        epoch, index = key
        with global_generators(self.seed, epoch, index):
            sample = self.dataset[index]
        return sample if self.augmentation is None else augment(sample, self.augmentation, self.seed, epoch, index)


@dataclass(frozen=True)
class Stack:
    """Several samples as uint8: what workers send, since sending int64 takes longer than converting."""

    image: Tensor | list[Tensor]  # (B, 3, H, W) uint8, or (3, H, W) each
    labels: Tensor | list[Tensor] | None  # (B, H, W) uint8, or (H, W) each
    ids: tuple[str, ...]
    inside: tuple[tuple[int, int, int, int] | None, ...]  # of each sample
    spacing: tuple[tuple[float, float], ...]  # of each sample


def stack_samples(samples: Sequence[Sample]) -> Stack:
    """Stack samples; those of different sizes stay separate.

    >>> stack = stack_samples([Sample(np.zeros((4, 6, 3), np.uint8), None, "a")])
    >>> stack.image.shape, stack.labels
    (torch.Size([1, 3, 4, 6]), None)
    """
    labels = [sample.labels for sample in samples if sample.labels is not None]
    if 0 < len(labels) < len(samples):
        raise InputError(f"{len(samples) - len(labels)} of {len(samples)} samples have no labels: expected none.")
    about = (
        tuple(sample.id for sample in samples),
        tuple(sample.inside for sample in samples),
        tuple(sample.spacing for sample in samples),
    )
    if len({sample.image.shape for sample in samples}) > 1:
        return Stack(
            [torch.from_numpy(np.ascontiguousarray(sample.image.transpose(2, 0, 1))) for sample in samples],
            [torch.from_numpy(each) for each in labels] or None,
            *about,
        )
    # NumPy instead of torch, whose threads wait for each other on busy machines.
    rows, columns = samples[0].image.shape[:2]
    images = np.empty((len(samples), 3, rows, columns), np.uint8)
    np.stack([sample.image.transpose(2, 0, 1) for sample in samples], out=images)
    return Stack(torch.from_numpy(images), torch.from_numpy(np.stack(labels)) if labels else None, *about)


def to_batch(stack: Stack, position: Position | None = None) -> Batch:
    """Convert labels to int64, and rectangles to a mask of padding.

    >>> batch = to_batch(stack_samples([Sample(np.zeros((4, 6, 3), np.uint8), None, "a")]))
    >>> batch.image.shape, batch.image.dtype, batch.labels
    (torch.Size([1, 3, 4, 6]), torch.uint8, None)
    """
    spacing = None if all(each == (1.0, 1.0) for each in stack.spacing) else stack.spacing
    if isinstance(stack.labels, list):
        labels: Tensor | list[Tensor] | None = [_as_int64(each) for each in stack.labels]
    else:
        labels = None if stack.labels is None else _as_int64(stack.labels)
    if isinstance(stack.image, list) or all(inside is None for inside in stack.inside):
        return Batch(stack.image, labels, stack.ids, position, None, spacing)
    padding = np.zeros((len(stack.inside), *stack.image.shape[2:]), bool)
    for mask, inside in zip(padding, stack.inside, strict=True):
        if inside is not None:
            top, bottom, left, right = inside
            mask[...] = True
            mask[top:bottom, left:right] = False
    return Batch(stack.image, labels, stack.ids, position, torch.from_numpy(padding), spacing)


def _as_int64(labels: Tensor) -> Tensor:
    return torch.from_numpy(labels.numpy().astype(np.int64))


def _load(samples: _Samples, keys: Iterator[list[tuple[int, int]]], workers: int) -> Iterator[Stack]:
    if workers < 0:
        raise InputError(f"workers is {workers}, expected 0 or more.")
    loader: DataLoader[Stack] = DataLoader(
        samples,  # type: ignore[arg-type]
        batch_sampler=keys,
        num_workers=workers,
        collate_fn=stack_samples,
        # A generator of its own, so that loading data does not change torch's random state.
        generator=torch.Generator().manual_seed(0),
        worker_init_fn=_ignore_first_sigterm,
    )
    return _with_plain_errors(loader)


def _ignore_first_sigterm(number: int) -> None:
    """Have a worker ignore the first SIGTERM, so that the training process can write a checkpoint and then end it."""

    def ignore_once(signum: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    signal.signal(signal.SIGTERM, ignore_once)


def _with_plain_errors(stacks: DataLoader[Stack]) -> Iterator[Stack]:
    """Remove the worker's traceback, which torch adds to the message of an error."""
    try:
        yield from stacks
    except DensefieldError as error:
        message = str(error).rpartition(f"{type(error).__name__}: ")[2].rstrip()
        raise type(error)(message) from None
