"""Pixel counts of images: enough for every metric, and additive over images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError
from densefield.labels import VOID
from densefield.metrics.boundaries import BANDS, boundary_distance

Array = npt.NDArray[Any]

RINGS = BANDS + 1  # pixels at distance 1, 2, … 20 from a boundary, and beyond
BINS = 15  # of confidence, for calibration


@dataclass(frozen=True)
class Counts:
    """Counts of one image; with further leading axes of many images, of their sum, or of sums of resamples.

    `overlap`, `truth` and `predicted` count pixels of a label by ring: ring r - 1 holds the pixels at distance r from a
    true boundary, the last ring those farther away. `log_loss` and calibration `bins` are for all rings.
    """

    overlap: Array  # (…, 21, L): pixels of a ring whose true and predicted label are both l
    truth: Array  # (…, 21, L): pixels whose true label is l
    predicted: Array  # (…, 21, L): pixels whose predicted label is l
    log_loss: Array  # (…): -Σ log q_i(y_i)
    bins: Array  # (…, 15, 3): pixels, the sum of their confidences, and correct pixels, by confidence

    @classmethod
    def from_confusion(cls, confusion: Array) -> Counts:
        """Counts of a matrix `confusion` (L, L), all pixels in one ring and without marginals."""
        overlap, truth, predicted = np.diagonal(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
        return cls(overlap[None], truth[None], predicted[None], np.zeros(()), np.zeros((BINS, 3)))

    def __len__(self) -> int:
        return len(self.log_loss)

    def total(self) -> Counts:
        """The sum over the first axis."""
        return Counts(*(getattr(self, each.name).sum(axis=0) for each in fields(self)))

    def taken(self, order: Sequence[int]) -> Counts:
        """The entries of the first axis in this `order`."""
        return Counts(*(getattr(self, each.name)[order] for each in fields(self)))

    def resampled(self, times: Array) -> Counts:
        """Sums (S, …) over images; resample s takes image n `times` [s, n] times, for times (S, N).

        >>> import numpy as np
        >>> zeros = np.zeros((2, 21, 1))
        >>> images = Counts(zeros, zeros, zeros, np.array([3.0, np.inf]), np.zeros((2, 15, 3)))
        >>> images.resampled(np.array([[2, 0], [1, 1]])).log_loss
        array([ 6., inf])
        """
        return Counts(*(_weighted_sums(times, getattr(self, each.name)) for each in fields(self)))


def _weighted_sums(times: Array, values: Array) -> Array:
    """Σ_n times[s, n] values[n], exact for integers below 2⁵³; 0 · ∞ counts as 0."""
    rows = values.reshape(len(values), -1).astype(np.float64)
    infinite = np.isinf(rows)
    sums = times.astype(np.float64) @ np.where(infinite, 0.0, rows)
    if infinite.any():
        sums[(times > 0).astype(np.float64) @ infinite.astype(np.float64) > 0] = np.inf
    return sums.reshape(len(times), *values.shape[1:])


@dataclass(frozen=True)
class ImageCounts:
    """Counts of one image in sparse form: the confusion matrix of every ring, and sums over the marginals.

    An image has few labels, so only the nonzero counts of the 21·L·L are stored, with their flat indices into the
    array (21, L, L) of ring, true and predicted label.
    """

    cells: npt.NDArray[np.int64]  # (K,)
    counts: npt.NDArray[np.int64]  # (K,)
    log_loss: float
    bins: Array  # (15, 3); zeros, like the log loss, if only labels are predicted

    def confusion(self, num_classes: int) -> npt.NDArray[np.int64]:
        """Pixels (L, L) by true and predicted label, over all rings.

        >>> import numpy as np
        >>> ImageCounts(np.array([1, 4, 5]), np.array([7, 2, 1]), 0.0, np.zeros((15, 3))).confusion(num_classes=2)
        array([[2, 8],
               [0, 0]])
        """
        size = num_classes * num_classes
        sums = np.bincount(self.cells % size, self.counts, size).astype(np.int64)  # exact below 2⁵³
        return sums.reshape(num_classes, num_classes)


def count_pixels(
    predicted: Array,  # (H, W), labels 0…L-1
    truth: Array,  # (H, W), labels 0…L-1, or 255 for void
    num_classes: int,
    *,
    true_log_marginal: Array | None = None,  # (H, W): log q_i(y_i); any value where void
    confidence: Array | None = None,  # (H, W): the largest marginal
) -> ImageCounts:
    """Counts of one image without its void pixels.

    >>> import numpy as np
    >>> image = count_pixels(np.array([[0, 1, 1]]), np.array([[0, 0, 255]]), num_classes=2)
    >>> image.cells.tolist(), image.counts.tolist()  # distance 2: 0 predicted as 0; distance 1: 0 predicted as 1
    ([1, 4], [1, 1])
    """
    counted = truth != VOID
    y, z = truth[counted].astype(np.int64), predicted[counted].astype(np.int64)
    ring = boundary_distance(truth)[counted].astype(np.int64) - 1
    counts = np.bincount((ring * num_classes + y) * num_classes + z, minlength=1)
    cells = np.flatnonzero(counts)
    if true_log_marginal is None or confidence is None:
        return ImageCounts(cells, counts[cells], 0.0, np.zeros((BINS, 3)))
    certainty = confidence[counted].astype(np.float64)
    place = np.minimum(certainty * BINS, BINS - 1).astype(np.int64)  # [0, 1/15), … [14/15, 1]
    bins = [np.bincount(place, weights, BINS) for weights in (None, certainty, (y == z).astype(np.float64))]
    log_loss = -float(true_log_marginal[counted].sum(dtype=np.float64))
    return ImageCounts(cells, counts[cells], log_loss, np.stack(bins, axis=1))


def stack_images(images: Sequence[ImageCounts], num_classes: int) -> Counts:
    """Counts (N, …) of N images."""
    shape = (len(images), RINGS, num_classes)
    overlap, truth, predicted = (np.zeros(shape, np.int64) for _ in range(3))
    for number, image in enumerate(images):
        ring, y, z = np.unravel_index(image.cells, (RINGS, num_classes, num_classes))
        right = y == z
        np.add.at(overlap[number], (ring[right], y[right]), image.counts[right])
        np.add.at(truth[number], (ring, y), image.counts)
        np.add.at(predicted[number], (ring, z), image.counts)
    log_loss, bins = np.array([image.log_loss for image in images]), np.stack([image.bins for image in images])
    return Counts(overlap, truth, predicted, log_loss, bins)


def image_counts_to_bytes(methods: Mapping[str, ImageCounts]) -> bytes:
    """The counts of one image by several methods, as the content of an .npz file."""
    arrays = {
        f"{method}.{each.name}": np.asarray(getattr(counts, each.name))
        for method, counts in methods.items()
        for each in fields(ImageCounts)
    }
    buffer = BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def read_image_counts(path: Path, methods: Sequence[str]) -> dict[str, ImageCounts] | None:
    """The content of a file of `image_counts_to_bytes`, by method; None if the file or one of the methods is absent."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            if any(f"{method}.cells" not in arrays for method in methods):
                return None
            return {
                method: ImageCounts(
                    arrays[f"{method}.cells"],
                    arrays[f"{method}.counts"],
                    float(arrays[f"{method}.log_loss"]),
                    arrays[f"{method}.bins"],
                )
                for method in methods
            }
    except FileNotFoundError:
        return None
    except Exception as error:  # damaged archives raise errors of many types
        raise InputError(f"{path} cannot be read: {error}. Remove it, and the image is counted again.") from error
