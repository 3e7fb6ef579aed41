"""Integers in masks: the value that means "unknown", and binary masks."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError

VOID = 255  # label of unknown pixels, in PASCAL VOC and in most datasets after it
PROBABILITY_RANGE = (-1e-4, 1 + 1e-4)  # of the probabilities of labels, with room for rounding
SUM_TOLERANCE = 0.02  # the largest deviation of their sum over the labels from 1
BINARY_VALUES = (127, 128, 254, 255, 65535)  # foreground values of masks that are 0 elsewhere

Void = int | Literal["auto"] | None


def void_value(void: Void, labels: npt.NDArray[Any], num_classes: int | None = None) -> int | None:
    """The value that means "unknown", or None if every value is a class.

    "auto" is 255, unless there are more than 255 classes: then 255 is a class like any other.

    >>> void_value("auto", np.array([0, 1, 255])), void_value("auto", np.array([0, 255, 300]))
    (255, None)
    >>> void_value("auto", np.array([0, 255]), num_classes=300), void_value(0, np.array([0, 1]))
    (None, 0)
    """
    if void is None or (isinstance(void, int | np.integer) and not isinstance(void, bool)):
        return None if void is None else int(void)
    if void != "auto":
        raise InputError(
            f"void is {void!r}, expected the integer that means unknown, None for no such value, or 'auto'."
        )
    count = num_classes if num_classes is not None else int(labels.max(initial=0)) + 1
    # The largest value of a mask with a void value is that value itself.
    return VOID if count <= VOID or (num_classes is None and count == VOID + 1) else None


def binary_foreground(labels: npt.NDArray[Any], num_classes: int | None = None, void: Void = "auto") -> int | None:
    """The foreground value of a binary mask such as 0/255 or 0/128, or None if the integers are classes.

    A mask is binary if it holds only 0 and one of 127, 128, 254, 255 and 65535, apart from a `void` value, unless
    `num_classes` is more than two.

    >>> binary_foreground(np.array([0, 255, 255])), binary_foreground(np.array([0, 128]))
    (255, 128)
    >>> binary_foreground(np.array([0, 255]), num_classes=21), binary_foreground(np.array([0, 150]))
    (None, None)
    """
    if isinstance(void, int):
        labels = labels[labels != void]
    if labels.size == 0 or (num_classes is not None and num_classes > 2):
        return None
    highest = int(labels.max())
    if highest not in BINARY_VALUES or not bool(((labels == 0) | (labels == highest)).all()):
        return None
    return highest
