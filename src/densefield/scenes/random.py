"""Random numbers that are the same on every machine, with every version of NumPy."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]  # float32

_MEAN, _DEVIATION = 510.0, 147.80054  # of the sum of four bytes


class Draws:
    """Random numbers that depend on a key of whole numbers, 0 or more, and on nothing else.

    NumPy promises that the raw bits of a generator never change; what its other methods make of them may. So only raw
    bits are taken, and what is made of them here rounds alike everywhere.

    >>> Draws(7, 3).number() == Draws(7, 3).number(), Draws(7, 3).number() == Draws(3, 7).number()
    (True, False)
    """

    def __init__(self, *key: int) -> None:
        # Each number as two words, after their count: no two keys have the same words.
        words = [word for number in key for word in (number & 0xFFFFFFFF, number >> 32)]
        self._bits = np.random.PCG64(np.random.SeedSequence([len(key), *words]))

    def number(self, low: float = 0.0, high: float = 1.0) -> float:
        """Between two numbers, evenly."""
        return low + (high - low) * (int(self._bits.random_raw()) >> 11) * 2.0**-53

    def whole(self, count: int) -> int:
        """One of 0, …, count-1."""
        return int(self.number() * count)

    def chance(self, share: float) -> bool:
        """True in this share of cases."""
        return self.number() < share

    def numbers(self, *shape: int) -> Floats:
        """An array of numbers from 0 up to 1."""
        bits = self._bits.random_raw(math.prod(shape)) >> np.uint64(40)
        numbers: Floats = bits.astype(np.float32).reshape(shape) * np.float32(2.0**-24)
        return numbers

    def noise(self, *shape: int) -> Floats:
        """An array of nearly normal numbers of mean 0 and deviation 1: sums of four bytes, never beyond 3.5.

        >>> bool(abs(Draws(5).noise(100, 100)).max() < 3.5)
        True
        """
        size = math.prod(shape)
        words = self._bits.random_raw((size + 1) // 2).astype("<u8").view("<u4")[:size]
        pairs = (words & np.uint32(0x00FF00FF)) + ((words >> np.uint32(8)) & np.uint32(0x00FF00FF))
        sums = (pairs & np.uint32(0xFFFF)) + (pairs >> np.uint32(16))
        noise: Floats = (sums.astype(np.float32).reshape(shape) - _MEAN) * (1 / _DEVIATION)
        return noise

    def order(self, count: int) -> npt.NDArray[np.intp]:
        """0, …, count-1 in random order."""
        return np.argsort(self._bits.random_raw(count), kind="stable")
