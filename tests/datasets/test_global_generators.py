"""Random changes that a dataset makes with global generators depend on the seed, the epoch and the sample only."""

from __future__ import annotations

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from densefield.datasets.global_generators import global_generators  # noqa: E402


def draw():
    return random.random(), np.random.random(), float(torch.rand(1))  # noqa: NPY002


def test_the_key_decides_and_afterwards_the_generators_are_as_before():
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
    found = {}
    for key in [(1, 0, 5), (1, 1, 5), (2, 0, 5), (1, 0, 6)]:
        with global_generators(*key):
            found[key] = draw()
        with global_generators(*key):
            assert draw() == found[key]
    for position in range(3):  # each generator has its own values for each key
        assert len({each[position] for each in found.values()}) == 4
    assert random.getstate() == before[0] and torch.equal(torch.get_rng_state(), before[2])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002


def test_the_generators_are_restored_after_an_error():
    state = random.getstate()
    with pytest.raises(ValueError, match="Seed must be"), global_generators(3):
        np.random.seed(-1)  # noqa: NPY002
    assert random.getstate() == state
