"""Unpacking archives that are not trusted."""

from __future__ import annotations

import os
import shutil
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from densefield.errors import InputError


def unpack(archive: Path, folder: Path, progress: Callable[[int, int], None] | None = None) -> None:
    """Unpacks a tar archive, compressed or not, into a folder; nothing is ever written outside of it.

    An entry that leads out of the folder, a link or a device is an error. Files appear whole or not at all, so what an
    interruption leaves behind is sound; files that are there are replaced. `progress` is called with bytes read.
    """
    if not archive.is_file():
        raise InputError(f"there is no file {archive}.")
    try:
        total = archive.stat().st_size
        # As a stream: what compressed archives hold is known only once they are read, and that is done once.
        with archive.open("rb") as raw, tarfile.open(fileobj=raw, mode="r|*") as tar:
            for member in tar:
                target = _target(archive, member, folder)
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                else:
                    content = tar.extractfile(member)
                    assert content is not None
                    _write(target, content, member.size)
                if progress is not None:
                    progress(raw.tell(), total)
    except InputError:
        raise
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError) as error:
        raise InputError(f"{archive} cannot be unpacked into {folder}: {error}.") from error


def _target(archive: Path, member: tarfile.TarInfo, folder: Path) -> Path:
    """Where an entry goes, if it may."""
    name = PurePosixPath(member.name)
    elsewhere = name.is_absolute() or PureWindowsPath(member.name).anchor or PureWindowsPath(member.name).drive
    if elsewhere or ".." in name.parts or ".." in PureWindowsPath(member.name).parts:
        raise InputError(f"{archive} has an entry {member.name!r}, which leads out of {folder}: do not trust it.")
    if not (member.isfile() or member.isdir()):
        raise InputError(f"{archive} has an entry {member.name!r} that is a link or a device: do not trust it.")
    return folder.joinpath(*name.parts)


def _write(target: Path, content: IO[bytes], size: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    passing = target.with_name(f".{target.name}.part")
    try:
        with passing.open("wb") as file:
            shutil.copyfileobj(content, file, 1 << 20)
        if passing.stat().st_size != size:
            raise EOFError(f"{target.name} ends after {passing.stat().st_size} of {size} bytes")
        os.replace(passing, target)
    finally:
        passing.unlink(missing_ok=True)
