"""Saving results, and the inputs that copied text needs."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from densefield.explorer.gallery import Picture
from densefield.explorer.inference import Result
from densefield.images.masks import Mask
from densefield.images.palette import voc_palette
from densefield.images.writing import encoded_labels, write_png, write_result
from densefield.io.files import write_atomically


@dataclass(frozen=True)
class InputFile:
    """The file that holds the input of a result.

    Parameters
    ----------
    path
        The file.
    is_mask
        `read_mask` reads it, else `numpy.load`.
    new
        It was saved now, since no file had this input: scribbles, or scores in the size of the image.
    """

    path: Path
    is_mask: bool
    new: bool


def input_file(picture: Picture, result: Result, out: Path) -> InputFile:
    """The file with the input: that of the mask, or a new one in the folder `out`."""
    entry, arguments = picture.entry, result.given.arguments
    if result.given.kind == "file" and not picture.resized:
        assert entry.mask is not None
        return InputFile(entry.mask.absolute(), is_mask=True, new=False)
    folder, name = out.absolute(), entry.name
    if "labels" in arguments:
        path = folder / f"{name}-painted.png"
        write_png(path, arguments["labels"], voc_palette())
        return InputFile(path, is_mask=True, new=True)
    path = folder / f"{name}-scores.npy"
    buffer = BytesIO()
    np.save(buffer, arguments["logits" if "logits" in arguments else "probabilities"])
    write_atomically(path, buffer.getvalue())
    return InputFile(path, is_mask=False, new=True)


def save_result(picture: Picture, result: Result, out: Path) -> Path:
    """Writes the labels to `out`/NAME.png (`Entry.name`), and returns the path."""
    path = out.absolute() / f"{picture.entry.name}.png"
    write_result(path, result.marginals, _form(picture, result), result.numbers)
    return path


def _form(picture: Picture, result: Result) -> Mask:
    """The form in which the result is saved: that of the mask, unless it cannot hold the labels."""
    mask, most = picture.mask, int(result.numbers.max())
    if mask is not None and mask.values.ndim == 2 and (mask.form != "binary" or most <= 1):
        return mask
    return Mask("indexed", np.zeros(picture.size, np.uint8), voc_palette(), void=255)


def result_png(result: Result) -> bytes:
    """The labels as the content of a PNG, indexed if they fit, to download."""
    return encoded_labels(result.numbers[result.rows])
