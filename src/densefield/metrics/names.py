"""Names of images as numbers."""

from __future__ import annotations

from hashlib import blake2b

from densefield.errors import InputTypeError


def image_key(name: object) -> int:
    """A number, never 0, that stands for the name of an image in tensors; equal names have equal numbers.

    >>> image_key("2007_000033") == image_key("2007_000033") != image_key("2007_000042")
    True
    """
    if not isinstance(name, str):
        raise InputTypeError(f"the name of an image is {name!r}, expected a str. Use str(name).")
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little", signed=True) or 1
