"""JPEG files as arrays, by the fastest decoder that is there."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError
from densefield.files.images import open_image


def read_jpeg(path: Path) -> npt.NDArray[np.uint8]:
    """Colours (H, W, 3) of a JPEG file, by simplejpeg where it is installed and can read the file, else by Pillow.

    Both decode by libjpeg-turbo; simplejpeg does without Pillow's copies. Pixels are taken as they are stored.
    """
    decoder = _simplejpeg()
    if decoder is not None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise InputError(f"there is no file {path}.") from None
        try:
            colours: npt.NDArray[np.uint8] = decoder.decode_jpeg(content, colorspace="RGB")
            return colours
        except ValueError:
            pass  # not for it: Pillow reads more, or says what is wrong
    return np.asarray(open_image(path).convert("RGB"))


def _simplejpeg() -> Any:
    """The package, or None where it is not installed."""
    return import_module("simplejpeg") if find_spec("simplejpeg") is not None else None
