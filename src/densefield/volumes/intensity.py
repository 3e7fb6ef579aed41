"""Intensities of any unit as levels 0…255, which colour widths refer to, with at most three channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError

Float32 = npt.NDArray[np.float32]
Array = npt.NDArray[Any]

LEVELS = 255.0
LOW, HIGH = 0.5, 99.5  # percentiles of the intensities near the edges of the mask
MOST_COMPONENTS = 3
RGB = 3  # channels of photos, whose distances in colour the learnt widths are for


@dataclass(frozen=True)
class Levels:
    """A linear scale from intensities (…, C) to levels (…, C') from 0 to 255.

    Parameters
    ----------
    low, high
        (C,): the intensities at 0 and at 255; those beyond are clipped.
    components
        (C, 3): what is left of more than three channels, an orthonormal projection; None for all channels.

    >>> Levels(np.array([-100.0]), np.array([300.0]))(np.array([[-1000], [100], [300]], np.int16)).tolist()
    [[0.0], [127.5], [255.0]]
    """

    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    components: npt.NDArray[np.float64] | None = None

    def __call__(self, values: Array, missing: npt.NDArray[np.bool_] | None = None) -> Float32:
        """The levels of intensities; those of `missing` pixels are 0."""
        low = self.low.astype(np.float32)
        scale = (LEVELS / np.maximum(self.high - self.low, np.finfo(np.float32).tiny)).astype(np.float32)
        levels: Float32 = np.array(values, np.float32, order="C")  # a copy
        np.nan_to_num(levels, copy=False)
        levels -= low
        levels *= scale
        np.clip(levels, 0, LEVELS, out=levels)
        if missing is not None:
            levels[missing] = 0
        if self.components is None:
            return levels
        # Distances of colours grow with the number of channels, and those of three are the usual ones.
        return np.asarray(levels @ (self.components * np.sqrt(RGB / len(low))).astype(np.float32))


def fitted_levels(
    values: Array,  # (N, C)
    window: tuple[float, float] | None = None,
    *,
    photo: bool = False,
    reduce: bool = True,
) -> Levels:
    """The scale for an image whose intensities near the edges of its mask are `values`.

    Parameters
    ----------
    values
        The intensities, without missing ones.
    window
        The intensities at 0 and at 255; by default percentiles of each channel.
    photo
        8 bits are levels already.
    reduce
        Project more than three channels to their first three principal components.

    >>> fitted_levels(np.arange(1001)[:, None]).high.tolist()
    [995.0]
    """
    count = values.shape[1]
    if window is not None:
        low, high = (np.full(count, float(each)) for each in window)
    elif photo and values.dtype == np.uint8:
        low, high = np.zeros(count), np.full(count, LEVELS)
    else:
        low, high = (np.percentile(values, each, axis=0).astype(np.float64) for each in (LOW, HIGH))
        flat = high <= low  # such as an image of two values, of which one is rare
        low = np.where(flat, values.min(axis=0), low)
        high = np.where(flat, values.max(axis=0), high)
    if count <= MOST_COMPONENTS or not reduce:
        return Levels(low, high)
    levels = Levels(low, high)(values).astype(np.float64)
    _, axes = np.linalg.eigh(np.cov(levels, rowvar=False))
    axes = axes[:, ::-1][:, :MOST_COMPONENTS]
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(MOST_COMPONENTS)])
    return Levels(low, high, axes * signs)


def checked_window(window: object) -> tuple[float, float] | None:
    """A window of intensities as two numbers.

    >>> checked_window((-160, 240))
    (-160.0, 240.0)
    """
    if window is None:
        return None
    numbers = np.asarray(window)
    if numbers.shape != (2,) or numbers.dtype.kind not in "iuf" or not np.isfinite(numbers).all():
        raise InputError(f"window is {window!r}, expected two numbers: the intensities at 0 and at 255.")
    low, high = (float(each) for each in numbers)
    if low >= high:
        raise InputError(f"window is {window!r}, expected a lower number before a higher one.")
    return low, high
