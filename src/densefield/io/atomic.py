"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_atomically(path: Path, content: bytes) -> None:
    """Writes to a temporary name beside the path and renames it, so that no reader ever sees a partial file.

    The content is on the disk before it has the name, and the name is on the disk when the function returns.
    """
    with open_atomically(path) as file:
        file.write(content)


@contextmanager
def open_atomically(path: Path, temporary: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write to, which becomes `path` at the end of the block; after an error nothing is left of it.

    * ``temporary``: its name until then, in the same folder; by default a new one each time.

    An error such as a full disk names `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    passing = temporary or path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        with passing.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(passing, path)
        sync_folder(path.parent)
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        passing.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Has the disk keep the names in a folder; systems that cannot, such as Windows, are left alone."""
    try:
        number = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(number)
    except OSError:
        pass
    finally:
        os.close(number)
