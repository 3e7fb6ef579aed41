"""From the arguments of refine() to a rough mask on its image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.crf.arrays import as_array, checked_ignore, checked_numbers, image_array, split_mask
from densefield.crf.features import checked_spacing
from densefield.crf.image_range import warn_of_image
from densefield.crf.kernels import Bilateral
from densefield.crf.label_mask import LabelMask, label_mask
from densefield.crf.options import CRFOptions
from densefield.errors import InputError
from densefield.filters.threads import check_threads
from densefield.labels import Void
from densefield.refinement.colour_model import TYPICAL_WIDTH, image_colours
from densefield.refinement.parameters import learnt
from densefield.refinement.rough_mask import Model, RefinedMask, mask_edges, refine_mask
from densefield.refinement.roughness import estimate_roughness

Ignore = npt.NDArray[np.bool_] | None


def refined_mask(
    image: npt.NDArray[Any],
    mask: LabelMask,
    roughness: float | None,
    iterations: int | None,
    spacing: Sequence[float] | None,
    data_range: float | Sequence[float] | None,
    threads: int | None,
) -> RefinedMask | None:
    """The refined mask, for other arguments of refine(); None if it has no edges."""
    options = CRFOptions(5 if iterations is None else iterations, data_range=data_range, threads=threads)
    given = None if roughness is None else checked_roughness(roughness)
    steps = checked_spacing(spacing, mask.rows.ndim)
    parameters = learnt().mask
    channels = image_colours(image, mask.rows.shape, mask.ignore, options.data_range)
    if _is_uniform(mask):
        return None
    model = Model(parameters, options.iterations)
    return refine_mask(mask, channels, model, spacing=steps, roughness=given, threads=check_threads(options.threads))


def mask_roughness(
    image: npt.NDArray[Any], mask: LabelMask, data_range: float | Sequence[float] | None, threads: int | None
) -> float | None:
    """The `roughness` of refine() that a mask (H, W) needs; None if mask or image have no edges.

    It is the estimated distance from the true edges, or the length of a displacement if that is larger, with a margin
    for rounding.
    """
    options = CRFOptions(data_range=data_range, threads=threads)
    if _is_uniform(mask):
        return None
    channels = image_colours(image, mask.rows.shape, mask.ignore, options.data_range)
    edges = mask_edges(mask, channels, checked_spacing(None, mask.rows.ndim), check_threads(options.threads))
    found = estimate_roughness(edges)
    if found is None:
        return None
    return max([found.width, *(1.001 * float(np.abs(move).sum()) for move in found.moves(edges.unit))])


def _is_uniform(mask: LabelMask) -> bool:
    """Whether a mask has no edges."""
    return len(mask.labels) == 1 or not mask.rows.size or (mask.known is not None and not mask.known.any())


def without_edges(mask: LabelMask) -> npt.NDArray[np.float32]:
    """Probabilities (K, …) of a mask without edges: all its labels are the same, or unknown."""
    return np.full((len(mask.labels), *mask.rows.shape), 1 / len(mask.labels), np.float32)


def mask_input(
    image: Any, labels: Any, num_classes: int | None, void: Void, ignore: Ignore
) -> tuple[npt.NDArray[Any], LabelMask]:
    """The image as an array, and the checked mask."""
    values, masked = split_mask(labels)
    array = as_array(
        values,
        "labels are",
        "an array of integers (rows, columns)",
        "Use numpy.asarray(labels, dtype=numpy.uint8).",
    )
    pixels, ignored = split_image(image, array.ndim, checked_ignore(ignore))
    if masked is not None:
        ignored = masked if ignored is None else masked | ignored
    mask = label_mask(array, num_classes, void, ignored)
    photo = image_array(pixels)
    check_label_shape(array.shape, photo.shape)
    if array.ndim not in (2, 3):
        raise InputError(
            f"labels have shape {array.shape}, expected (rows, columns), or (planes, rows, columns) of a volume."
        )
    checked_ignore(ignored, array.shape)
    return photo, mask


def split_image(image: Any, axes: int, ignore: Ignore) -> tuple[Any, Ignore]:
    """The image, and the ignored pixels with those that a masked array adds; `axes` are those of the pixel grid."""
    pixels, masked = split_mask(image)
    if masked is None:
        return pixels, ignore
    masked = np.asarray(masked.any(axis=-1)) if masked.ndim > axes else masked
    more = checked_ignore(ignore, masked.shape)
    return pixels, masked if more is None else masked | more


def checked_roughness(roughness: object) -> float:
    """The roughness in pixels as a number."""
    value = checked_numbers(roughness, "roughness", "a number of pixels above 0")
    if value.ndim or not 0 < value < 1e6:
        raise InputError(
            f"roughness is {roughness!r}, expected the distance of edges from the true ones in pixels, above 0; None "
            "estimates it."
        )
    return float(value)


def warn_of_range(image: npt.NDArray[Any], mask: LabelMask) -> None:
    """Warns if the image is probably not in 0…255."""
    if not mask.rows.size:
        return
    kernels = (Bilateral(sigma_rgb=TYPICAL_WIDTH),)
    channels = image.reshape(mask.rows.size, -1)
    warn_of_image(channels if mask.ignore is None else channels[~mask.ignore.reshape(-1)], channels.shape[1], kernels)


def check_label_shape(labels: tuple[int, ...], image: tuple[int, ...]) -> None:
    """Raises unless a mask has the size of the image."""
    if image in (labels, (*labels, image[-1] if image else 0)):
        return
    hint = ""
    if labels[:2] == image[:2] and len(labels) == 3:
        hint = " Use labels[..., 0]." if labels[2] == 1 else " For one-hot labels use labels.argmax(axis=-1)."
    elif labels == image[1:]:
        hint = " The image has its channels first: use numpy.moveaxis(image, 0, -1)."
    elif labels == image[1::-1]:
        hint = " Rows and columns are swapped."
    elif len(labels) == 2 and len(image) in (2, 3):
        hint = (
            f" Resize them without blending, such as by PIL.Image.NEAREST, to {image[0]} rows and {image[1]} columns."
        )
    raise InputError(f"labels have shape {labels}, but the image has {image}: expected {image[:2]}.{hint}")
