"""Checks that several parts of the CRF share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from densefield.errors import InputTypeError


def checked_numbers(value: object, name: str, expected: str) -> npt.NDArray[np.float64]:
    """Numbers of any shape as a new array; raises for what is no number.

    >>> checked_numbers([1, 2.5], "sigma", "a width, or one for each axis")
    array([1. , 2.5])
    """
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.asarray("")
    if array.dtype.kind not in "iuf":
        raise InputTypeError(f"{name} is {value!r}, expected {expected}.")
    return array.astype(np.float64)
