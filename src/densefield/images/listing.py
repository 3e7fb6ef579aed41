"""The images that a user names: files, and folders of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from densefield.datasets.listing import skipped_lines
from densefield.errors import InputError
from densefield.images.images import KINDS, image_suffixes
from densefield.io.folders import list_files


class Found(NamedTuple):
    """Files by their names without suffix; a line for each that cannot be predicted, and for what was skipped."""

    files: dict[str, Path]
    failures: list[str]
    ignored: list[str]


def find_images(inputs: Sequence[Path]) -> Found:
    """The images of files and folders; those with the same name are failures, since their results would have it too."""
    found: dict[str, list[Path]] = {}
    ignored: list[str] = []
    for path in inputs:
        if not path.exists():
            raise InputError(f"there is no file or folder {path}.")
        if not path.is_dir():
            listed = {path.stem: [path]}
        else:
            listing = list_files(path, image_suffixes())
            skipped = skipped_lines(listing, f"an image ({KINDS})") + listing.unreadable
            if not listing.files:
                raise InputError("\n".join([f"{path} has no images in it.", *skipped]))
            listed = listing.files
            ignored += skipped
        for name, paths in listed.items():
            found.setdefault(name, []).extend(each for each in paths if each not in found.get(name, []))
    twice = [
        f"{' and '.join(map(str, paths))} have the same name: predict them into different folders."
        for paths in found.values()
        if len(paths) > 1
    ]
    return Found({name: paths[0] for name, paths in found.items() if len(paths) == 1}, twice, ignored)
