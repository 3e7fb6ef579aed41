"""Two classes out of many."""

from __future__ import annotations

import numpy as np
import pytest

from densefield.datasets.foreground import ForegroundDataset
from densefield.datasets.sample import Sample
from densefield.errors import InputError


class Three:
    classes, ids, entries = ("ground", "cat", "dog"), ("a", "b"), ()

    def __len__(self):
        return 2

    def __getitem__(self, index):
        labels = np.array([[0, 1, 2, 255]], np.uint8) if index == 0 else None
        return Sample(np.zeros((1, 4, 3), np.uint8), labels, self.ids[index])


def test_chosen_classes_are_one_label_and_void_stays():
    dataset = ForegroundDataset(Three(), ["dog", "cat"])
    assert dataset.classes == ("background", "dog+cat") and dataset.ids == ("a", "b") and len(dataset) == 2
    assert dataset[0].labels.tolist() == [[0, 1, 1, 255]] and dataset[0].labels.dtype == np.uint8
    assert ForegroundDataset(Three(), ["dog"])[0].labels.tolist() == [[0, 0, 1, 255]]
    assert dataset[1].labels is None


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ([], "has no class; expected one or more, but not all, of ground, cat, dog"),
        (["dog", "horse"], "has 'horse', but there is no such class; expected one or more"),
        (["ground", "cat", "dog"], "has every class; expected one or more, but not all"),
        (["dog", "dog"], "has 'dog' twice"),
        ("dog", "is 'dog', expected a list of names"),
    ],
)
def test_other_names_are_rejected(names, says):
    with pytest.raises(InputError, match=f"foreground= {says}"):
        ForegroundDataset(Three(), names)
