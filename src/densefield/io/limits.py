"""Limits on what one file may hold, checked before memory is taken."""

from __future__ import annotations

import os
from pathlib import Path

from densefield.errors import InputError

MAX_PIXELS = 1 << 27  # 134 megapixels: 0.4 GB of colours
BYTES_PER_PIXEL = 32  # of an array: 4.3 GB, such as 21 probabilities in float32 at 51 megapixels
VARIABLE = "DENSEFIELD_MAX_PIXELS"


def max_pixels() -> int:
    """The largest number of pixels of an image or a mask: ``$DENSEFIELD_MAX_PIXELS``, else 2²⁷.

    >>> max_pixels()
    134217728
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return MAX_PIXELS
    if not (text.isascii() and text.isdecimal() and int(text[:20]) > 0):
        raise InputError(f"the environment variable {VARIABLE} is {text[:80]!r}, expected a positive integer.")
    return int(text[:20])


def check_pixels(path: Path, width: int, height: int) -> None:
    """Raises where a picture has more pixels than the limit.

    >>> check_pixels(Path("cat.jpg"), 50000, 40000)
    Traceback (most recent call last):
        ...
    densefield.errors.InputError: cat.jpg has 50000 × 40000 pixels, more than the limit of 134217728. Resize it, or \
raise the limit by the environment variable DENSEFIELD_MAX_PIXELS.
    """
    limit = max_pixels()
    if width * height > limit:
        raise InputError(
            f"{path} has {width} × {height} pixels, more than the limit of {limit}. Resize it, or {_cure()}"
        )


def check_array(path: Path, shape: tuple[int, ...], size: int) -> None:
    """Raises where an array of this shape, which takes so many bytes, is larger than the limit."""
    limit = BYTES_PER_PIXEL * max_pixels()
    if size > limit:
        raise InputError(
            f"{path} has an array of shape {shape}, that is {size} bytes, more than the limit of {limit}, which is "
            f"{BYTES_PER_PIXEL} bytes for each of {max_pixels()} pixels. Make it smaller, or {_cure()}"
        )


def _cure() -> str:
    return f"raise the limit by the environment variable {VARIABLE}."
