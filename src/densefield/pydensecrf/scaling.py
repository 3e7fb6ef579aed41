"""Division of features by widths, with pydensecrf's rounding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError, InputTypeError
from densefield.pydensecrf.buffers import SMALLEST_WIDTH, Float32

Widths = float | Sequence[float] | npt.NDArray[np.floating]


def listed_widths(widths: object, name: str, count: int, what: str) -> list[Any]:
    """At most `count` widths, each as it came: its type decides how the quotient is rounded.

    One number stands for all. A width is a number other than 0 and NaN, or an array of them that fits the image.

    >>> listed_widths(3, "sdims", 2, "axes"), listed_widths((5.0, 4.0), "sdims", 3, "axes")
    ([3, 3], [5.0, 4.0])
    """
    expected = f"a number, or one for each of the {count} {what}"
    if isinstance(widths, Number) or (isinstance(widths, np.ndarray) and widths.ndim == 0):
        each: list[Any] = [widths] * count
    elif isinstance(widths, Iterable) and not isinstance(widths, str):
        each = list(widths)
    else:
        raise InputTypeError(f"{name} is {widths!r}, expected {expected}.")
    if len(each) > count:
        raise InputError(f"{name} is {widths!r}, expected {expected}.")
    for width in each:
        try:
            numbers = np.asarray(width)
        except ValueError:  # rows of unequal length
            raise InputError(f"{name} is {widths!r}, expected {expected}.") from None
        if numbers.dtype.kind not in "fiub":
            raise InputTypeError(f"{name} is {widths!r}, expected {expected}.")
        if not (np.abs(numbers.astype(np.float64)) >= SMALLEST_WIDTH).all():  # nor NaN
            raise InputError(f"{name} is {widths!r}, expected widths other than 0 and NaN.")
    return each


def divide(
    features: Float32,  # (k, …), changed in place
    widths: Sequence[Any],  # at most k
    name: str,
) -> None:
    """Divides each of the first features by its width.

    >>> features = np.ones((2, 1), np.float32)
    >>> divide(features, [4.0], "sdims")
    >>> features.tolist()
    [[0.25], [1.0]]
    """
    for index, width in enumerate(widths):
        feature = features[index, ...]  # a view, of a single number too
        try:
            with np.errstate(over="ignore"):  # a width beyond float32 is infinite
                feature /= width
        except ValueError:
            raise InputError(
                f"a width in {name} has shape {np.shape(width)}, expected a number, or an array that fits "
                f"{feature.shape}."
            ) from None
