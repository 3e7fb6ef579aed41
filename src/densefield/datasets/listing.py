"""What a split lists, and what of it is there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from densefield.datasets.sample import Entry
from densefield.errors import InputError
from densefield.io.messages import first_names


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
        raise InputError(f"{path} lists {first_names(twice)} more than once: remove what is double.")
    return ids
