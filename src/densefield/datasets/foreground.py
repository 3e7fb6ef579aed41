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
        expected = f"expected one or more, but not all, of {first_names(list(dataset.classes), 25)}."
        if isinstance(foreground, str):
            raise InputError(f"foreground= is {foreground!r}, expected a list of names of classes.")
        for name in foreground:
            if name not in dataset.classes:
                raise InputError(f"foreground= has {name!r}, but there is no such class; {expected}")
            if list(foreground).count(name) > 1:
                raise InputError(f"foreground= has {name!r} twice; {expected}")
        if len(foreground) in (0, len(dataset.classes)):
            raise InputError(f"foreground= has {'every class' if foreground else 'no class'}; {expected}")
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
