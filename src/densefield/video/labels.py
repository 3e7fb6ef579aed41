"""The masks of a video: labels that are numbered alike in all frames, and edges that are displaced frame by frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densefield.crf.arrays import Array
from densefield.crf.label_mask import LabelMask, label_mask
from densefield.labels import Void
from densefield.refinement.mask_edges import Int32, MaskEdges, pixel_use
from densefield.refinement.roughness import estimate_roughness

UNLABELLED = -1  # unknown pixels


class LabelNumbers:
    """Numbers the labels of masks 0…K-1; which values mean unknown or foreground depends on all masks that were seen.

    Parameters
    ----------
    num_classes, void
        Those of `densefield.refine`.

    >>> numbers = LabelNumbers()
    >>> numbers.see(np.array([[0, 255]])).rows(np.array([[0, 255]])).tolist()
    [[0, 1]]
    >>> numbers.see(np.array([[0, 7]])).rows(np.array([[7, 255]])).tolist(), numbers.values.tolist()
    ([[1, -1]], [0, 7])
    """

    def __init__(self, num_classes: int | None = None, void: Void = "auto") -> None:
        self._num_classes, self._void = num_classes, void
        self._values = np.zeros(0, np.int64)
        self._mask = LabelMask(np.zeros((1, 0), np.int32), None, np.arange(2), 2)  # of no masks

    def see(self, mask: Array) -> LabelNumbers:
        """Takes a mask into account."""
        here = np.unique(mask)
        if not np.isin(here, self._values).all():
            label_mask(mask, self._num_classes, self._void)  # raises for wrong types and values
            self._values = np.union1d(self._values, here.astype(np.int64))
            self._mask = label_mask(self._values[None], self._num_classes, self._void)
        return self

    @property
    def num_classes(self) -> int:
        """The number of classes of the result."""
        return self._mask.num_classes

    @property
    def values(self) -> npt.NDArray[np.intp]:
        """(K,): the label of each number."""
        return self._mask.labels

    def rows(self, mask: Array) -> Int32:
        """(H, W): the numbers of the labels of a mask that was seen; -1 where unknown."""
        numbers = self._mask.rows[0].copy()
        if self._mask.known is not None:
            numbers[~self._mask.known[0]] = UNLABELLED
        rows: Int32 = numbers[np.searchsorted(self._values, mask)]
        return rows


@dataclass(frozen=True)
class MaskFrame:
    """A frame with its mask.

    Parameters
    ----------
    channels
        (N, C): the colours of the pixels.
    labels
        (H, W): the numbers of labels; -1 where unknown.
    width
        Typical distance of the mask's edges from the true ones in pixels; None if mask or image have no edges.
    """

    channels: npt.NDArray[np.generic]
    labels: Int32
    width: float | None


def displaced_frame(
    channels: npt.NDArray[np.generic], labels: Int32, roughness: float | None, threads: int
) -> MaskFrame:
    """A frame whose mask is displaced as a whole to where the image has edges, as dilated or shifted masks are.

    Each frame has a displacement of its own: masks that are drawn or predicted one by one err in ways of their own.
    """
    known = labels >= 0
    present = np.unique(labels[known])
    if len(present) < 2:
        return MaskFrame(channels, labels, None)
    rows = np.searchsorted(present, labels).astype(np.int32)
    edges = MaskEdges(rows, pixel_use(rows.shape, known), channels, (1.0, 1.0), threads, num_labels=len(present))
    found = estimate_roughness(edges, roughness)
    if found is None:
        return MaskFrame(channels, labels, None)
    if any(each.offset or any(each.shift) for each in found.displacements):
        moved = edges.displaced_labels(edges.margins(found.moves(edges.unit)))
        labels = np.where(known, present[moved.reshape(labels.shape)], labels)
    return MaskFrame(channels, labels.astype(np.int32, copy=False), found.width)
