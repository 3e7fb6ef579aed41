"""One image compared with its truth: counts, of which most are zero and not kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.labels import VOID
from densefield.metrics.boundaries import boundary_distance
from densefield.metrics.tally import BINS, RINGS, Tally

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ImageScores:
    """The confusion matrix of every ring around the boundaries, and what the marginals add to it.

    An image holds few labels, so of the 21·L·L counts only those that are not zero are kept, with their places
    in the array (21, L, L) of ring, true and predicted label.
    """

    cells: npt.NDArray[np.int64]  # (K,)
    counts: npt.NDArray[np.int64]  # (K,)
    log_loss: float
    bins: Array  # (15, 3); zeros, as the log loss is, where only labels are predicted


def score_image(
    predicted: Array,  # (H, W), labels 0…L-1
    truth: Array,  # (H, W), labels 0…L-1, or 255 for void
    num_classes: int,
    *,
    true_log_marginal: Array | None = None,  # (H, W): log q_i(y_i), anything where void
    confidence: Array | None = None,  # (H, W): the largest marginal
) -> ImageScores:
    """Counts of one image; void pixels are left out.

    >>> import numpy as np
    >>> scores = score_image(np.array([[0, 1, 1]]), np.array([[0, 0, 255]]), num_classes=2)
    >>> scores.cells.tolist(), scores.counts.tolist()  # at distance 2: 0 taken for 0; at distance 1: 0 taken for 1
    ([1, 4], [1, 1])
    """
    counted = truth != VOID
    y, z = truth[counted].astype(np.int64), predicted[counted].astype(np.int64)
    ring = boundary_distance(truth)[counted].astype(np.int64) - 1
    counts = np.bincount((ring * num_classes + y) * num_classes + z, minlength=1)
    cells = np.flatnonzero(counts)
    if true_log_marginal is None or confidence is None:
        return ImageScores(cells, counts[cells], 0.0, np.zeros((BINS, 3)))
    certainty = confidence[counted].astype(np.float64)
    place = np.minimum(certainty * BINS, BINS - 1).astype(np.int64)  # [0, 1/15), … [14/15, 1]
    bins = [np.bincount(place, weights, BINS) for weights in (None, certainty, (y == z).astype(np.float64))]
    log_loss = -float(true_log_marginal[counted].sum(dtype=np.float64))
    return ImageScores(cells, counts[cells], log_loss, np.stack(bins, axis=1))


def confusion_matrix(cells: Array, counts: Array, num_classes: int) -> npt.NDArray[np.int64]:
    """Pixels (L, L) by true and predicted label, whatever their ring.

    >>> import numpy as np
    >>> confusion_matrix(np.array([1, 4, 5]), np.array([7, 2, 1]), num_classes=2)
    array([[2, 8],
           [0, 0]])
    """
    matrix = np.zeros(num_classes * num_classes, np.int64)
    np.add.at(matrix, cells % (num_classes * num_classes), counts)
    return matrix.reshape(num_classes, num_classes)


def tally_images(
    image: Array,  # (K,): to which image a cell belongs
    cells: Array,  # (K,)
    counts: Array,  # (K,)
    log_loss: Array,  # (N,)
    bins: Array,  # (N, 15, 3)
    num_classes: int,
) -> Tally:
    """The counts of N images side by side."""
    shape = (len(log_loss), RINGS, num_classes)
    overlap, truth, predicted = (np.zeros(shape, np.int64) for _ in range(3))
    ring, y, z = np.unravel_index(cells, (RINGS, num_classes, num_classes))
    right = y == z
    np.add.at(overlap, (image[right], ring[right], y[right]), counts[right])
    np.add.at(truth, (image, ring, y), counts)
    np.add.at(predicted, (image, ring, z), counts)
    return Tally(overlap, truth, predicted, log_loss, bins)
