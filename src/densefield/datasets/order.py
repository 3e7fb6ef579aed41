"""The order in which training sees a dataset: every sample once in an epoch, from any place on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from densefield.errors import InputError
from densefield.scenes.random import Draws

_ORDER = 3  # keeps the draws of the order apart from other draws of the same seed


class Position(NamedTuple):
    """Where a stream of samples stands: the epoch, and how many of its samples have gone by."""

    epoch: int = 0
    sample: int = 0


BEGINNING = Position()


def sample_order(length: int, seed: int, start: Position = BEGINNING) -> Iterator[tuple[int, int]]:
    """Pairs (epoch, index) without end: all indices once in each epoch, in an order of the epoch's own.

    >>> stream = sample_order(4, seed=9)
    >>> sorted(index for _, index in (next(stream) for _ in range(4)))
    [0, 1, 2, 3]
    >>> next(sample_order(4, seed=9, start=Position(1, 0))) == next(stream)
    True
    """
    if length < 1:
        raise InputError("the dataset is empty, and cannot be trained on.")
    epoch, skip = start
    if epoch < 0 or not 0 <= skip < length:
        raise InputError(
            f"the start is sample {skip} of epoch {epoch}, but the dataset has {length}: was it another one before?"
        )
    return _endless(length, seed, epoch, skip)


def _endless(length: int, seed: int, epoch: int, skip: int) -> Iterator[tuple[int, int]]:
    while True:
        for index in Draws(_ORDER, seed, epoch).order(length)[skip:]:
            yield epoch, int(index)
        epoch, skip = epoch + 1, 0


def batch_order(
    length: int, batch_size: int, seed: int, start: Position = BEGINNING
) -> Iterator[tuple[list[tuple[int, int]], Position]]:
    """The same in batches without end, each with the position after it.

    All batches have the same size: one may hold the end of an epoch and the beginning of the next.

    >>> [position for _, position in islice(batch_order(5, 2, seed=9), 3)]
    [Position(epoch=0, sample=2), Position(epoch=0, sample=4), Position(epoch=1, sample=1)]
    """
    if batch_size < 1:
        raise InputError(f"the batch size is {batch_size}, expected 1 or more.")
    samples = sample_order(length, seed, start)
    return _batches(samples, length, batch_size, start)


def _batches(
    samples: Iterator[tuple[int, int]], length: int, batch_size: int, start: Position
) -> Iterator[tuple[list[tuple[int, int]], Position]]:
    gone = start.epoch * length + start.sample
    while True:
        gone += batch_size
        yield list(islice(samples, batch_size)), Position(*divmod(gone, length))
