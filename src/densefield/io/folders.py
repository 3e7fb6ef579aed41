"""Listing the files of a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath

from densefield.errors import InputError

GZIPPED = ".nii.gz"  # the suffix of two parts
MAX_LINES = 10  # of skipped files in one message


@dataclass
class FolderListing:
    """The files of a folder that have one of the wanted suffixes, by name, and what was skipped.

    Names are relative to the folder and without suffix: "cat", or "outdoor/cat" in a subfolder.
    """

    files: dict[str, list[Path]] = field(default_factory=dict)
    others: list[Path] = field(default_factory=list)  # files with another suffix
    subfolders: list[Path] = field(default_factory=list)  # not searched
    unreadable: list[str] = field(default_factory=list)  # folders that cannot be listed, with the reason

    def skipped_lines(self, kind: str) -> list[str]:
        """One line for each skipped subfolder and file, up to a limit; `kind` describes the wanted files."""
        lines = [f"{path} is a subfolder, which is not searched." for path in self.subfolders]
        lines += [f"{path} is not {kind}." for path in self.others]
        more = [f"… and {len(lines) - MAX_LINES} more."] if len(lines) > MAX_LINES else []
        return [*lines[:MAX_LINES], *more]


def split_name(path: Path) -> tuple[str, str]:
    """The name without its suffix, and the suffix in lower case.

    >>> split_name(Path("scans/ct.nii.gz")), split_name(Path("cat.v2.JPG"))
    (('ct', '.nii.gz'), ('cat.v2', '.jpg'))
    """
    if path.name.lower().endswith(GZIPPED):
        return path.name[: -len(GZIPPED)], GZIPPED
    return path.stem, path.suffix.lower()


def list_files(folder: Path, suffixes: set[str], *, recursive: bool = False) -> FolderListing:
    """List a folder in sorted order, without hidden files and folders; links to folders are followed once."""
    listing = FolderListing()
    seen: set[str] = set()

    def on_error(error: OSError) -> None:
        listing.unreadable.append(f"{error.filename}: {error.strerror}.")

    for place, subfolders, names in os.walk(folder, onerror=on_error, followlinks=True):
        here = Path(place)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        if not recursive:
            listing.subfolders += [here / name for name in subfolders]
            subfolders.clear()
        real = os.path.realpath(place)
        if real in seen:  # a link to a folder above
            subfolders.clear()
            continue
        seen.add(real)
        for path in (here / name for name in sorted(names) if not name.startswith(".")):
            stem, suffix = split_name(path)
            if suffix not in suffixes:
                listing.others.append(path)
            elif path.is_file():
                listing.files.setdefault(path.relative_to(folder).with_name(stem).as_posix(), []).append(path)
    return listing


def path_inside(folder: Path, name: str) -> Path:
    """The path of a file inside a folder; raises if the name, or a link, leads out of the folder.

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
