"""Reading an image and its labels from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from densefield.datasets.sample import Entry, Sample
from densefield.datasets.sbd import read_segmentation
from densefield.errors import InputError
from densefield.images.masks import not_labels
from densefield.images.palette import voc_labels
from densefield.images.reading import SIXTEEN_BITS, open_image, read_rgb
from densefield.labels import VOID

Bytes = npt.NDArray[np.uint8]

# Formats that do not keep labels. Programs that write GIF, Pillow too, renumber the palette.
SPOILERS = {"JPEG": "blurs labels", "MPO": "blurs labels", "GIF": "renumbers labels"}


def read_sample(entry: Entry, num_classes: int) -> Sample:
    """The sample, checked: labels within 0, …, L-1 or 255, and of the image's size."""
    if entry.mask is None:
        return Sample(read_photo(entry.image), None, entry.id)
    label = read_labels(entry.mask, num_classes)
    image = read_photo(entry.image, label.shape)
    check_size(entry, image, label)
    return Sample(image, label, entry.id)


def read_photo(path: Path, size: tuple[int, ...] | None = None) -> Bytes:
    """The colours of an image of a dataset."""
    try:
        return read_rgb(path, size)
    except InputError as error:
        raise InputError(f"{error} Fetch it again, or take its name out of the split.") from error


def read_labels(path: Path, num_classes: int) -> Bytes:
    """Labels (H, W) of an indexed or grey picture, or of a .mat file of SBD; 255 is void."""
    labels = read_segmentation(path) if path.suffix == ".mat" else _picture_labels(path)
    wrong = ((labels >= num_classes) | (labels < 0)) & (labels != VOID)
    if wrong.any():
        row, column = np.unravel_index(wrong.argmax(), wrong.shape)
        raise InputError(
            f"{path} has label {labels[row, column]} at row {row}, column {column}, expected 0 to {num_classes - 1} "
            f"(there are {num_classes} classes), or {VOID} for void. Renumber the mask, or name the missing classes."
        )
    return labels.astype(np.uint8)


def check_size(entry: Entry, image: Bytes, label: Bytes) -> None:
    """Raises where image and mask differ in size."""
    if image.shape[:2] != label.shape:
        raise InputError(
            f"{entry.mask} has {label.shape[1]} × {label.shape[0]} pixels (width × height), but {entry.image} has "
            f"{image.shape[1]} × {image.shape[0]}: expected the same size. Take the mask that belongs to this image, "
            "or resize the mask without blending its labels."
        )


def _picture_labels(path: Path) -> npt.NDArray[np.integer]:
    try:
        picture = open_image(path)
    except InputError as error:
        raise InputError(f"{error} Fetch it again, or take its name out of the split.") from error
    if picture.format in SPOILERS:
        raise InputError(f"{path} is a {picture.format}, which {SPOILERS[picture.format]}: save masks as PNG.")
    if picture.mode in ("P", "L", "1", *SIXTEEN_BITS):
        return np.asarray(picture).astype(np.uint8) if picture.mode == "1" else np.asarray(picture)
    raise InputError(_colour_coded(path, picture))


def _colour_coded(path: Path, picture: Image.Image) -> str:
    """What is wrong with a mask of colours; those of VOC are numbered by its palette, not by their order."""
    message = not_labels(path, picture)
    if picture.mode not in ("RGB", "RGBA"):
        return message
    if voc_labels(np.asarray(picture.convert("RGB"))) is not None:
        return f"{message} They are colours of PASCAL VOC, so number them by voc_labels() of densefield.images.palette."
    return message
