"""Writing results, whole or not at all."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from densefield.atomic import write_atomically
from densefield.errors import InputError
from densefield.files.masks import Mask
from densefield.files.palette import voc_palette

FORMATS = (".png", ".npy", ".npz")


def check_format(path: Path) -> None:
    """Raises where the ending of the name is none that results can be written to."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} ends in {path.suffix or 'nothing'!r}, expected one of {', '.join(FORMATS)}.")


def write_result(path: Path, probabilities: npt.NDArray[np.float32], mask: Mask) -> None:
    """Probabilities (L, H, W): as they are in .npy and .npz; in .png the best label, in the form of the mask."""
    check_format(path)
    buffer = BytesIO()
    if path.suffix.lower() == ".npy":
        np.save(buffer, probabilities)
    elif path.suffix.lower() == ".npz":
        np.savez_compressed(buffer, probabilities=probabilities)
    else:
        result_picture(path, probabilities, mask).save(buffer, "PNG")
    write_atomically(path, buffer.getvalue())


def result_picture(path: Path, probabilities: npt.NDArray[np.float32], mask: Mask) -> Image.Image:
    """The picture of the mask's own form: indexed with its palette, 0 and 255, soft, or grey labels."""
    if mask.form == "soft":
        return Image.fromarray(np.rint(probabilities[1] * 255).astype(np.uint8))
    count = len(probabilities)
    if count > 256:
        raise InputError(f"{path} cannot hold {count} labels, since PNG has 256: write .npy or .npz.")
    labels = probabilities.argmax(axis=0).astype(np.uint8)
    picture = Image.fromarray(labels * np.uint8(255) if mask.form == "object" else labels)
    if mask.palette is not None:
        # Labels beyond the mask's own palette get the colours of VOC.
        more = voc_palette()[len(mask.palette) : count]
        picture.putpalette(np.concatenate([mask.palette, more]).tobytes())
    return picture
