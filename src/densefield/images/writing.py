"""Writing results atomically."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from densefield.errors import InputError
from densefield.images.masks import MAX_CLASSES, Mask
from densefield.images.palette import voc_palette
from densefield.images.tiff_tags import tiff_info
from densefield.io.files import write_atomically
from densefield.metrics.decoding import DecodingMetric, decode

TIFF = (".tif", ".tiff")
FORMATS = (".png", *TIFF, ".npy", ".npz")

ClassNumbers = npt.NDArray[np.intp] | None  # ascending


def check_format(path: Path) -> None:
    """Raise if results cannot be written to a file with this suffix."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} {ending_of(path)}, expected one of {', '.join(FORMATS)}.")


def ending_of(path: Path) -> str:
    """The ending of a name, as a predicate.

    >>> ending_of(Path("a.bmp")), ending_of(Path("a"))
    ("ends in '.bmp'", 'has no ending')
    """
    return f"ends in {path.suffix!r}" if path.suffix else "has no ending"


def write_png(path: Path, picture: npt.NDArray[np.uint8], palette: npt.NDArray[np.uint8] | None = None) -> None:
    """Write a picture (H, W, 3) or (H, W) as PNG, atomically; `palette` (256, 3) has the colours of labels (H, W)."""
    write_atomically(path, encoded_png(picture, palette))


def encoded_labels(labels: npt.NDArray[np.integer]) -> bytes:
    """The content of a PNG of labels (H, W): indexed with the colours of PASCAL VOC, or 16 bits if one exceeds 255."""
    if labels.max(initial=0) < 256:
        return encoded_png(labels.astype(np.uint8), voc_palette())
    return encoded_png(labels.astype(np.uint16))


def encoded_png(picture: npt.NDArray[np.unsignedinteger], palette: npt.NDArray[np.uint8] | None = None) -> bytes:
    """The content of a PNG of a picture (H, W, 3) or (H, W)."""
    buffer = BytesIO()
    image = Image.fromarray(picture)
    if palette is not None:
        image.putpalette(palette.tobytes())
    image.save(buffer, "PNG")
    return buffer.getvalue()


def write_result(
    path: Path,
    probabilities: npt.NDArray[np.float32],
    mask: Mask,
    numbers: ClassNumbers = None,
    metric: DecodingMetric = "accuracy",
) -> None:
    """Write probabilities (L, H, W) to .npy and .npz, and the best labels to pictures, in the form of the mask.

    `numbers` are the labels of the rows of `probabilities`, (L,), by default 0, …, L-1; `metric` is what the labels are
    chosen for.
    """
    check_format(path)
    suffix = path.suffix.lower()
    buffer = BytesIO()
    if suffix == ".npy":
        np.save(buffer, probabilities)
    elif suffix == ".npz":
        np.savez_compressed(buffer, probabilities=probabilities)
    elif suffix == ".png":
        _result_picture(path, probabilities, mask, numbers, metric).save(buffer, "PNG")
    else:
        picture = _result_picture(path, probabilities, mask, numbers, metric)
        alike = "colours" not in mask.form and (picture.mode == "I;16") == mask.sixteen_bits
        picture.save(buffer, "TIFF", compression="tiff_lzw", tiffinfo=tiff_info(mask.tags, described=alike))
    write_atomically(path, buffer.getvalue())


def best_labels(
    probabilities: npt.NDArray[np.float32], numbers: ClassNumbers = None, metric: DecodingMetric = "accuracy"
) -> npt.NDArray[np.intp]:
    """The label of each pixel, (H, W): the most probable, or the choice for another metric.

    >>> best_labels(np.array([[[0.2, 0.9]], [[0.8, 0.1]]], np.float32), np.array([7, 300])).tolist()
    [[300, 7]]
    """
    rows: npt.NDArray[np.intp] = probabilities.argmax(axis=0) if metric == "accuracy" else decode(probabilities, metric)
    return rows if numbers is None else numbers[rows]


def _result_picture(
    path: Path, probabilities: npt.NDArray[np.float32], mask: Mask, numbers: ClassNumbers, metric: DecodingMetric
) -> Image.Image:
    """The picture in the form of the mask: indexed with its palette, binary with its two values, soft, or grey labels.

    Grey labels have 16 bits if the mask has, or if there are more than 256 classes.
    """
    if mask.form == "soft":
        return Image.fromarray(np.rint(probabilities[1] * 255).astype(np.uint8))
    labels = best_labels(probabilities, numbers, metric)
    if mask.form == "binary":
        return Image.fromarray((labels * mask.foreground).astype(np.uint16 if mask.sixteen_bits else np.uint8))
    count = len(probabilities) if numbers is None else int(numbers[-1]) + 1
    if count > MAX_CLASSES:
        raise InputError(f"{path} cannot hold {count} labels, since pictures have 16 bits: write .npy or .npz.")
    if mask.sixteen_bits or count > 256:
        return Image.fromarray(labels.astype(np.uint16))
    picture = Image.fromarray(labels.astype(np.uint8))
    if mask.palette is not None:
        more = voc_palette()[len(mask.palette) : count]  # labels beyond the mask's palette
        picture.putpalette(np.concatenate([mask.palette, more]).tobytes())
    return picture
