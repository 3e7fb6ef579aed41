"""One image of a dataset, and what a dataset is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Sample:
    """One image (H, W, 3) of colours 0…255, its labels (H, W) from 0 to L-1 with 255 for void, and its name.

    The label is None where it is unknown, as in test splits. Where the image is padded, `inside` is the rectangle that
    is not padding: its first row and the row after its last, its first column and the column after its last.

    >>> sample = Sample(np.zeros((2, 3, 3), np.uint8), np.array([[0, 1, 255]] * 2, np.uint8), "2007_000032")
    >>> sample.image.shape[:2] == sample.label.shape
    True
    """

    image: npt.NDArray[np.uint8]
    label: npt.NDArray[np.uint8] | None
    id: str
    inside: tuple[int, int, int, int] | None = None  # top, bottom, left, right; None where nothing is padding


@dataclass(frozen=True)
class Entry:
    """Where one sample is: its image, and its mask unless it has none."""

    id: str
    image: Path
    mask: Path | None


class Dataset(Protocol):
    """Samples that can be counted and taken by number; `ids` has the name of each, `classes` that of each label."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the labels 0, …, L-1."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Names of the samples, in their order."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Sample: ...


def entries_of(dataset: Dataset) -> tuple[Entry, ...]:
    """Where the samples are, in their order; none for those that are not in files, such as scenes."""
    return tuple(getattr(dataset, "entries", ()))
