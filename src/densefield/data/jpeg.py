"""JPEG files as arrays, by a faster decoder than Pillow's where one is there."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


def fast_jpeg(path: Path) -> npt.NDArray[np.uint8] | None:
    """Colours (H, W, 3) of a JPEG file by simplejpeg; None where that is not installed or does not read the file.

    It decodes by libjpeg-turbo as Pillow does, without Pillow's copies. Pixels are taken as they are stored. A file
    that is cut short is none that it reads.
    """
    decoder = _simplejpeg()
    if decoder is None:
        return None
    try:
        colours: npt.NDArray[np.uint8] = decoder.decode_jpeg(path.read_bytes(), colorspace="RGB")
    except (OSError, ValueError):
        return None
    return colours


@cache
def _simplejpeg() -> Any:
    """The package, or None where it is not installed."""
    return import_module("simplejpeg") if find_spec("simplejpeg") is not None else None
