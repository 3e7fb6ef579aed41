"""Sharpen masks in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from densefield.crf.checks import checked_numbers
from densefield.crf.crf import CRF, PHOTO_KERNELS
from densefield.crf.kernels import Custom, Kernel
from densefield.crf.native import new_array
from densefield.errors import InputError, InputTypeError

Array = npt.NDArray[np.floating]

LEAST_PROBABILITY = 1e-5  # smaller ones count as this, so that no pixel is beyond persuasion
VOID = 255


def refine(
    image: npt.NDArray[np.generic],  # (H, W, C) or (H, W), colours 0…255
    probabilities: Array | None = None,  # (L, H, W)
    *,
    labels: npt.NDArray[np.integer] | None = None,  # (H, W), 255 where unknown
    logits: Array | None = None,  # (L, H, W)
    num_labels: int | None = None,
    confidence: float = 0.7,
    kernels: Sequence[Kernel] = PHOTO_KERNELS,
    iterations: int = 5,
    threads: int | None = None,
) -> npt.NDArray[np.float32]:
    """Probabilities (L, H, W) that follow the edges of the image, from probabilities, a mask of labels, or logits.

    A mask's label is believed with `confidence`, the others share the rest; pixels labelled 255 are left open.

    >>> import numpy as np
    >>> image = np.zeros((4, 6, 3), np.uint8)
    >>> image[:, 3:] = 255
    >>> rough = np.array([[0, 0, 0, 0, 1, 1]] * 4)  # one column too wide
    >>> refine(image, labels=rough).argmax(0)[0]
    array([0, 0, 0, 1, 1, 1])
    """
    scores = unary_scores(probabilities, labels, logits, num_labels, confidence)
    crf = CRF(kernels, iterations=iterations, threads=threads)
    for kernel in crf.kernels:
        if isinstance(kernel, Custom):
            raise InputError(
                f"a kernel compares {kernel.feature!r}, but refine has positions and colours alone. Use "
                f"CRF(kernels).solve(scores, image, features={{{kernel.feature!r}: array}})."
            )
    return crf.marginals(scores, image)


def unary_scores(
    probabilities: Array | None = None,
    labels: npt.NDArray[np.integer] | None = None,
    logits: Array | None = None,
    num_labels: int | None = None,
    confidence: float = 0.7,
) -> Array:
    """Scores f (L, …) from the one of the three that is given.

    >>> import numpy as np
    >>> unary_scores(labels=np.array([[0, 1, 255]]), confidence=0.9)[:, 0].round(2)
    array([[-0.11, -2.3 , -0.69],
           [-2.3 , -0.11, -0.69]], dtype=float32)
    """
    given = [name for name, value in _named(probabilities, labels, logits) if value is not None]
    if len(given) != 1:
        raise InputError(
            f"got {' and '.join(given) or 'neither probabilities nor labels nor logits'}, expected exactly one of them."
        )
    if logits is not None:
        return logits
    if labels is not None:
        return scores_from_labels(labels, num_labels, confidence)
    assert probabilities is not None
    return scores_from_probabilities(probabilities)


def scores_from_probabilities(probabilities: object) -> npt.NDArray[np.float32]:
    """log p, for probabilities (L, …) that sum to one; those below 1e-5 count as 1e-5."""
    if not isinstance(probabilities, np.ndarray) or not np.issubdtype(probabilities.dtype, np.floating):
        came = probabilities.dtype if isinstance(probabilities, np.ndarray) else type(probabilities).__name__
        raise InputTypeError(
            f"probabilities are {came}, expected a floating point array (labels, rows, columns). For a mask of labels "
            "use labels=."
        )
    p = np.asarray(probabilities, np.float32)
    if p.ndim < 2 or len(p) == 0:
        raise InputError(f"probabilities have shape {p.shape}, expected (labels, rows, columns).")
    if p.size == 0:
        return p
    low, high = float(p.min()), float(p.max())
    if not (low >= -1e-4 and high <= 1 + 1e-4):
        raise InputError(
            f"probabilities range from {low:.4g} to {high:.4g}, expected 0 to 1. For raw scores use logits=."
        )
    total = p.sum(axis=0)
    if not np.allclose(total, 1, atol=0.02):
        hint = ""
        if np.allclose(p.sum(axis=-1), 1, atol=0.02):
            hint = " They do along the last axis: use numpy.moveaxis(probabilities, -1, 0)."
        raise InputError(
            f"probabilities sum to {float(total.min()):.4g} … {float(total.max()):.4g} over the labels (first axis), "
            f"expected 1.{hint}"
        )
    scores = np.maximum(p, np.float32(LEAST_PROBABILITY), out=new_array(*p.shape))
    return np.log(scores, out=scores)  # type: ignore[no-any-return]


def scores_from_labels(labels: object, num_labels: int | None, confidence: float) -> npt.NDArray[np.float32]:
    """log of the confidence for the label of each pixel, and of an equal share of the rest for the others."""
    if not isinstance(labels, np.ndarray) or not np.issubdtype(labels.dtype, np.integer):
        came = labels.dtype if isinstance(labels, np.ndarray) else type(labels).__name__
        raise InputTypeError(
            f"labels are {came}, expected an array of whole numbers (rows, columns). Use labels.astype(numpy.uint8)."
        )
    known = labels != VOID
    used = labels[known]
    most = int(used.max()) + 1 if used.size else 1
    count = max(most, 2) if num_labels is None else _checked_labels(num_labels)
    if used.size and (int(used.min()) < 0 or most > count):
        raise InputError(
            f"labels range from {int(used.min())} to {most - 1}, expected 0 to {count - 1}, or {VOID} where unknown."
        )
    believed = checked_numbers(confidence, "confidence", "a number")
    if believed.ndim or not 1 / count < believed < 1:
        raise InputError(
            f"confidence is {confidence}, expected more than {1 / count:.3g}, an even guess among {count} labels, and "
            "less than 1."
        )
    chosen = np.log(confidence)
    other = np.log((1 - confidence) / (count - 1))
    scores = new_array(count, *labels.shape)
    scores.fill(other)
    flat = scores.reshape(count, -1)
    flat[np.where(known, labels, 0).astype(np.intp, copy=False).ravel(), np.arange(labels.size)] = chosen
    if used.size < labels.size:
        scores[:, ~known] = -np.log(count)
    return scores


def _checked_labels(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, SupportsIndex) or count.__index__() < 2:
        raise InputError(f"num_labels is {count!r}, expected a whole number, 2 or more; None takes it from the labels.")
    return count.__index__()


def _named(probabilities: object, labels: object, logits: object) -> list[tuple[str, object]]:
    return [("probabilities", probabilities), ("labels", labels), ("logits", logits)]
