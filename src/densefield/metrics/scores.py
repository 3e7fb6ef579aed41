"""Images counted one after another, on any number of processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torchmetrics import Metric

from densefield.errors import InputError, InputTypeError
from densefield.labels import VOID
from densefield.metrics.image_scores import confusion_matrix, tally_images
from densefield.metrics.inputs import Batch, scored_items
from densefield.metrics.names import image_key
from densefield.metrics.result import SegmentationResult
from densefield.metrics.tally import BINS


class SegmentationScores(Metric):
    """Counts how predictions agree with the truth, image by image; ``compute()`` gives a SegmentationResult.

    * ``num_classes``: L, from 1 to 255; label 255 is void and not counted.
    * ``options``: those of torchmetrics.Metric.

    It is a metric of torchmetrics: ``compute`` merges what all processes have counted, ``reset`` starts again.

    >>> import torch
    >>> scores = SegmentationScores(num_classes=3)
    >>> scores.update(torch.tensor([[[0, 1, 1, 1]]]), torch.tensor([[[0, 0, 1, 255]]]))
    >>> result = scores.compute()
    >>> result.iou, result.mean_iou  # label 2 is neither true nor predicted
    (array([0.5, 0.5, nan]), 0.5)
    """

    full_state_update = False
    higher_is_better = None

    # Images one after another, in the order of their counting.
    images: list[Tensor]  # (B, 2): how many cells an image has, and the key of its name
    cells: list[Tensor]  # (K, 2): cell and count of ImageScores
    sums: list[Tensor]  # (B, 1 + 45): log loss and bins

    def __init__(self, num_classes: int, **options: Any) -> None:
        super().__init__(**options)
        if (
            isinstance(num_classes, bool)
            or not isinstance(num_classes, SupportsIndex)
            or not 1 <= num_classes.__index__() <= VOID
        ):
            raise InputError(f"num_classes is {num_classes!r}, expected an integer from 1 to {VOID}.")
        self.num_classes = num_classes.__index__()
        for name in self._nothing():
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, prediction: Batch, truth: Batch, names: Sequence[str] | None = None) -> None:
        """Counts a batch.

        * ``prediction``: log marginals (B, L, H, W), or labels (B, H, W); or a list of images of different sizes.
        * ``truth``: labels (B, H, W), 255 where void.
        * ``names``: of the images. An image whose name comes again counts once, so that what a distributed sampler
          repeats to give every process as many images does no harm.
        """
        items = list(scored_items(prediction, truth, self.num_classes))
        keys = [0] * len(items) if names is None else [image_key(name) for name in _checked_names(names, len(items))]
        if not items:
            return
        cells = np.concatenate([np.stack([item.cells, item.counts], axis=1) for item in items])
        sums = np.stack([np.concatenate([[item.log_loss], item.bins.ravel()]) for item in items])
        lengths = [len(item.cells) for item in items]
        self.images.append(torch.tensor(list(zip(lengths, keys, strict=True)), device=self.device))
        self.cells.append(torch.from_numpy(cells).to(self.device))
        self.sums.append(torch.from_numpy(sums).to(self.device))

    def compute(self) -> SegmentationResult:
        """Measures of all images of all processes."""
        images, cells, sums = (self._state(name) for name in self._nothing())
        if len(images) == 0:
            raise InputError("no image was counted. Call update with predictions and truths first.")
        lengths, keys = images.T
        image = np.repeat(np.arange(len(images)), lengths)
        bins = sums[:, 1:].reshape(-1, BINS, 3)
        per_image = tally_images(image, cells[:, 0], cells[:, 1], sums[:, 0], bins, self.num_classes)
        first = _first_of_its_name(keys)
        if not np.array_equal(per_image.truth, per_image.truth[first]):
            raise InputError("two images with different true labels came under one name. Give each image its own name.")
        kept = first == np.arange(len(first))
        counted = kept[image]
        confusion = confusion_matrix(cells[counted, 0], cells[counted, 1], self.num_classes)
        return SegmentationResult(per_image.taken(kept), confusion, keys[kept])

    def sync(self, *arguments: Any, **options: Any) -> None:
        """Gathers what all processes have counted, also where one has counted nothing."""
        for name, empty in self._nothing().items():
            if isinstance(getattr(self, name), list) and not getattr(self, name):
                getattr(self, name).append(empty)
        super().sync(*arguments, **options)

    def _nothing(self) -> dict[str, Tensor]:
        """The states of no image."""
        return {
            "images": torch.zeros(0, 2, dtype=torch.int64, device=self.device),
            "cells": torch.zeros(0, 2, dtype=torch.int64, device=self.device),
            "sums": torch.zeros(0, 1 + 3 * BINS, dtype=torch.float64, device=self.device),
        }

    def _state(self, name: str) -> npt.NDArray[Any]:
        """One array of all images; between processes torchmetrics has joined it already."""
        state: list[Tensor] | Tensor = getattr(self, name)
        joined = state if isinstance(state, Tensor) else torch.cat([self._nothing()[name], *state])
        return joined.cpu().numpy()


def _first_of_its_name(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each image the first one of the same name, which is itself where it has none.

    >>> import numpy as np
    >>> _first_of_its_name(np.array([7, 0, 5, 7, 0]))
    array([0, 1, 2, 0, 4])
    """
    _, index, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return np.where(keys == 0, np.arange(len(keys)), index[inverse])


def _checked_names(names: object, images: int) -> Sequence[object]:
    if not isinstance(names, list | tuple):
        raise InputTypeError(f"names are {names!r}, expected a list with the name of each image.")
    if len(names) != images:
        raise InputError(f"there are {len(names)} names for {images} images, expected as many.")
    return names
