"""Images and labels made smaller as they are read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from densefield.datasets.sample import Dataset, Sample, entries_of
from densefield.datasets.transforms import Window, cut_out, known_label
from densefield.errors import InputError


class ShrunkDataset:
    """A dataset whose images have no side longer than `longest_side` pixels; smaller ones stay as they are.

    Colours are averaged where they shrink; labels are those of the nearest pixel.

    >>> from densefield.scenes.scene import SceneDataset
    >>> ShrunkDataset(SceneDataset(2, size=(96, 144)), longest_side=48)[0].image.shape
    (32, 48, 3)
    """

    def __init__(self, dataset: Dataset, longest_side: int) -> None:
        self._dataset, self._longest = dataset, checked_longest_side(longest_side)
        self.classes, self.ids, self.entries = dataset.classes, dataset.ids, entries_of(dataset)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Sample:
        sample = self._dataset[index]
        size = shrunk_size(sample.image.shape[:2], self._longest)
        if size == sample.image.shape[:2]:
            return sample
        if sample.label is None:
            return replace(sample, image=shrunk_image(sample.image, self._longest))
        image, label = cut_out(sample.image, known_label(sample), Window(size, 0, 0, size), fill=(0, 0, 0))
        return replace(sample, image=image, label=label)


def shrunk_image(image: npt.NDArray[np.uint8], longest_side: int) -> npt.NDArray[np.uint8]:
    """An image (H, W, 3) with no side longer than that."""
    size = shrunk_size(image.shape[:2], longest_side)
    nothing = np.zeros(image.shape[:2], np.uint8)
    return cut_out(image, nothing, Window(size, 0, 0, size), fill=(0, 0, 0))[0]


def shrunk_size(size: tuple[int, ...], longest_side: int) -> tuple[int, int]:
    """Rows and columns of an image that is shrunk so that its longer side has at most so many pixels.

    >>> shrunk_size((375, 500), 288), shrunk_size((100, 80), 288), shrunk_size((500, 1), 50)
    ((216, 288), (100, 80), (50, 1))
    """
    rows, columns = size
    longest = max(rows, columns)
    if longest <= longest_side:
        return rows, columns
    return tuple(max(1, round(side * longest_side / longest)) for side in (rows, columns))  # type: ignore[return-value]


def checked_longest_side(longest_side: int) -> int:
    """Raises where no pixel would be left."""
    if longest_side < 1:
        raise InputError(f"longest_side is {longest_side}, expected 1 or more.")
    return longest_side
