"""Unary scores from a mask of labels, probabilities, or logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from densefield.crf.arrays import Array, as_array, checked_ignore, checked_numbers, split_mask
from densefield.crf.label_mask import LabelMask, expanded, label_mask
from densefield.crf.native import new_array
from densefield.errors import InputError, InputTypeError, warn
from densefield.labels import PROBABILITY_RANGE, SUM_TOLERANCE, Void

Float32 = npt.NDArray[np.float32]

LEAST_PROBABILITY = 1e-5  # smaller ones are raised to it, so that no label is impossible


@dataclass(frozen=True)
class Unary:
    """Scores of the labels that occur, and the number of classes of the result.

    Labels that do not occur in a mask are left out: the result depends neither on their number nor on the numbering.
    """

    scores: Array  # (K, …)
    labels: npt.NDArray[np.intp] | None = None  # (K,): the label of each row; None for labels 0…L-1
    num_classes: int = 0  # L, if `labels` is given
    ignore: npt.NDArray[np.bool_] | None = None  # (…): pixels masked out by a masked array

    def expand(self, marginals: Float32) -> Float32:
        """Marginals (K, …) as (L, …), with 0 for labels that do not occur."""
        return marginals if self.labels is None else expanded(marginals, self.labels, self.num_classes)


def unary(
    probabilities: object = None,
    labels: object = None,
    logits: object = None,
    *,
    num_classes: int | None = None,
    void: Void = "auto",
    confidence: float = 0.7,
    ignore: npt.NDArray[np.bool_] | None = None,
) -> Unary:
    """Unary scores from one of the first three arguments; the parameters are those of refine().

    Masked elements of a masked array are added to `ignore`.

    >>> found = unary(labels=np.array([[0, 7, 255]]), confidence=0.9)
    >>> found.scores[:, 0].round(2), found.labels, found.num_classes
    (array([[-0.11, -2.3 , -0.69],
           [-2.3 , -0.11, -0.69]], dtype=float32), array([0, 7]), 8)
    """
    name = only_input(probabilities, labels, logits)
    ignore = checked_ignore(ignore)
    values, masked = split_mask({"probabilities": probabilities, "labels": labels, "logits": logits}[name])
    if name == "labels":
        mask = as_array(
            values,
            "labels are",
            "an array of integers (rows, columns)",
            "Use numpy.asarray(labels, dtype=numpy.uint8).",
        )
        return scores_of_mask(label_mask(mask, num_classes, void, _union(ignore, masked)), confidence)
    if masked is not None and masked.ndim > 2:
        masked = np.asarray(masked.any(axis=0))
    hidden = _union(ignore, masked)
    if name == "logits":
        f = as_array(
            values,
            "logits are",
            "a floating point array (classes, rows, columns)",
            "Use numpy.asarray(logits, dtype=numpy.float32).",
        )
        if f.ndim == 2:
            raise InputError(
                f"logits have shape {f.shape}, expected (classes, rows, columns). For one foreground score use "
                "numpy.stack([numpy.zeros_like(logits), logits])."
            )
        return Unary(f, ignore=hidden)
    return Unary(scores_from_probabilities(values, hidden), ignore=hidden)


def only_input(probabilities: object, labels: object, logits: object) -> str:
    """The name of the only argument that is given.

    >>> only_input(None, [[0, 1]], None)
    'labels'
    """
    given = {"probabilities": probabilities, "labels": labels, "logits": logits}
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise InputError(
            f"got {' and '.join(names) or 'neither probabilities nor labels nor logits'}, expected exactly one of them."
        )
    return names[0]


def scores_from_probabilities(probabilities: object, ignore: npt.NDArray[np.bool_] | None = None) -> Float32:
    """log p of probabilities (L, …), or of the foreground probability (rows, columns).

    Probabilities below 1e-5 count as 1e-5.

    >>> scores_from_probabilities(np.array([[0.25, 1.0]]))[:, 0].round(2)
    array([[ -0.29, -11.51],
           [ -1.39,   0.  ]], dtype=float32)
    """
    given = as_array(
        probabilities,
        "probabilities are",
        "a floating point array (classes, rows, columns)",
        "For a mask of labels use labels=.",
    )
    if not np.issubdtype(given.dtype, np.floating):
        raise InputTypeError(
            f"probabilities have dtype {given.dtype}, expected floating point numbers (classes, rows, columns). For a "
            "mask of labels use labels=."
        )
    p = np.asarray(given, np.float32)
    if p.ndim < 2 or len(p) == 0:
        raise InputError(
            f"probabilities have shape {p.shape}, expected (classes, rows, columns), or (rows, columns) for one "
            "foreground probability."
        )
    foreground = p.ndim == 2
    if ignore is not None and ignore.shape == (p.shape if foreground else p.shape[1:]):
        p = np.where(ignore, np.float32(0.5 if foreground else 1 / len(p)), p)
    if p.size:
        _check_probabilities(p, foreground)
    if foreground:
        p = np.stack([1 - p, p])
    scores = np.maximum(p, np.float32(LEAST_PROBABILITY), out=new_array(*p.shape))
    return np.log(scores, out=scores)  # type: ignore[no-any-return]


def _check_probabilities(p: Float32, foreground: bool) -> None:
    """Raises unless the values are probabilities (L, …), or those of the foreground (rows, columns)."""
    low, high = float(p.min()), float(p.max())
    if np.isnan(low):
        cure = "Leave those pixels out with ignore=numpy.isnan(probabilities).any(axis=0)."
        if foreground:
            cure = "Leave those pixels out with ignore=numpy.isnan(probabilities)."
        pixels = np.isnan(p) if foreground else np.isnan(p).any(axis=0)
        raise InputError(f"probabilities hold NaN at {int(pixels.sum())} of {pixels.size} pixels. {cure}")
    if low < PROBABILITY_RANGE[0] or high > PROBABILITY_RANGE[1]:
        raise InputError(
            f"probabilities range from {low:.4g} to {high:.4g}, expected 0 to 1. For raw scores use logits=."
        )
    if foreground:
        return
    total = p.sum(axis=0)
    if not np.allclose(total, 1, atol=SUM_TOLERANCE):
        hint = ""
        if np.allclose(p.sum(axis=-1), 1, atol=SUM_TOLERANCE):
            hint = " They do along the last axis: use numpy.moveaxis(probabilities, -1, 0)."
        elif len(p) == 1:
            hint = " For one foreground probability pass it as (rows, columns): probabilities[0]."
        raise InputError(
            f"probabilities sum to {float(total.min()):.4g} … {float(total.max()):.4g} over the labels (first axis), "
            f"expected 1.{hint}"
        )


def scores_of_mask(mask: LabelMask, confidence: float) -> Unary:
    """Scores of the labels that occur: log of the confidence, and of an equal share of the rest."""
    rows = len(mask.labels)
    probability = checked_numbers(confidence, "confidence", "a number")
    count = max(rows, 2)
    if probability.ndim or not 1 / count < probability < 1:
        raise InputError(
            f"confidence is {confidence}, expected a number above {1 / count:.3g}, at which {count} labels are equally "
            "probable, and below 1."
        )
    scores = new_array(rows, *mask.rows.shape)
    if rows == 1:
        scores.fill(0)
        return Unary(scores, mask.labels, mask.num_classes, mask.ignore)
    scores.fill(np.log((1 - confidence) / (rows - 1)))
    scores.reshape(rows, -1)[mask.rows.reshape(-1), np.arange(mask.rows.size)] = np.log(confidence)
    if mask.known is not None:
        scores[:, ~mask.known] = -np.log(rows)
    return Unary(scores, None if rows == mask.num_classes else mask.labels, mask.num_classes, mask.ignore)


def _union(one: Any, other: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
    if one is None or other is None:
        return other if one is None else one
    return np.asarray(one, bool) | other


def warn_of_scores(scores: Array) -> None:  # (L, …)
    """Warns if scores are probabilities or energies."""
    kind = kind_of_scores(scores)
    if kind == "probabilities":
        warn(
            "the scores are probabilities: they sum to one. Pass their logarithms, or use "
            "refine(image, probabilities=p)."
        )
    elif kind == "energies":
        warn("the scores are energies, -log p: the worst label wins. Pass -energies; higher scores are better.")


def kind_of_scores(scores: Array) -> Literal["scores", "probabilities", "energies"]:
    """The kind of scores (L, …), judged by a few pixels: probabilities sum to 1, energies are their -log.

    >>> kind_of_scores(np.full((4, 8, 8), 0.25)), kind_of_scores(np.full((4, 8, 8), np.log(4)))
    ('probabilities', 'energies')
    >>> kind_of_scores(np.zeros((2, 8, 8)))
    'scores'
    """
    pixels = scores.reshape(len(scores), -1)
    if len(scores) < 2 or not pixels.size:
        return "scores"
    places = np.linspace(0, pixels.shape[1] - 1, 64).astype(np.intp)
    sample = pixels[:, places].astype(np.float64)
    if not np.isfinite(sample).all():
        return "scores"
    if sample.min() >= PROBABILITY_RANGE[0] and np.allclose(sample.sum(axis=0), 1, atol=SUM_TOLERANCE):
        return "probabilities"
    if sample.min() >= PROBABILITY_RANGE[0] and np.allclose(np.exp(-sample).sum(axis=0), 1, atol=SUM_TOLERANCE):
        return "energies"
    return "scores"
