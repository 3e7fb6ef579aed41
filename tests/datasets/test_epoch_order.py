"""Every sample once in an epoch, from any place on."""

from __future__ import annotations

from itertools import islice

import pytest

from densefield.datasets.order import Position, batch_order, sample_order
from densefield.errors import InputError


def test_an_epoch_holds_every_sample_once_in_an_order_of_its_own():
    stream = list(islice(sample_order(50, seed=811), 150))
    epochs = [[index for epoch, index in stream if epoch == number] for number in range(3)]
    assert all(sorted(epoch) == list(range(50)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert list(islice(sample_order(50, seed=812), 50)) != stream[:50]


@pytest.mark.parametrize("start", [Position(0, 0), Position(0, 6), Position(2, 0), Position(3, 4)])
def test_a_stream_that_starts_later_goes_on_as_the_whole_one(start):
    whole = islice(sample_order(7, seed=5), 7 * start.epoch + start.sample, None)
    assert list(islice(sample_order(7, 5, start), 30)) == list(islice(whole, 30))


@pytest.mark.parametrize("length, size", [(7, 3), (6, 3), (2, 5), (1, 1)])
def test_batches_are_full_and_each_tells_where_to_go_on(length, size):
    batches = list(islice(batch_order(length, size, seed=23), 9))
    assert [pair for batch, _ in batches for pair in batch] == list(islice(sample_order(length, 23), 9 * size))
    for number, (_, position) in enumerate(batches[:-1]):
        rest = [batch for batch, _ in islice(batch_order(length, size, 23, position), 8 - number)]
        assert rest == [batch for batch, _ in batches[number + 1 :]]


def test_what_has_no_order_is_refused():
    with pytest.raises(InputError, match="the dataset is empty"):
        sample_order(0, seed=1)
    with pytest.raises(InputError, match="batch size is 0"):
        batch_order(3, 0, seed=1)
    for start in (Position(0, 3), Position(-1, 0), Position(0, -1)):
        with pytest.raises(InputError, match="but the dataset has 3"):
            sample_order(3, 1, start)
