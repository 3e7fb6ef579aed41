"""From mask, scores and scribbles to the arguments of `densefield.refine`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from densefield.crf.unary import Unary
from densefield.errors import InputError
from densefield.explorer.gallery import Picture
from densefield.explorer.settings import Settings
from densefield.labels import VOID
from densefield.refinement.refine import inputs

Kind = Literal["file", "labels", "scores"]

RULED_OUT = -1e4  # score of labels that neither mask nor paint has
MOST_SCORES = 1 << 28  # numbers, 1 GB


@dataclass(frozen=True)
class Given:
    """What `refine` gets besides the image and the CRF.

    Parameters
    ----------
    kind
        "file" if the mask's file says it all, "labels" for labels with scribbles, "scores" for scores with scribbles.
    arguments
        The arguments of `refine`: one of labels, probabilities and logits, and what belongs to it.
    only_paint
        Labels are painted alone, and all other pixels are unknown.
    unpainted
        The mask of the file, if labels are painted over it: its roughness is that of the whole.
    """

    kind: Kind
    arguments: dict[str, Any]
    only_paint: bool = False
    unpainted: dict[str, Any] | None = None


def given_input(picture: Picture, settings: Settings) -> Given:
    """The input that the settings describe."""
    size = picture.size
    if settings.source == "scribbles" or (settings.source == "both" and picture.mask is None):
        labels = settings.painted(size)
        if len(np.unique(labels[labels != VOID])) < 2:
            raise InputError("Paint two labels or more: with one there is nothing to choose.")
        arguments = {**_labels(labels), **_confidence(settings, settings.scribble_confidence)}
        return Given("labels", arguments, only_paint=True)
    if picture.mask is None:
        raise InputError("There is no mask: paint two labels or more.")
    given = Given("file", _of_mask(picture, settings))
    if settings.source == "mask" or (settings.painted(size) == VOID).all():
        return given
    return _painted_over(picture, settings, given)


def unary_of(picture: Picture, given: Given) -> Unary:
    """The unary scores of an input, as `refine` makes them."""
    every: dict[str, Any] = dict.fromkeys(
        ("probabilities", "labels", "logits", "num_classes", "confidence", "temperature", "ignore")
    )
    return inputs(picture.pixels, **{**every, "void": "auto", **given.arguments})[1]


def _of_mask(picture: Picture, settings: Settings) -> dict[str, Any]:
    """The arguments for the mask's file alone."""
    mask = picture.mask
    assert mask is not None
    arguments = mask.unary()
    if "labels" not in arguments:
        return arguments if settings.temperature == 1 else {**arguments, "temperature": settings.temperature}
    count = 2 if mask.form == "binary" and picture.num_classes is None else picture.num_classes
    arguments |= {} if count is None else {"num_classes": count}
    return {**arguments, **_confidence(settings, settings.confidence)}


def _painted_over(picture: Picture, settings: Settings, given: Given) -> Given:
    """Scribbles over a mask: labels for the learnt model, else scores, in which the two are differently certain."""
    painted = settings.painted(picture.size)
    there = painted != VOID
    mask = picture.mask
    assert mask is not None
    if "labels" in given.arguments and settings.model == "learnt":
        known = mask.labels()
        if known.max() >= VOID:
            raise InputError(f"the mask has label {known.max()}, expected labels below {VOID} to paint over them.")
        labels = np.where(there, painted, np.where(known < 0, VOID, known)).astype(np.uint8)
        return Given("labels", _labels(labels), unpainted=given.arguments)
    return Given("scores", {"logits": _painted_scores(unary_of(picture, given), painted, settings.scribble_confidence)})


def _painted_scores(unary: Unary, painted: npt.NDArray[np.uint8], confidence: float) -> npt.NDArray[np.float32]:
    """Scores (L, H, W) of all labels 0 to L - 1, with those of painted pixels replaced.

    Painted labels that the mask does not have are elsewhere as improbable as its least probable label.
    """
    there = painted != VOID
    numbers = np.arange(len(unary.scores)) if unary.labels is None else unary.labels
    every = np.union1d(numbers, painted[there]).astype(np.intp)
    count = max(int(every[-1]) + 1, unary.num_classes or 0)
    if count * painted.size > MOST_SCORES:
        raise InputError(
            f"painting over this mask needs scores of {count} labels at {painted.size / 1e6:.1f} megapixels, "
            f"{4e-9 * count * painted.size:.1f} GB: number its labels from 0 without gaps, or explore a smaller copy."
        )
    scores = np.full((count, *painted.shape), RULED_OUT, np.float32)
    scores[every] = unary.scores.min(axis=0)
    scores[numbers] = unary.scores
    rows, columns = np.nonzero(there)
    scores[every[:, None], rows, columns] = np.log((1 - confidence) / max(len(every) - 1, 1))
    scores[painted[there], rows, columns] = np.log(confidence)
    return scores


def _labels(labels: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """Labels as the file that is saved for them will be read: with two or more classes, and 255 for unknown."""
    highest = int(labels[labels != VOID].max())
    return {"labels": labels, "void": VOID, "num_classes": max(highest + 1, 2)}


def _confidence(settings: Settings, confidence: float) -> dict[str, Any]:
    """The confidence of labels, which the learnt model replaces by their roughness."""
    return {"confidence": confidence} if settings.model == "kernels" else {}
