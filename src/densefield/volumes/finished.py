"""Finished tiles in a folder beside a result, so that the same command resumes after an interruption."""

from __future__ import annotations

import hashlib
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from densefield.errors import InputError
from densefield.io.files import write_atomically
from densefield.volumes.grid import Array

LEVEL = 1  # of compression of labels; probabilities hardly become smaller, and are stored as they are
DIGITS = 16  # of a fingerprint


class FinishedTiles:
    """The results of tiles, one file each. Those of other inputs or options are removed first.

    At the end of a block the folder is removed, also after wrong input, but not after an interruption. Names of files
    have the fingerprint, so that a run never reads tiles that another one writes at the same time.

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
        self.folder, self._key, self._dtype = tiles_folder(out), key, dtype
        for each in self.folder.glob("*"):
            if key not in each.name:
                each.unlink(missing_ok=True)

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
        stored = np.ascontiguousarray(values, self._dtype)
        content = zlib.compress(stored.data, 0 if stored.dtype.kind == "f" else LEVEL)  # with a checksum
        with suppress(FileNotFoundError):  # another run removed the folder meanwhile: the tile is computed again
            write_atomically(self._file(number), content)

    def remove(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, number: int) -> Path:
        return self.folder / f"{number}.{self._key}.z"


def tiles_folder(out: Path) -> Path:
    """The folder of the finished tiles of a result.

    >>> tiles_folder(Path("maps/refined.tif")).name
    '.refined.tif.tiles'
    """
    return out.with_name(f".{out.name}.tiles")


def input_state(out: Path, inputs: tuple[Path, ...]) -> str:
    """A text that changes with the files of inputs, by their sizes and times; taken before they are read.

    The time of the last change of a file's status tells files apart that were replaced with their earlier time.
    """
    lines = []
    for path in inputs:
        for file in _files(path, out):
            found = file.stat()
            lines.append(f"{file.resolve()} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}")
    return "\n".join(lines)


def fingerprint(state: str, options: object) -> str:
    """A short text that changes with the state of the inputs, with the options, and with the version."""
    text = "\n".join((version("densefield"), repr(options), state))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:DIGITS]


def _files(path: Path, out: Path) -> Iterator[Path]:
    """A file, or the files of a folder without the result, which may be inside, and what is written for it."""
    if not path.is_dir():
        yield path
        return
    place = out.parent.resolve()
    for folder, folders, names in os.walk(path):
        if Path(folder).resolve() == place:
            folders[:] = [name for name in folders if not _is_written(name, out)]
            names = [name for name in names if not _is_written(name, out)]
        folders.sort()
        yield from (Path(folder, name) for name in sorted(names))


def _is_written(name: str, out: Path) -> bool:
    """Whether a name beside a result is that of the result, of a temporary file of it, or of finished tiles."""
    return name == out.name or (name.startswith(".") and name.endswith((f".{out.name}", ".tiles")))
