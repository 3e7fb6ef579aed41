"""Seeded randomness: generators keyed by integers, and the order in which training visits samples."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from typing import NamedTuple

import numpy as np

from densefield.errors import InputError

# First integer of a key, so that scenes, transforms and the order of one seed are independent.
SCENES, TRANSFORMS, ORDER, READING = 1, 2, 3, 4


def random_generator(*key: int) -> np.random.Generator:
    """NumPy's generator, seeded by non-negative integers below 2⁶⁴; different keys give independent streams.

    Only its bits and `random` are used, which are the same with every version of NumPy: recorded scenes and training
    runs can be reproduced.

    >>> random_generator(7, 3).random() == random_generator(7, 3).random()
    True
    >>> random_generator(7, 3).random() == random_generator(3, 7).random()
    False
    """
    words = [word for number in key for word in (number & 0xFFFFFFFF, number >> 32)]
    return np.random.default_rng([len(key), *words])


def random_integer(rng: np.random.Generator, count: int) -> int:
    """One of 0, …, count-1."""
    return int(rng.random() * count)


class Position(NamedTuple):
    """A position in the stream of training samples: the epoch, and the number of its samples already delivered."""

    epoch: int = 0
    sample: int = 0


BEGINNING = Position()


def sample_order(length: int, seed: int, start: Position = BEGINNING) -> Iterator[tuple[int, int]]:
    """Endless pairs (epoch, index): each epoch visits all indices once, in its own random order.

    >>> stream = sample_order(4, seed=9)
    >>> sorted(index for _, index in (next(stream) for _ in range(4)))
    [0, 1, 2, 3]
    >>> next(sample_order(4, seed=9, start=Position(1, 0))) == next(stream)
    True
    """
    if length < 1:
        raise InputError("the dataset is empty, and cannot be trained on.")
    first, skip = start
    if first < 0 or not 0 <= skip < length:
        raise InputError(
            f"the start is sample {skip} of epoch {first}, but the dataset has {length}: was it another one before?"
        )
    return (
        (epoch, int(index))
        for epoch in count(first)
        for index in np.argsort(random_generator(ORDER, seed, epoch).random(length))[skip if epoch == first else 0 :]
    )


def batch_order(
    length: int, batch_size: int, seed: int, start: Position = BEGINNING
) -> Iterator[tuple[list[tuple[int, int]], Position]]:
    """Endless batches of such pairs, each with the position after it.

    All batches have the same size: one may hold the end of an epoch and the beginning of the next.

    >>> [position for _, position in islice(batch_order(5, 2, seed=9), 3)]
    [Position(epoch=0, sample=2), Position(epoch=0, sample=4), Position(epoch=1, sample=1)]
    """
    if batch_size < 1:
        raise InputError(f"the batch size is {batch_size}, expected 1 or more.")
    samples = sample_order(length, seed, start)
    ends = count(start.epoch * length + start.sample + batch_size, batch_size)
    return ((list(islice(samples, batch_size)), Position(*divmod(end, length))) for end in ends)
