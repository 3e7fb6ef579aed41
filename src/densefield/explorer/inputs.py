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


@dataclass(frozen=True)
class Given:
    """What `refine` gets besides the image and the CRF.

    Parameters
    ----------
    kind
        "file" if the mask's file says it all, "labels" for labels with scribbles, "scores" for scores with scribbles.
    arguments
        The arguments of `refine`: one of labels, probabilities and logits, and what belongs to it.
    numbers
        The label of each row of `arguments`' scores; None if rows are labels.
    only_paint
        Labels are painted alone, and all other pixels are unknown.
    """

    kind: Kind
    arguments: dict[str, Any]
    numbers: npt.NDArray[np.intp] | None = None
    only_paint: bool = False


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
        return Given("labels", _labels(labels))
    unary = unary_of(picture, given)
    numbers = np.arange(len(unary.scores)) if unary.labels is None else unary.labels
    numbers, scores = _with_labels(numbers, np.array(unary.scores, np.float32), np.unique(painted[there]))
    rows, columns = np.nonzero(there)
    scores[:, rows, columns] = np.log((1 - settings.scribble_confidence) / max(len(numbers) - 1, 1))
    scores[np.searchsorted(numbers, painted[there]), rows, columns] = np.log(settings.scribble_confidence)
    return Given("scores", {"logits": scores}, numbers)


def _with_labels(
    numbers: npt.NDArray[np.intp], scores: npt.NDArray[np.float32], painted: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float32]]:
    """Scores with further rows for painted labels that the mask does not have, as improbable as its least probable."""
    every = np.union1d(numbers, painted).astype(np.intp)
    if len(every) == len(numbers):
        return numbers, scores
    more = np.empty((len(every), *scores.shape[1:]), np.float32)
    more[:] = scores.min(axis=0)
    more[np.searchsorted(every, numbers)] = scores
    return every, more


def _labels(labels: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """Labels as the file that is saved for them will be read: with two or more classes, and 255 for unknown."""
    highest = int(labels[labels != VOID].max())
    return {"labels": labels, "void": VOID, "num_classes": max(highest + 1, 2)}


def _confidence(settings: Settings, confidence: float) -> dict[str, Any]:
    """The confidence of labels, which the learnt model replaces by their roughness."""
    return {"confidence": confidence} if settings.model == "kernels" else {}
