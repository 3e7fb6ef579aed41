"""What came out: measures of all images together, and the counts of each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from densefield.metrics import measures
from densefield.metrics.tally import BINS, Tally

Array = npt.NDArray[np.float64]


class Reliability(NamedTuple):
    """A reliability diagram: for each of 15 bins of confidence, how sure and how right the predictions in it are."""

    edges: Array  # (16,): bin b holds confidences from edges[b] up to edges[b + 1]
    pixels: Array  # (15,)
    confidence: Array  # (15,): the mean; NaN where no pixel is
    accuracy: Array  # (15,)


class SegmentationResult:  # no dataclass: torchmetrics copies those, and refuses them when frozen
    """Measures of a segmentation, of all images together; what is absent from truth and prediction is NaN.

    ``confusion`` (L, L) counts pixels by true and predicted label, and ``per_image`` is the Tally of each image.
    """

    def __init__(self, per_image: Tally, confusion: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]) -> None:
        self.per_image, self.confusion = per_image, confusion
        self.keys = keys  # (N,): what the names of images are turned into; 0 for those without
        self._total = per_image.total()

    @property
    def images(self) -> int:
        """How many images were counted."""
        return len(self.per_image)

    @property
    def pixels(self) -> int:
        """How many pixels were counted; void is not."""
        return int(self.confusion.sum())

    @property
    def iou(self) -> Array:
        """Intersection over union of each label, (L,)."""
        return measures.iou(self._total)

    @property
    def mean_iou(self) -> float:
        """The mean over the labels that are there."""
        return float(measures.mean_iou(self._total))

    @property
    def frequency_weighted_iou(self) -> float:
        """The mean weighted by how many pixels truly have the label."""
        return float(measures.frequency_weighted_iou(self._total))

    @property
    def pixel_accuracy(self) -> float:
        """The share of pixels whose label is right."""
        return float(measures.pixel_accuracy(self._total))

    @property
    def trimap_iou(self) -> Array:
        """The mean intersection over union within 1, 2, … 20 pixels of the true boundaries."""
        return measures.trimap_iou(self._total)

    @property
    def trimap_accuracy(self) -> Array:
        """The share of right pixels within 1, 2, … 20 pixels of the true boundaries."""
        return measures.trimap_accuracy(self._total)

    @property
    def negative_log_likelihood(self) -> float:
        """-log q_i(y_i), the mean over pixels (paper, Eq. 6); NaN where only labels were given."""
        return float(measures.negative_log_likelihood(self._total))

    @property
    def calibration_error(self) -> float:
        """How far confidence is from accuracy; NaN where only labels were given."""
        return float(measures.calibration_error(self._total))

    @property
    def reliability(self) -> Reliability:
        """Confidence and accuracy by bin, for a diagram."""
        pixels, confidence, right = np.moveaxis(self._total.bins, -1, 0)
        there = np.where(pixels > 0, pixels, np.nan)
        return Reliability(np.linspace(0, 1, BINS + 1), pixels, confidence / there, right / there)

    def __repr__(self) -> str:
        numbers: dict[str, Any] = {"images": self.images, "pixels": self.pixels}
        for name in ("mean_iou", "pixel_accuracy", "negative_log_likelihood", "calibration_error"):
            numbers[name] = f"{getattr(self, name):.4f}"
        return f"SegmentationResult({', '.join(f'{name}={value}' for name, value in numbers.items())})"
