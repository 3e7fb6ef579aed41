"""Scored images from arrays and tensors: triples of scores, image and true labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import interpolate

from densefield.crf.unary import LEAST_PROBABILITY
from densefield.datasets.adapter import colour_array, label_array
from densefield.datasets.folder import check_classes
from densefield.errors import InputError, InputTypeError
from densefield.runs.score_files import checked_scores
from densefield.runs.scored_images import ScoredImage, ScoreSource

EXPECTED = "a triple (scores, image, labels), a dict with these keys, or a ScoredImage"
NONE_GIVEN = f"there are no scored images, expected one or more, each {EXPECTED}."
Triples = Iterable[Any]  # (scores, image, labels) each


def is_source(source: object) -> bool:
    """Whether these are scored images already, such as those of `open_scores`."""
    return all(hasattr(source, name) for name in ("classes", "ids", "__len__", "__getitem__"))


def as_score_source(
    source: ScoreSource | Triples, classes: Sequence[str] | None = None, *, probabilities: bool = False
) -> ScoreSource:
    """Scored images from any triples (scores, image, labels).

    Parameters
    ----------
    source
        A sequence of triples, which is read as needed, or another iterable, which is read into memory. Scores are
        logits (L, h, w) in floating point numbers of any resolution, and are resized to the image bilinearly. Images
        are colours 0…255, (H, W, 3) or (3, H, W); labels are (H, W), with 255 for void. All may be arrays or tensors.
        Scored images, such as those of `open_scores`, are returned as they are.
    classes
        The names of the classes, by default numbers; the first scores say how many there are.
    probabilities
        The scores are probabilities rather than logits.

    >>> scores, image = np.zeros((2, 5, 6), np.float32), np.zeros((20, 24, 3), np.uint8)
    >>> source = as_score_source([(scores, image, np.ones((20, 24), int))])
    >>> source.ids, source.classes, source[0].scores.shape
    (('image_000000',), ('0', '1'), torch.Size([2, 20, 24]))
    """
    if is_source(source):
        return source  # type: ignore[return-value]
    if not (hasattr(source, "__len__") and hasattr(source, "__getitem__")) or isinstance(source, Mapping):
        source = list(_iterated(source))
    return ScoredArrays(source, classes, probabilities)


class ScoredArrays:
    """Triples as scored images, converted when they are read."""

    def __init__(self, triples: Any, classes: Sequence[str] | None, probabilities: bool) -> None:
        if len(triples) == 0:
            raise InputError(NONE_GIVEN)
        self._triples, self._probabilities = triples, probabilities
        self.classes = class_names(triples[0], classes)
        self.ids = tuple(image_name(number) for number in range(len(triples)))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> ScoredImage:
        return to_scored(self._triples[index], self.ids[index], len(self.classes), self._probabilities)


class NumberedImages(NamedTuple):
    """Scored images one after the other, each by a function; the source is None if they can be read only once."""

    classes: tuple[str, ...]
    items: Iterator[tuple[str, Callable[[], ScoredImage]]]
    total: int  # 0 if unknown
    source: ScoreSource | None


def numbered_images(
    source: ScoreSource | Triples, classes: Sequence[str] | None, probabilities: bool, *, keep: bool
) -> NumberedImages:
    """The images of a source, or of triples; other iterables than sequences are read once unless they are to `keep`."""
    if keep or hasattr(source, "__getitem__"):
        known = as_score_source(source, classes, probabilities=probabilities)
        items = ((name, partial(known.__getitem__, number)) for number, name in enumerate(known.ids))
        return NumberedImages(known.classes, items, len(known), known)
    iterator = _iterated(source)
    first = next(iterator, None)
    if first is None:
        raise InputError(NONE_GIVEN)
    names = class_names(first, classes)
    every = ((image_name(number), triple) for number, triple in enumerate(chain([first], iterator)))
    converted = ((name, partial(to_scored, triple, name, len(names), probabilities)) for name, triple in every)
    return NumberedImages(names, converted, 0, None)


def image_name(number: int) -> str:
    """The name of an image without one.

    >>> image_name(7)
    'image_000007'
    """
    return f"image_{number:06d}"


def class_names(triple: object, classes: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the classes, or numbers, as many as the triple has scores."""
    id = image_name(0)
    given, image, _ = _parts(triple, id)
    scores = _array(given, id)
    if scores.ndim != 3:
        checked_scores(scores, id, None, False)  # raises
    size = colour_array(image, id).shape[:2]
    if scores.shape[:2] == size != scores.shape[1:]:
        raise InputError(
            f"{id} holds scores of shape {scores.shape} for an image of {size[0]}×{size[1]} pixels, expected (classes, "
            "rows, columns). The classes are its last axis: use numpy.moveaxis(scores, -1, 0)."
        )
    count = len(scores)
    names = [str(label) for label in range(count)] if classes is None else classes
    checked = check_classes(names, "classes")
    if len(checked) != count:
        raise InputError(f"classes has {len(checked)} names, but {id} has scores of {count} classes.")
    return checked


def to_scored(triple: object, id: str, num_classes: int, probabilities: bool) -> ScoredImage:
    """One triple as a scored image, checked; errors begin with its `id`."""
    if isinstance(triple, ScoredImage):
        return triple
    given, image, labels = _parts(triple, id)
    values = checked_scores(_array(given, id), id, num_classes, probabilities)
    colours = colour_array(image, id)
    truth = label_array(labels, id, colours.shape[:2], num_classes)
    size = colours.shape[:2]
    scores = interpolate(torch.from_numpy(values)[None], size, mode="bilinear", align_corners=False)[0]
    if probabilities:
        scores = scores.clamp(min=LEAST_PROBABILITY).log()
    seen = torch.from_numpy(np.ascontiguousarray(colours.transpose(2, 0, 1)))
    return ScoredImage(scores, seen, torch.from_numpy(truth.astype(np.int64)), id)


def _parts(triple: object, id: str) -> tuple[Any, Any, Any]:
    if isinstance(triple, ScoredImage):
        return triple.scores, triple.image, triple.labels
    if isinstance(triple, Mapping) and {"scores", "image", "labels"} <= set(triple):
        return triple["scores"], triple["image"], triple["labels"]
    if isinstance(triple, tuple | list) and len(triple) == 3:
        return triple[0], triple[1], triple[2]
    came = f"{len(triple)} values" if isinstance(triple, tuple | list) else f"of type {type(triple).__name__}"
    raise InputTypeError(f"{id} is {came}, expected {EXPECTED}.")


def _array(scores: Any, id: str) -> Any:
    """The scores as an array."""
    if isinstance(scores, torch.Tensor):
        return scores.detach().float().cpu().numpy()
    if not hasattr(scores, "__array__"):
        raise InputTypeError(
            f"{id}: the scores are of type {type(scores).__name__}, expected an array or a tensor (L, h, w)."
        )
    return np.asarray(scores)


def _iterated(triples: Triples) -> Iterator[Any]:
    if not isinstance(triples, Iterable) or isinstance(triples, str | bytes | Mapping):
        raise InputTypeError(
            f"the scored images are of type {type(triples).__name__}, expected an iterable of {EXPECTED}."
        )
    return iter(triples)
