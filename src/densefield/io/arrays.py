"""Reading arrays that are not trusted: .npy and .npz files, whose headers are checked before memory is taken."""

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
from densefield.io.limits import check_array
from densefield.io.printable import cause

SUFFIX = ".npy"  # of the members of an archive
ZIP = b"PK"
HEADERS: dict[tuple[int, int], Callable[[IO[bytes]], tuple[Any, bool, Any]]] = {
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
}

Array = npt.NDArray[Any]


def read_array(path: Path, choose: Callable[[list[str]], str]) -> tuple[str, Array]:
    """The array of a .npy file, under the name "", or one array of an .npz file and its name.

    * ``choose`` is called with the names of the arrays of an .npz file, and returns one of them, or raises.

    Whatever is wrong with the file is an InputError that names it. Pickled objects are refused, and so is an array
    that is larger than the file says, or larger than the limit (see `densefield.io.limits`).

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
                members = {info.filename.removesuffix(SUFFIX): info for info in archive.infolist()}
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
    """The array in a file, or in a member of an archive, of so many bytes."""
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
