"""Masks of labels from users: which values are labels, which mean "unknown", and which pixels are ignored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from densefield.crf.arrays import Array
from densefield.errors import InputError, InputTypeError
from densefield.labels import Void, binary_foreground, void_value

MOST_LABELS = 1 << 16  # larger labels are identifiers, not classes


@dataclass(frozen=True)
class LabelMask:
    """A checked mask, in which the labels that occur are numbered 0…K-1.

    Labels that do not occur take no part: the result depends neither on their number nor on the numbering.

    Parameters
    ----------
    rows
        (…), int32: 0…K-1, and 0 where unknown.
    known
        (…): False where the label is unknown or ignored; None if all are known.
    labels
        (K,): the label of each number.
    num_classes
        The number of classes of the result.
    ignore
        (…): True for ignored pixels; None if there are none.
    """

    rows: npt.NDArray[np.int32]
    known: npt.NDArray[np.bool_] | None
    labels: npt.NDArray[np.intp]
    num_classes: int
    ignore: npt.NDArray[np.bool_] | None = None


def label_mask(
    given: Array, num_classes: int | None = None, void: Void = "auto", ignore: npt.NDArray[np.bool_] | None = None
) -> LabelMask:
    """A checked mask from an array of integers; the parameters are those of refine().

    >>> mask = label_mask(np.array([[0, 7, 255]]))
    >>> mask.rows.tolist(), mask.known.tolist(), mask.labels.tolist(), mask.num_classes
    ([[0, 1, 0]], [[True, True, False]], [0, 7], 8)
    """
    count = None if num_classes is None else _checked_count(num_classes)
    seen = None if ignore is None or ignore.shape != given.shape else ~ignore
    if seen is not None:
        given = np.where(seen, given, np.zeros((), given.dtype))  # ignored pixels may hold any values
    labels = _checked_labels(given, count)
    values = _values(labels if seen is None else labels[seen])
    foreground = binary_foreground(values, count, void)
    # 255 as foreground is not void too.
    unknown = void_value(None if foreground is not None and void == "auto" else void, values, count)
    known = None if unknown is None or unknown not in values else labels != unknown
    if seen is not None:
        known = seen if known is None else known & seen
    used = values if unknown is None else values[values != unknown]
    if foreground is not None:
        used, count = (used == foreground).astype(np.intp), 2
    least, most = (int(used[0]), int(used[-1])) if used.size else (0, 0)
    count = max(most + 1, 2) if count is None else count
    if least < 0 or most >= count:
        what = "" if unknown is None else f", or {unknown} where unknown"
        raise InputError(f"labels range from {least} to {most}, expected 0 to {count - 1}{what}.")
    # If all pixels are unknown, all labels are equally probable.
    found = np.unique(used).astype(np.intp) if used.size else np.arange(count)
    return LabelMask(_rows(labels, known, found, foreground), known, found, count, ignore)


def expanded(
    marginals: npt.NDArray[np.float32], labels: npt.NDArray[np.intp], num_classes: int
) -> npt.NDArray[np.float32]:
    """Marginals (K, …) of some labels as (num_classes, …), with 0 for the others.

    >>> expanded(np.ones((1, 2), np.float32), np.array([1]), 3).tolist()
    [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    """
    if len(labels) == num_classes:
        return marginals
    try:
        full = np.zeros((num_classes, *marginals.shape[1:]), np.float32)
    except MemoryError as error:
        raise InputError(
            f"the result has {num_classes} labels at {marginals[0].size} pixels, more than fits into memory. "
            "Number the labels from 0: values, labels = numpy.unique(labels, return_inverse=True)."
        ) from error
    full[labels] = marginals
    return full


def _values(labels: Array) -> Array:
    """The values that occur, sorted."""
    if labels.dtype.itemsize > 2 or labels.min(initial=0) < 0:
        return np.unique(labels)
    return np.flatnonzero(np.bincount(labels.reshape(-1)))


def _rows(
    labels: Array, known: npt.NDArray[np.bool_] | None, found: npt.NDArray[np.intp], foreground: int | None
) -> npt.NDArray[np.int32]:
    """The number of each pixel's label among those found, 0 where unknown."""
    if not labels.size:
        return np.zeros(labels.shape, np.int32)
    rows: npt.NDArray[np.int32]
    if foreground is not None:
        rows = np.searchsorted(found, labels == foreground).astype(np.int32)
    else:
        numbers = np.zeros(int(found[-1]) + 2, np.int32)  # the last is that of all others
        numbers[found] = np.arange(len(found))
        rows = numbers[np.clip(labels.astype(np.intp, copy=False), -1, len(numbers) - 1)]
    if known is not None:
        rows *= known
    return rows


def _checked_labels(given: Array, count: int | None) -> Array:
    if given.dtype == np.bool_:
        return given.view(np.uint8)
    if not np.issubdtype(given.dtype, np.integer):
        raise InputTypeError(
            f"labels have dtype {given.dtype}, expected integers (rows, columns). Use labels.astype(numpy.uint8), or "
            "probabilities= for probabilities."
        )
    if given.ndim == 3 and given.shape[-1] in (3, 4) and given.dtype == np.uint8:
        raise InputError(
            f"labels have shape {given.shape}, a picture in colours, expected integers (rows, columns). Number its "
            "colours first, or read an indexed PNG without converting it."
        )
    most = int(given.max(initial=0))
    if most >= max(MOST_LABELS, count or 0):
        raise InputError(
            f"labels go up to {most}, expected less than {MOST_LABELS}. Number them from 0: values, labels = "
            "numpy.unique(labels, return_inverse=True)."
        )
    return given


def _checked_count(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, SupportsIndex) or not 2 <= count.__index__() <= MOST_LABELS:
        raise InputError(
            f"num_classes is {count!r}, expected an integer from 2 to {MOST_LABELS}; None takes it from the labels."
        )
    return count.__index__()
