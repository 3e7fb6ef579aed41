"""What is counted of images: enough for every measure, and adding up over images."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.metrics.boundaries import BANDS

Array = npt.NDArray[Any]

RINGS = BANDS + 1  # pixels at distance 1, 2, … 20 from a boundary, and beyond
BINS = 15  # of confidence, for calibration


@dataclass(frozen=True)
class Tally:
    """Counts of one image, or with further axes in front of many images, of their sum, or of sums of resamples.

    Ring r - 1 holds the pixels at distance r from a true boundary, the last ring those farther away.
    """

    overlap: Array  # (…, 21, L): pixels of a ring whose true and predicted label are both l
    truth: Array  # (…, 21, L): pixels whose true label is l
    predicted: Array  # (…, 21, L): pixels whose predicted label is l
    log_loss: Array  # (…): -Σ log q_i(y_i)
    bins: Array  # (…, 15, 3): pixels, their confidences added up, and how many are right, by confidence

    def __len__(self) -> int:
        return len(self.log_loss)

    def total(self) -> Tally:
        """The sum over the first axis."""
        return Tally(*(getattr(self, each.name).sum(axis=0) for each in fields(self)))

    def taken(self, order: Array) -> Tally:
        """These entries of the first axis."""
        return Tally(*(getattr(self, each.name)[order] for each in fields(self)))

    def resampled(self, times: Array) -> Tally:
        """Sums (S, …) of images of which resample s takes image n times[s, n] times, for times (S, N).

        >>> import numpy as np
        >>> zeros = np.zeros((2, 21, 1))
        >>> images = Tally(zeros, zeros, zeros, np.array([3.0, np.inf]), np.zeros((2, 15, 3)))
        >>> images.resampled(np.array([[2, 0], [1, 1]])).log_loss
        array([ 6., inf])
        """
        return Tally(*(_weighted_sums(times, getattr(self, each.name)) for each in fields(self)))


def _weighted_sums(times: Array, values: Array) -> Array:
    """Σ_n times[s, n] values[n], exact for whole numbers below 2⁵³; nothing times infinity is nothing."""
    rows = values.reshape(len(values), -1).astype(np.float64)
    infinite = np.isinf(rows)
    sums = times.astype(np.float64) @ np.where(infinite, 0.0, rows)
    if infinite.any():
        sums[(times > 0).astype(np.float64) @ infinite.astype(np.float64) > 0] = np.inf
    return sums.reshape(len(times), *values.shape[1:])
