"""The files of a folder, by name."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath

from densefield.errors import InputError


@dataclass
class Listing:
    """The files of a folder that have one of the wanted suffixes, and what was passed over.

    Names are relative to the folder and without suffix: "cat", or "outdoor/cat" in a subfolder.
    """

    files: dict[str, list[Path]] = field(default_factory=dict)
    others: list[Path] = field(default_factory=list)  # files with another suffix
    subfolders: list[Path] = field(default_factory=list)  # that were not searched
    unreadable: list[str] = field(default_factory=list)  # folders that cannot be listed, with the reason


def list_files(folder: Path, suffixes: set[str], *, recursive: bool = False) -> Listing:
    """Lists a folder, sorted; hidden files and folders do not count. Links to folders are followed, each once."""
    listing = Listing()
    seen: set[str] = set()

    def denied(error: OSError) -> None:
        listing.unreadable.append(f"{error.filename}: {error.strerror}.")

    for place, subfolders, names in os.walk(folder, onerror=denied, followlinks=True):
        here = Path(place)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        if not recursive:
            listing.subfolders += [here / name for name in subfolders]
            subfolders.clear()
        real = os.path.realpath(place)
        if real in seen:  # a link that leads back
            subfolders.clear()
            continue
        seen.add(real)
        for path in (here / name for name in sorted(names) if not name.startswith(".")):
            if path.suffix.lower() not in suffixes:
                listing.others.append(path)
            elif path.is_file():
                listing.files.setdefault(path.relative_to(folder).with_suffix("").as_posix(), []).append(path)
    return listing


def by_name(folder: Path, suffixes: set[str]) -> dict[str, list[Path]]:
    """Files of a folder that have one of these suffixes, by name without it; hidden files do not count."""
    listing = list_files(folder, suffixes)
    if listing.unreadable:
        raise InputError(listing.unreadable[0])
    return listing.files


def path_inside(folder: Path, name: str) -> Path:
    """The file of this name in a folder or below it; raises where the name, or a link, leads out of the folder.

    >>> path_inside(Path("cases"), "../secret.png")
    Traceback (most recent call last):
        ...
    densefield.errors.InputError: the name '../secret.png' leads out of cases, expected the name of a file inside it.
    """
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    outside = posix.is_absolute() or windows.anchor or ".." in (*posix.parts, *windows.parts) or "\0" in name
    if outside or folder.resolve() not in (folder / name).resolve().parents:
        raise InputError(f"the name {name!r} leads out of {folder}, expected the name of a file inside it.")
    return folder / name
