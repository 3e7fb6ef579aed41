"""Finished tiles in a folder beside a result, so that the same command resumes after an interruption."""

from __future__ import annotations

import hashlib
import os
import shutil
import zlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from densefield.errors import InputError
from densefield.io.files import write_atomically
from densefield.volumes.grid import Array

LEVEL = 1  # of compression: labels become small, and probabilities cost little time
KEY = "key"  # the file with the fingerprint


class FinishedTiles:
    """The results of tiles, one file each. Those of other inputs or options are removed first.

    At the end of a block the folder is removed, also after wrong input, but not after an interruption.

    Parameters
    ----------
    out
        The result, beside which the folder is.
    key
        The fingerprint of all that the result depends on.
    dtype
        The type of the numbers.
    """

    def __init__(self, out: Path, key: str, dtype: np.dtype[Any]) -> None:
        self.folder, self._dtype = tiles_folder(out), dtype
        given = self.folder / KEY
        if not given.is_file() or given.read_text(encoding="utf-8") != key:
            self.remove()
            write_atomically(given, key.encode())

    def __enter__(self) -> FinishedTiles:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, InputError):
            self.remove()

    def __contains__(self, number: int) -> bool:
        return self._file(number).is_file()

    def read(self, number: int, shape: tuple[int, ...]) -> Array | None:
        """The result of a tile; None if there is none, or if it is damaged."""
        try:
            content = zlib.decompress(self._file(number).read_bytes())
            return np.frombuffer(content, self._dtype).reshape(shape)
        except (FileNotFoundError, zlib.error, ValueError):
            return None

    def write(self, number: int, values: Array) -> None:
        """Keeps the result of a tile."""
        write_atomically(self._file(number), zlib.compress(values.astype(self._dtype, copy=False).tobytes(), LEVEL))

    def remove(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, number: int) -> Path:
        return self.folder / f"{number}.z"


def tiles_folder(out: Path) -> Path:
    """The folder of the finished tiles of a result.

    >>> tiles_folder(Path("maps/refined.tif")).name
    '.refined.tif.tiles'
    """
    return out.with_name(f".{out.name}.tiles")


def fingerprint(out: Path, inputs: tuple[Path, ...], options: object) -> str:
    """A text that changes with the files of the inputs, by size and time, with the options, and with the version."""
    lines = [version("densefield"), repr(options)]
    for path in inputs:
        for file in _files(path, out):
            found = file.stat()
            lines.append(f"{file.resolve()} {found.st_size} {found.st_mtime_ns}")
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _files(path: Path, out: Path) -> Iterator[Path]:
    """A file, or the files of a folder without the result, which may be inside, and what is written for it."""
    if not path.is_dir():
        yield path
        return
    is_inside = path.resolve() in out.resolve().parents
    for folder, folders, names in os.walk(path):
        folders.sort()
        if is_inside:
            own = (out.name, f".{out.name}.tiles")
            folders[:] = [name for name in folders if not name.endswith(own)]
        yield from (Path(folder, name) for name in sorted(names))
