"""Atomic writing of files, and reading of JSON files."""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from densefield.errors import InputError
from densefield.io.messages import cause


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it, so that no reader ever sees a partial file.

    Missing parent folders are created. The content is synced to disk before the rename, and the rename before return.
    """
    with open_atomically(path) as file:
        file.write(content)


@contextmanager
def open_atomically(path: Path, temporary: Path | None = None, *, sync: bool = True) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces `path` at the end of the block; after an error nothing changes.

    Until then its name is `temporary`, in the same folder. Errors such as a full disk name `path`. Without `sync`, the
    file may be lost if the system crashes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_atomically(Path(folder, "a.txt")) as file:
    ...         _ = file.write(b"content")
    ...     [path.name for path in Path(folder).iterdir()]
    ['a.txt']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = temporary or path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        with part.open("wb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, path)
        if sync:
            sync_folder(path.parent)
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A temporary path, with the suffix of `path`, for a file or folder that replaces `path` at the end of the block.

    For libraries that write files themselves. After an error nothing changes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replaced(Path(folder, "a.txt")) as part:
    ...         _ = part.write_text("content")
    ...     [path.name for path in Path(folder).iterdir()]
    ['a.txt']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{uuid.uuid4().hex[:8]}.part.{path.name}")
    before = path.with_name(f".{uuid.uuid4().hex[:8]}.before.{path.name}")
    try:
        yield part
        if part.is_file():
            with part.open("rb+") as file:
                os.fsync(file.fileno())
        elif path.is_dir():  # a folder cannot replace another one
            os.replace(path, before)
        try:
            os.replace(part, path)
        except OSError:
            if before.exists():
                os.replace(before, path)
            raise
        sync_folder(path.parent)
    finally:
        for left in (part, before):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)


def remove_left_behind(path: Path) -> None:
    """Removes what `replaced` left beside `path` when a process was killed; an earlier result gets its name back.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, ".0123abcd.part.a.txt").touch()
    ...     remove_left_behind(Path(folder, "a.txt"))
    ...     list(Path(folder).iterdir())
    []
    """
    if not path.parent.is_dir():
        return
    left = re.compile(rf"\.[0-9a-f]{{8}}\.(part|before)\.{re.escape(path.name)}")
    for name in [entry.name for entry in os.scandir(path.parent)]:
        found, each = left.fullmatch(name), path.with_name(name)
        if found is None:
            continue
        if found[1] == "before" and not path.exists():
            os.replace(each, path)
        elif each.is_dir():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Sync a folder's file names to disk, on systems that support it (Windows does not)."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def read_json(path: Path) -> dict[str, Any]:
    """Read the object in a JSON file; any error is an InputError that names the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.json").write_text('{"images": 3}')
    ...     read_json(Path(folder, "a.json"))
    {'images': 3}
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read as JSON: {cause(error)}. Remove it, or name another folder."
        ) from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds JSON of type {type(content).__name__}, expected an object. Remove it.")
    return content
