"""A dataset with two classes: some classes of another dataset, and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from densefield.datasets.sample import Dataset, Sample, entries_of
from densefield.errors import InputError
from densefield.io.messages import first_names
from densefield.labels import VOID

REST = "background"


class ForegroundDataset:
    """A dataset whose chosen classes are label 1, and all others label 0; void stays void.

    Parameters
    ----------
    dataset
        The dataset.
    foreground
        Names of classes.

    >>> from densefield.scenes import SceneDataset
    >>> scenes = SceneDataset(2, object_classes=2)
    >>> dataset = ForegroundDataset(scenes, [scenes.classes[1]])
    >>> dataset.classes == ("background", scenes.classes[1]), bool(dataset[0].labels.max() <= 1)
    (True, True)
    """

    def __init__(self, dataset: Dataset, foreground: Sequence[str]) -> None:
        unknown = [name for name in foreground if name not in dataset.classes]
        if isinstance(foreground, str) or unknown or not foreground or len(set(foreground)) == len(dataset.classes):
            raise InputError(
                f"the foreground is {foreground!r}, expected some, but not all, of the classes "
                f"{first_names(list(dataset.classes), 25)}."
            )
        self._dataset = dataset
        self._is_foreground = np.isin(np.arange(VOID + 1), [dataset.classes.index(name) for name in foreground])
        self.classes = (REST, "+".join(foreground))
        self.ids, self.entries = dataset.ids, entries_of(dataset)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Sample:
        sample = self._dataset[index]
        if sample.labels is None:
            return sample
        labels = np.where(sample.labels == VOID, VOID, self._is_foreground[sample.labels]).astype(np.uint8)
        return replace(sample, labels=labels)
