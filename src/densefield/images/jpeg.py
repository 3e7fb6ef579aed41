"""JPEG files as arrays, by a faster decoder than Pillow's where one is there."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.io.limits import check_pixels


def fast_jpeg(path: Path) -> npt.NDArray[np.uint8] | None:
    """Colours (H, W, 3) of a JPEG file by simplejpeg; None where that is not installed or does not read the file.

    It decodes by libjpeg-turbo as Pillow does, without Pillow's copies. Pixels are taken as they are stored. It does
    not read a file that is cut short. More pixels than the limit are an InputError.
    """
    decoder = _simplejpeg()
    if decoder is None:
        return None
    try:
        content = path.read_bytes()
        height, width, *_ = decoder.decode_jpeg_header(content)
    except (OSError, ValueError):
        return None
    check_pixels(path, width, height)
    try:
        colours: npt.NDArray[np.uint8] = decoder.decode_jpeg(content, colorspace="RGB")
    except ValueError:
        return None
    return colours


@cache
def _simplejpeg() -> Any:
    """The package, or None where it is not installed."""
    return import_module("simplejpeg") if find_spec("simplejpeg") is not None else None
