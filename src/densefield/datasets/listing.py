"""What a split lists, and what of it is there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from densefield.datasets.sample import Entry
from densefield.errors import InputError
from densefield.io.folders import Listing as FolderListing

MOST_NAMES = 10  # in one message


@dataclass(frozen=True)
class Listing:
    """The samples of a split that are there, one line that says so, and a line for each file that is missing.

    It is complete where it has all that the publisher of the data put into it. `notes` has a line for each folder and
    file that was skipped.
    """

    entries: tuple[Entry, ...]
    summary: str
    problems: tuple[str, ...] = ()
    complete: bool = True
    notes: tuple[str, ...] = ()


def read_ids(path: Path) -> tuple[str, ...]:
    """The ids in a split's file, one per line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise InputError(f"there is no file {path}, which lists the ids of the split, one per line.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}. Expected text, one id per line.") from error
    ids = tuple(line.strip() for line in lines if line.strip())
    for id in ids:
        if "/" in id or "\\" in id:
            raise InputError(f"{path} lists {id!r}, expected names without folders and endings, such as 2007_000032.")
    twice = [id for id, count in Counter(ids).items() if count > 1]
    if twice:
        raise InputError(f"{path} lists {some(twice)} more than once: remove what is double.")
    return ids


def skipped_lines(files: FolderListing, kind: str) -> list[str]:
    """A line for each subfolder that was not searched, and for each file that is not of the kind; the first few."""
    lines = [f"{path} is a folder inside a folder, which is not searched." for path in files.subfolders]
    lines += [f"{path} is not {kind}." for path in files.others]
    more = [f"… and {len(lines) - MOST_NAMES} more."] if len(lines) > MOST_NAMES else []
    return [*lines[:MOST_NAMES], *more]


def some(names: list[str]) -> str:
    """The first few names, for a message.

    >>> some(["cat", "dog"]), some([str(n) for n in range(99)])
    ('cat, dog', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … (99 in all)')
    """
    more = f", … ({len(names)} in all)" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
