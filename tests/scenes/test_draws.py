"""Random numbers depend on their key alone."""

from __future__ import annotations

import numpy as np
import pytest

from densefield.scenes.random import Draws


def first(*key: int) -> float:
    return Draws(*key).number()


def test_no_two_keys_share_their_numbers():
    # Among them those that would be alike if zeros were padded, or if large numbers ran over into the next.
    keys = [(), (0,), (0, 0), (1,), (1, 0), (0, 1), (2**32,), (2**32, 0), (0, 0, 1), (5, 7), (7, 5), (2**64 - 1,)]
    assert len({first(*key) for key in keys}) == len(keys)


def test_numbers_lie_within_their_bounds_and_fill_them():
    draws = Draws(40127)
    numbers = np.array([draws.number(-3, 5) for _ in range(2000)])
    assert -3 <= numbers.min() < -2.9 and 4.9 < numbers.max() < 5
    wholes = [draws.whole(7) for _ in range(500)]
    assert set(wholes) == set(range(7))
    assert 0.2 < np.mean([draws.chance(0.25) for _ in range(2000)]) < 0.3  # five deviations to either side
    array = draws.numbers(50, 60)
    assert array.dtype == np.float32 and array.shape == (50, 60)
    assert 0 <= array.min() < 0.01 and 0.99 < array.max() < 1


@pytest.mark.parametrize("shape", [(200, 301), (3, 1, 5), (1,)])
def test_noise_has_the_shape_asked_for(shape):
    assert Draws(3).noise(*shape).shape == shape


def test_noise_is_nearly_normal():
    noise = Draws(90533).noise(300, 301).astype(np.float64)
    n = noise.size
    assert abs(noise.mean()) < 5 / n**0.5  # five deviations of a mean
    assert abs(noise.std() - 1) < 5 / (2 * n) ** 0.5  # and of a deviation
    # The sum of four even numbers has the excess kurtosis -6/5/4; of a normal distribution it is 0.
    assert np.mean(noise**4) - 3 == pytest.approx(-0.3, abs=5 * (24 / n) ** 0.5)
    neighbours = np.mean(noise[:, 1:] * noise[:, :-1])
    assert abs(neighbours) < 5 / n**0.5


def test_an_order_holds_each_index_once():
    order = Draws(11, 4).order(1000)
    assert sorted(order) == list(range(1000)) and list(order) != list(range(1000))
    assert np.array_equal(order, Draws(11, 4).order(1000))
