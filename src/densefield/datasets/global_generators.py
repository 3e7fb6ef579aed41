"""The global random generators of Python, NumPy and torch, seeded while a sample is read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import torch

from densefield.datasets.sampling import READING, random_generator


@contextmanager
def global_generators(*key: int) -> Iterator[None]:
    """Inside, the global generators depend on the key only; afterwards they are as before.

    Datasets of users may change samples at random with these. Such changes are then the same in every process, and
    after a run is resumed.

    >>> def draw():
    ...     with global_generators(3, 0, 7):
    ...         return random.random(), np.random.random(), float(torch.rand(1))
    >>> draw() == draw()
    True
    """
    seed = int(random_generator(READING, *key).random() * 2**32)
    python, of_torch = random.getstate(), torch.get_rng_state()
    # Exchanged instead of copied, which takes a hundred times as long.
    numpy = np.random.get_bit_generator()  # type: ignore[attr-defined]
    np.random.set_bit_generator(_spare_generator())  # type: ignore[attr-defined]
    try:
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed(), which seeds GPUs too
        yield
    finally:
        random.setstate(python)
        np.random.set_bit_generator(numpy)  # type: ignore[attr-defined]
        torch.set_rng_state(of_torch)


@cache
def _spare_generator() -> np.random.MT19937:
    """The generator that takes the place of NumPy's global one; np.random.seed() needs this kind."""
    return np.random.MT19937(0)
