"""Samples, datasets, and the files of a split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError
from densefield.io.messages import first_names

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, eq=False)
class Sample:
    """An image with its labels.

    Parameters
    ----------
    image
        Colours 0…255, (H, W, 3).
    labels
        The label of each pixel, (H, W), from 0 to L-1 with 255 for void; None if unknown, as in test splits.
    id
        The name of the sample.
    inside
        The rectangle of a padded image that is not padding: top, bottom, left, right, with bottom and right exclusive;
        None if nothing is padding.
    spacing
        Size of a pixel along x and y, in pixels of the original image: 1/s for an image scaled by s.

    >>> sample = Sample(np.zeros((2, 3, 3), np.uint8), np.array([[0, 1, 255]] * 2, np.uint8), "2007_000032")
    >>> sample.image.shape[:2] == sample.labels.shape
    True
    """

    image: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.uint8] | None
    id: str
    inside: tuple[int, int, int, int] | None = None
    spacing: tuple[float, float] = (1.0, 1.0)


class Indexed(Protocol[T_co]):
    """Items by number, their names, and the class names: a dataset, or a source of scored images."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes 0, …, L-1."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Names of the items, in their order."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> T_co: ...


class Dataset(Indexed[Sample], Protocol):
    """What training and evaluation need of a dataset: samples by number, their names, and the class names."""


@dataclass(frozen=True)
class Entry:
    """The files of one sample; the mask is None if it has none."""

    id: str
    image: Path
    mask: Path | None


@dataclass(frozen=True)
class Listing:
    """The samples of a split that exist, a summary, a line for each missing file and for each skipped one."""

    entries: tuple[Entry, ...]
    summary: str
    problems: tuple[str, ...] = ()
    complete: bool = True  # it has all samples of the published split
    notes: tuple[str, ...] = ()


def entries_of(dataset: object) -> tuple[Entry, ...]:
    """The files of a dataset's samples; empty for samples that are not in files, such as scenes."""
    return tuple(getattr(dataset, "entries", ()))


def read_ids(path: Path) -> tuple[str, ...]:
    """Read the ids in a split's file, one per line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise InputError(f"there is no file {path}, which lists the ids of the split, one per line.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}. Expected text, one id per line.") from error
    ids = tuple(line.strip() for line in lines if line.strip())
    for id in ids:
        if "/" in id or "\\" in id:
            raise InputError(f"{path} lists {id!r}, expected names without folders and suffixes, such as 2007_000032.")
    duplicates = [id for id, count in Counter(ids).items() if count > 1]
    if duplicates:
        raise InputError(f"{path} lists {first_names(duplicates)} more than once: remove the duplicates.")
    return ids


class Subset(Generic[T]):
    """Some items of a dataset, or of a source of scored images, by their indices."""

    def __init__(self, items: Indexed[T], indices: Sequence[int]) -> None:
        self._items, self._indices = items, tuple(indices)
        self.classes = items.classes
        self.ids = tuple(items.ids[index] for index in self._indices)
        entries = entries_of(items)
        self.entries = tuple(entries[index] for index in self._indices) if entries else ()

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: int) -> T:
        return self._items[self._indices[index]]
