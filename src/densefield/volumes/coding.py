"""What the numbers of a mask's file mean: labels, or probabilities of labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.crf.label_mask import MOST_LABELS
from densefield.errors import InputError
from densefield.labels import PROBABILITY_RANGE, SUM_TOLERANCE, Void, binary_foreground, void_value
from densefield.volumes.grid import Array, Grid, Pixels

Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

MOST_CLASSES = 1024  # of a file of probabilities


@dataclass(frozen=True)
class LabelCode:
    """The labels of a mask and how its file writes them.

    Parameters
    ----------
    values
        (K,): the labels that occur, as the file writes them, ascending.
    unknown
        The value of pixels whose label is not known; None if there is none.
    classes
        (K,): the class of each label: its value, or 0 and 1 in a binary mask.
    num_classes
        The number of classes.
    missing
        Whether there are pixels without data, which keep their value.
    """

    values: npt.NDArray[np.int64]
    unknown: int | None
    classes: npt.NDArray[np.intp]
    num_classes: int
    missing: bool = False

    def rows(self, values: Array) -> tuple[Int32, Bool | None]:
        """The number 0…K-1 of each pixel's label, 0 where unknown; and where it is known, None if everywhere.

        Pixels without data have the number of any label.
        """
        known = None if self.unknown is None else values != self.unknown
        if known is not None and known.all():
            known = None
        rows = np.searchsorted(self.values, values if known is None else np.where(known, values, self.values[0]))
        return np.minimum(rows, len(self.values) - 1).astype(np.int32), known


def label_code(
    found: Iterable[float],
    path: Any,
    num_classes: int | None = None,
    void: Void = "auto",
    *,
    missing: bool = False,
) -> LabelCode:
    """The code of a mask in which the values `found` occur, beside pixels without data if `missing`.

    >>> code = label_code([0, 7, 255], "mask.nii")
    >>> code.values.tolist(), code.unknown, code.num_classes
    ([0, 7], 255, 8)
    >>> label_code([0, 255], "mask.nii").classes.tolist()
    [0, 1]
    """
    numbers = np.array(sorted(found), np.float64)
    if not np.isfinite(numbers).all() or (numbers != np.rint(numbers)).any():
        raise InputError(f"{path} has values such as {_odd(numbers):.6g}, expected integers for labels.")
    values = numbers.astype(np.int64)
    foreground = binary_foreground(values, num_classes, void)
    unknown = void_value(None if foreground is not None and void == "auto" else void, values, num_classes)
    if unknown is not None and unknown not in values:
        unknown = None
    used = values if unknown is None else values[values != unknown]
    if not used.size:
        raise InputError(f"{path} has no label: all its pixels are unknown or without data.")
    classes = (used != 0).astype(np.intp) if foreground is not None else used.astype(np.intp)
    count = num_classes if num_classes is not None else 2 if foreground is not None else max(int(used[-1]) + 1, 2)
    most = num_classes if num_classes is not None else MOST_LABELS
    if int(classes.min()) < 0 or int(classes.max()) >= most:
        hint = "" if num_classes is not None else " Number them from 0."
        raise InputError(f"{path} has labels from {used[0]} to {used[-1]}, expected 0 to {most - 1}.{hint}")
    return LabelCode(used, unknown, classes, count, missing)


def check_scores(mask: Grid, num_classes: int | None) -> None:
    """Raises unless a mask with an axis of classes may hold probabilities or logits."""
    if mask.channels not in (None, 1) and mask.dtype.kind != "f":
        raise InputError(
            f"{mask.path} has {mask.describe()} of {mask.dtype}, expected integers without channels for labels, or "
            "floating point numbers for probabilities of classes."
        )
    count = 2 if mask.channels in (None, 1) else mask.channels
    if count is not None and (count > MOST_CLASSES or (num_classes is not None and count != num_classes)):
        expected = f"num_classes={num_classes}" if num_classes is not None else f"at most {MOST_CLASSES}"
        raise InputError(f"{mask.path} has {count} classes, expected {expected}.")


def probabilities_of(pixels: Pixels, path: Any) -> Array:
    """Probabilities (L, …) of the pixels (…, L) of a file, or of label 1 alone; missing ones are equally probable."""
    values = pixels.values.astype(np.float32)
    if pixels.missing is not None:
        values[pixels.missing] = 0.5 if values.shape[-1] == 1 else 1 / values.shape[-1]
    low, high = float(values.min(initial=0)), float(values.max(initial=0))
    if low < PROBABILITY_RANGE[0] or high > PROBABILITY_RANGE[1]:
        raise InputError(
            f"{path} has values from {low:.4g} to {high:.4g}, expected integers for labels, or probabilities from 0 to "
            "1. For raw scores pass logits=True."
        )
    if values.shape[-1] > 1:
        total = values.sum(axis=-1)
        if not np.allclose(total, 1, atol=SUM_TOLERANCE):
            raise InputError(
                f"{path} has probabilities that sum to {float(total.min()):.4g} … {float(total.max()):.4g} over the "
                "classes, expected 1. Divide them by their sum, and declare pixels without any as no data. For raw "
                "scores pass logits=True."
            )
    if values.shape[-1] == 1:
        return np.stack([1 - values[..., 0], values[..., 0]])
    return np.ascontiguousarray(np.moveaxis(values, -1, 0))


def _odd(numbers: npt.NDArray[np.float64]) -> float:
    """A number that is not an integer."""
    return float(numbers[~np.isfinite(numbers) | (numbers != np.rint(numbers))][0])
