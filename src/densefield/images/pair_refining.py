"""Refining the mask of one image in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.diagnose.explain import explain
from densefield.diagnose.inputs import axes_in_wrong_order
from densefield.diagnose.result import Finding
from densefield.errors import InputError
from densefield.images.masks import ARRAYS, Form, Mask, read_mask
from densefield.images.pairs import Pair
from densefield.images.preview import draw_preview
from densefield.images.reading import Pixels, read_image
from densefield.images.refine_settings import DATA_RANGE, RefineSettings
from densefield.images.writing import ClassNumbers, best_labels, write_png, write_result
from densefield.io.messages import failure_line
from densefield.io.progress import Progress
from densefield.io.untrusted import check_array
from densefield.refinement.refine import refine
from densefield.volumes.refining import refine_file

MANY_CLASSES = 256


@dataclass(frozen=True)
class Outcome:
    """The result of one pair: its error, if any, and the findings of `explain`, if requested."""

    pair: Pair
    form: Form | None = None  # of the mask, if it could be read
    findings: tuple[Finding, ...] = ()
    error: str | None = None


def refine_pair(
    pair: Pair, settings: RefineSettings, threads: int | None = None, progress: Progress | None = None
) -> Outcome:
    """Refine one pair; an error of any type becomes one line of the outcome. `progress` is that of a volume's tiles."""
    form: Form | None = None
    findings: tuple[Finding, ...] = ()
    try:
        if pair.is_volume:
            return Outcome(pair, _refine_volume(pair, settings, threads, progress))
        _check_photo_settings(settings)
        mask = read_mask(
            pair.mask,
            logits=settings.logits,
            soft=settings.soft,
            num_classes=settings.num_classes,
            void=settings.void,
        )
        form = mask.form
        image = read_image(pair.image, mask.size)
        if settings.explain:  # before the size is checked, since the order of axes may be wrong
            findings = tuple(axes_in_wrong_order(image, mask.values, mask.values.ndim == 3))
        _check_size(pair, image, mask)
        if settings.explain:
            findings = tuple(explain(image, **_arguments(mask, settings, threads)))
        _check_memory(pair, mask, settings)
        probabilities, numbers = _refined(image, mask, settings, threads, pair.out.suffix.lower() not in ARRAYS)
        write_result(pair.out, probabilities, mask, numbers, settings.decode)
        if pair.preview is not None:
            after = best_labels(probabilities, numbers, settings.decode)
            write_png(pair.preview, draw_preview(image, mask.labels(), after, mask.palette))
    except ModuleNotFoundError:  # the other pairs need the library too
        raise
    except Exception as error:  # one damaged file must not stop a folder
        return Outcome(pair, form, findings, failure_line(error, pair.mask, pair.image))
    return Outcome(pair, form, findings)


def _refine_volume(pair: Pair, settings: RefineSettings, threads: int | None, progress: Progress | None) -> Form:
    """Refines a volume or raster."""
    only = {"soft=True": settings.soft, "explain=True": settings.explain, "preview=": pair.preview is not None}
    for given in (name for name, value in {**only, "decode=": settings.decode != "accuracy"}.items() if value):
        raise InputError(f"{given} is for photos, but {pair.image} is a volume or raster: leave it out.")
    done = refine_file(
        pair.image,
        pair.mask,
        pair.out,
        crf=settings.crf,
        iterations=settings.iterations,
        roughness=settings.roughness,
        temperature=settings.temperature,
        confidence=settings.confidence,
        num_classes=settings.num_classes,
        void=settings.void,
        logits=settings.logits,
        window=settings.window,
        spacing=settings.spacing,
        tile=settings.tile,
        threads=threads,
        progress=progress,
    )
    return done.form


def _check_photo_settings(settings: RefineSettings) -> None:
    """Raises if a setting is given that photos do not have."""
    given = {"window=": settings.window, "spacing=": settings.spacing, "tile=": settings.tile}
    for argument, value in given.items():
        if value is not None:
            raise InputError(f"{argument} is for volumes and rasters, but these are photos: leave it out.")


def _refined(
    image: Pixels, mask: Mask, settings: RefineSettings, threads: int | None, best_only: bool
) -> tuple[npt.NDArray[np.float32], ClassNumbers]:
    """Probabilities (L, H, W), and the labels of their rows.

    If only the best label is wanted, labels are renumbered: with a row for each number below a label such as 26001, a
    photo of half a megapixel would take 50 gigabytes.
    """
    arguments = _arguments(mask, settings, threads)
    lowest, highest = (int(mask.values.min()), int(mask.values.max())) if mask.form == "labels" else (0, 0)
    count = settings.num_classes or highest + 1
    if best_only and count > MANY_CLASSES and 0 <= lowest <= highest < count:  # otherwise refine() raises
        compact, numbers = mask.renumbered()
        if len(numbers):
            arguments |= {**compact.unary(), "num_classes": max(len(numbers), 2)}
            return refine(image, **arguments), numbers
    return refine(image, **arguments), None


def _check_memory(pair: Pair, mask: Mask, settings: RefineSettings) -> None:
    """Raise if the probabilities of the labels that occur, or of all classes for an array, exceed the limit."""
    if mask.values.ndim == 3:
        return  # as large as the file's array
    labels = mask.labels()
    used = np.flatnonzero(np.bincount(labels[labels >= 0].ravel(), minlength=1))
    count = len(used)
    if pair.out.suffix.lower() in ARRAYS:
        count = settings.num_classes or int(used.max(initial=1)) + 1
    check_array(pair.out, (count, *mask.size), 4 * count * labels.size)


def _arguments(mask: Mask, settings: RefineSettings, threads: int | None) -> dict[str, Any]:
    """The arguments of `refine` and `explain` except the image."""
    num_classes = 2 if mask.form == "binary" and settings.num_classes is None else settings.num_classes
    return {
        **mask.unary(),
        "roughness": settings.roughness,
        "temperature": settings.temperature,
        "confidence": settings.confidence,
        "num_classes": num_classes,
        "iterations": settings.iterations,
        "crf": settings.crf,
        "data_range": DATA_RANGE,
        "threads": threads,
    }


def _check_size(pair: Pair, image: Pixels, mask: Mask) -> None:
    if image.shape[:2] == mask.size:
        return
    message = (
        f"{pair.image} has {image.shape[1]} × {image.shape[0]} pixels (width × height), but {pair.mask} has "
        f"{mask.size[1]} × {mask.size[0]}: expected the same size."
    )
    if mask.values.ndim == 3 and mask.values.shape[:2] == image.shape[:2]:
        raise InputError(f"{message} Its labels come last: use numpy.moveaxis(array, -1, 0).")
    raise InputError(f"{message} Resize the mask without interpolating its labels.")
