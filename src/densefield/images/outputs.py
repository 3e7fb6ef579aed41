"""Writing results, each file completely or not at all."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from densefield.errors import InputError
from densefield.images.masks import MOST_LABELS, Mask
from densefield.images.palette import voc_palette
from densefield.io.atomic import write_atomically

TIFF = (".tif", ".tiff")
FORMATS = (".png", *TIFF, ".npy", ".npz")

Numbers = npt.NDArray[np.intp] | None  # ascending


def check_format(path: Path) -> None:
    """Raises where results cannot be written to a file with this suffix."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} ends in {path.suffix or 'nothing'!r}, expected one of {', '.join(FORMATS)}.")


def write_result(path: Path, probabilities: npt.NDArray[np.float32], mask: Mask, numbers: Numbers = None) -> None:
    """Writes probabilities (L, H, W) to .npy and .npz, and the best label to pictures, in the form of the mask.

    `numbers` are the labels that the rows of the probabilities are for, (L,), by default 0, …, L-1.
    """
    check_format(path)
    suffix = path.suffix.lower()
    buffer = BytesIO()
    if suffix == ".npy":
        np.save(buffer, probabilities)
    elif suffix == ".npz":
        np.savez_compressed(buffer, probabilities=probabilities)
    elif suffix == ".png":
        result_picture(path, probabilities, mask, numbers).save(buffer, "PNG")
    else:
        result_picture(path, probabilities, mask, numbers).save(buffer, "TIFF", compression="tiff_lzw")
    write_atomically(path, buffer.getvalue())


def best_labels(probabilities: npt.NDArray[np.float32], numbers: Numbers = None) -> npt.NDArray[np.intp]:
    """The most probable label of each pixel, (H, W).

    >>> best_labels(np.array([[[0.2, 0.9]], [[0.8, 0.1]]], np.float32), np.array([7, 300])).tolist()
    [[300, 7]]
    """
    rows: npt.NDArray[np.intp] = probabilities.argmax(axis=0)
    return rows if numbers is None else numbers[rows]


def result_picture(
    path: Path, probabilities: npt.NDArray[np.float32], mask: Mask, numbers: Numbers = None
) -> Image.Image:
    """The picture in the form of the mask: indexed with its palette, binary with its two values, soft, or grey labels.

    Grey labels have 16 bits where the mask has, or where there are more than 256 of them.
    """
    if mask.form == "soft":
        return Image.fromarray(np.rint(probabilities[1] * 255).astype(np.uint8))
    labels = best_labels(probabilities, numbers)
    if mask.form == "object":
        return Image.fromarray((labels * mask.foreground).astype(np.uint16 if mask.deep else np.uint8))
    count = len(probabilities) if numbers is None else int(numbers[-1]) + 1
    if count > MOST_LABELS:  # of 16 bits
        raise InputError(f"{path} cannot hold {count} labels, since pictures have 16 bits: write .npy or .npz.")
    if mask.deep or count > 256:
        return Image.fromarray(labels.astype(np.uint16))
    picture = Image.fromarray(labels.astype(np.uint8))
    if mask.palette is not None:
        # Labels beyond the mask's own palette get the colours of VOC.
        more = voc_palette()[len(mask.palette) : count]
        picture.putpalette(np.concatenate([mask.palette, more]).tobytes())
    return picture
