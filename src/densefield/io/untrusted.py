"""Reading untrusted arrays, and size limits that are checked before memory is allocated."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy.typing as npt
from numpy.lib import format as npy_format

from densefield.errors import InputError
from densefield.io.messages import cause

MAX_PIXELS = 1 << 27  # 134 megapixels: 0.4 GB of colours
BYTES_PER_PIXEL = 32  # of an array: 4.3 GB, such as 21 probabilities in float32 at 51 megapixels
VARIABLE = "DENSEFIELD_MAX_PIXELS"
ZIP = b"PK"
HEADERS: dict[tuple[int, int], Callable[[IO[bytes]], tuple[Any, bool, Any]]] = {
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
}

Array = npt.NDArray[Any]


def max_pixels() -> int:
    """Maximum number of pixels of an image or a mask: ``$DENSEFIELD_MAX_PIXELS``, by default 2²⁷.

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
    """Raise if an image has more pixels than the limit.

    >>> check_pixels(Path("cat.jpg"), 50000, 40000)
    Traceback (most recent call last):
        ...
    densefield.errors.InputError: cat.jpg has 50000 × 40000 pixels, more than the limit of 134217728. Resize it, or \
raise the limit by the environment variable DENSEFIELD_MAX_PIXELS.
    """
    limit = max_pixels()
    if width * height > limit:
        raise InputError(
            f"{path} has {width} × {height} pixels, more than the limit of {limit}. Resize it, or raise the limit by "
            f"the environment variable {VARIABLE}."
        )


def check_array(path: Path, shape: tuple[int, ...], size: int) -> None:
    """Raise if an array of this shape and size in bytes is larger than the limit."""
    limit = BYTES_PER_PIXEL * max_pixels()
    if size > limit:
        raise InputError(
            f"{path} has an array of shape {shape}, that is {size} bytes, more than the limit of {limit}, which is "
            f"{BYTES_PER_PIXEL} bytes for each of {max_pixels()} pixels. Make it smaller, or raise the limit by the "
            f"environment variable {VARIABLE}."
        )


def read_array(path: Path, choose: Callable[[list[str]], str]) -> tuple[str, Array]:
    """Read the array of a .npy file, with the name "", or one array of an .npz file and its name.

    `choose` is called with the names of the arrays of an .npz file, and returns one of them, or raises. Any error is an
    InputError that names the file. Pickled objects, and arrays larger than the file or the limit, are refused.

    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "a.npz"), first=np.arange(3), second=np.zeros(2))
    ...     read_array(Path(folder, "a.npz"), lambda names: names[0])
    ('first', array([0, 1, 2]))
    """
    try:
        with path.open("rb") as file:
            is_archive = file.read(len(ZIP)) == ZIP
            file.seek(0)
            if not is_archive:
                return "", _checked_array(path, lambda: file, os.fstat(file.fileno()).st_size)
            with zipfile.ZipFile(file) as archive:
                members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
                name = choose(list(members))
                member = members[name]
                return name, _checked_array(path, lambda: archive.open(member), member.file_size)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except InputError:
        raise
    except Exception as error:  # damaged files raise errors of many types: zlib.error, BadZipFile, SyntaxError, …
        raise InputError(
            f"{path} cannot be read as an array: it is damaged, or not what numpy.save writes ({cause(error)})."
        ) from error


def _checked_array(path: Path, open_content: Callable[[], IO[bytes]], size: int) -> Array:
    """Read an array after its header is checked against the limit and the size of the file or archive member."""
    content = open_content()
    version = npy_format.read_magic(content)
    if version not in HEADERS:
        raise InputError(f"{path} has version {version} of NumPy's format, expected 1.0 or 2.0: save it again.")
    shape, _, dtype = HEADERS[version](content)
    if dtype.hasobject:
        raise InputError(f"{path} holds Python objects, which are not read, since that could run code: save numbers.")
    if not all(type(side) is int and side >= 0 for side in shape):
        raise InputError(f"{path} has an array of shape {shape}, expected integers from 0.")
    needed = math.prod(shape) * dtype.itemsize
    check_array(path, shape, needed)
    if content.tell() + needed > size:
        raise InputError(
            f"{path} is cut short: an array of shape {shape} and type {dtype} takes {needed} bytes, but it has "
            f"{max(size - content.tell(), 0)}."
        )
    again = open_content()
    again.seek(0)
    array: Array = npy_format.read_array(again, allow_pickle=False)
    return array
