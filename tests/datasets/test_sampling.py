"""Random generators depend on their key; each epoch visits every sample once, from any position on."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from densefield.datasets.sampling import Position, batch_order, random_generator, random_integer, sample_order
from densefield.errors import InputError


def test_different_keys_give_different_numbers():
    # Including keys that would be equal if zeros were padded, or if large numbers overflowed into the next.
    keys = [(), (0,), (0, 0), (1,), (1, 0), (0, 1), (2**32,), (2**32, 0), (0, 0, 1), (5, 7), (7, 5), (2**64 - 1,)]
    assert len({random_generator(*key).random() for key in keys}) == len(keys)


def test_recorded_numbers_are_reproduced():
    """Recorded runs and scenes depend on these numbers: they must not change."""
    rng = random_generator(3, 811, 2)
    assert [rng.random(), rng.uniform(-3, 5), random_integer(rng, 1000)] == [0.6126617131252626, 2.280235905946115, 268]
    assert [index for _, index in islice(sample_order(9, seed=811), 9)] == [6, 0, 7, 1, 4, 8, 5, 2, 3]


def test_random_integers_cover_their_range():
    rng = random_generator(40127)
    assert {random_integer(rng, 7) for _ in range(500)} == set(range(7))
    assert np.mean([random_integer(rng, 4) == 0 for _ in range(2000)]) == pytest.approx(0.25, abs=0.05)


def test_an_epoch_visits_every_sample_once_in_its_own_order():
    stream = list(islice(sample_order(50, seed=811), 150))
    epochs = [[index for epoch, index in stream if epoch == number] for number in range(3)]
    assert all(sorted(epoch) == list(range(50)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert list(islice(sample_order(50, seed=812), 50)) != stream[:50]


@pytest.mark.parametrize("start", [Position(0, 0), Position(0, 6), Position(2, 0), Position(3, 4)])
def test_a_stream_that_starts_later_continues_the_full_one(start):
    full = islice(sample_order(7, seed=5), 7 * start.epoch + start.sample, None)
    assert list(islice(sample_order(7, 5, start), 30)) == list(islice(full, 30))


@pytest.mark.parametrize("length, size", [(7, 3), (6, 3), (2, 5), (1, 1)])
def test_batches_are_full_and_can_be_resumed_after_each_one(length, size):
    batches = list(islice(batch_order(length, size, seed=23), 9))
    assert [pair for batch, _ in batches for pair in batch] == list(islice(sample_order(length, 23), 9 * size))
    for number, (_, position) in enumerate(batches[:-1]):
        rest = [batch for batch, _ in islice(batch_order(length, size, 23, position), 8 - number)]
        assert rest == [batch for batch, _ in batches[number + 1 :]]


def test_invalid_lengths_and_positions_raise():
    with pytest.raises(InputError, match="the dataset is empty"):
        sample_order(0, seed=1)
    with pytest.raises(InputError, match="batch size is 0"):
        batch_order(3, 0, seed=1)
    for start in (Position(0, 3), Position(-1, 0), Position(0, -1)):
        with pytest.raises(InputError, match="but the dataset has 3"):
            sample_order(3, 1, start)
