"""Metrics of counts: each takes Counts (…) and gives a number for each entry of their leading axes.

A label that is neither true nor predicted anywhere has no intersection over union: it is NaN, and left out of means.
So is every ratio without pixels. To add a metric, write its function, list it in METRICS, and give SegmentationResult
a property.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError
from densefield.metrics.boundaries import BANDS
from densefield.metrics.counts import BINS, Counts, ImageCounts, stack_images

Array = npt.NDArray[np.float64]
Metric = Callable[[Counts], Array]


def iou(counts: Counts) -> Array:
    """Intersection over union of each label, (…, L)."""
    return _iou(counts.overlap.sum(axis=-2), counts.truth.sum(axis=-2), counts.predicted.sum(axis=-2))


def mean_iou(counts: Counts) -> Array:
    """The mean intersection over union of the labels that are true or predicted somewhere."""
    return mean_without_nan(iou(counts))


def frequency_weighted_iou(counts: Counts) -> Array:
    """The mean intersection over union, weighted by the number of pixels that truly have the label."""
    weights = counts.truth.sum(axis=-2)
    each = np.where(weights > 0, iou(counts), 0.0)
    return _ratio((weights * each).sum(axis=-1), weights.sum(axis=-1))


def pixel_accuracy(counts: Counts) -> Array:
    """The fraction of pixels whose label is correct."""
    return _ratio(counts.overlap.sum(axis=(-2, -1)), counts.truth.sum(axis=(-2, -1)))


def trimap_iou(counts: Counts) -> Array:
    """The mean intersection over union within 1, 2, … 20 pixels of the true boundaries, (…, 20)."""
    return mean_without_nan(_iou(_bands(counts.overlap), _bands(counts.truth), _bands(counts.predicted)))


def trimap_accuracy(counts: Counts) -> Array:
    """The pixel accuracy within 1, 2, … 20 pixels of the true boundaries, (…, 20)."""
    return _ratio(_bands(counts.overlap).sum(axis=-1), _bands(counts.truth).sum(axis=-1))


def negative_log_likelihood(counts: Counts) -> Array:
    """The mean of -log q_i(y_i) over pixels (paper, Eq. 6); NaN if only labels were given."""
    return _ratio(counts.log_loss, counts.bins[..., 0].sum(axis=-1))


def calibration_error(counts: Counts) -> Array:
    """The expected calibration error, |confidence - accuracy| in 15 bins; NaN without marginals."""
    gap = np.abs(counts.bins[..., 2] - counts.bins[..., 1]).sum(axis=-1)
    return _ratio(gap, counts.bins[..., 0].sum(axis=-1))


METRICS: dict[str, Metric] = {
    metric.__name__: metric
    for metric in (
        iou,
        mean_iou,
        frequency_weighted_iou,
        pixel_accuracy,
        trimap_iou,
        trimap_accuracy,
        negative_log_likelihood,
        calibration_error,
    )
}
LOWER_IS_BETTER = (negative_log_likelihood, calibration_error)


def checked_metric(metric: object) -> Metric:
    """The metric of that name, or the function itself."""
    if callable(metric):
        return metric
    if not isinstance(metric, str) or metric not in METRICS:
        raise InputError(f"metric is {metric!r}, expected one of {', '.join(METRICS)}, or a function of Counts.")
    return METRICS[metric]


class Reliability(NamedTuple):
    """A reliability diagram: the mean confidence and the accuracy in each of 15 bins of confidence.

    Parameters
    ----------
    edges
        The limits (16,) of the bins: bin b holds confidences from `edges[b]` up to `edges[b + 1]`.
    pixels
        The number of pixels (15,) in each bin.
    confidence, accuracy
        Their means (15,) in each bin; NaN in bins without pixels.
    """

    edges: Array
    pixels: Array
    confidence: Array
    accuracy: Array


class SegmentationResult:
    """Metrics of a segmentation over all images together; NaN for labels absent from truth and prediction.

    Parameters
    ----------
    per_image
        The counts (N, …) of each image.
    confusion
        Pixels (L, L) by true and predicted label.
    names
        The name of each image; None for images without one.
    """

    def __init__(self, per_image: Counts, confusion: npt.NDArray[np.int64], names: tuple[str | None, ...]) -> None:
        self.per_image, self.confusion, self.names = per_image, confusion, names
        self._total = per_image.total()

    @property
    def images(self) -> int:
        """Number of images."""
        return len(self.per_image)

    @property
    def pixels(self) -> int:
        """Number of pixels, without void."""
        return int(self.confusion.sum())

    @property
    def iou(self) -> Array:
        """Intersection over union of each label, (L,)."""
        return iou(self._total)

    @property
    def mean_iou(self) -> float:
        """The mean intersection over union of the labels that are true or predicted somewhere."""
        return float(mean_iou(self._total))

    @property
    def frequency_weighted_iou(self) -> float:
        """The mean intersection over union, weighted by the number of pixels that truly have the label."""
        return float(frequency_weighted_iou(self._total))

    @property
    def pixel_accuracy(self) -> float:
        """The fraction of pixels whose label is correct."""
        return float(pixel_accuracy(self._total))

    @property
    def trimap_iou(self) -> Array:
        """The mean intersection over union within 1, 2, … 20 pixels of the true boundaries, (20,)."""
        return trimap_iou(self._total)

    @property
    def trimap_accuracy(self) -> Array:
        """The pixel accuracy within 1, 2, … 20 pixels of the true boundaries, (20,)."""
        return trimap_accuracy(self._total)

    @property
    def negative_log_likelihood(self) -> float:
        """The mean of -log q_i(y_i) over pixels (paper, Eq. 6); NaN if only labels were given."""
        return float(negative_log_likelihood(self._total))

    @property
    def calibration_error(self) -> float:
        """The expected calibration error; NaN if only labels were given."""
        return float(calibration_error(self._total))

    @property
    def reliability(self) -> Reliability:
        """The reliability diagram."""
        pixels, confidence, correct = np.moveaxis(self._total.bins, -1, 0)
        edges = np.linspace(0, 1, BINS + 1)
        return Reliability(edges, pixels, _ratio(confidence, pixels), _ratio(correct, pixels))

    def __repr__(self) -> str:
        numbers: dict[str, Any] = {"images": self.images, "pixels": self.pixels}
        for name in ("mean_iou", "pixel_accuracy", "negative_log_likelihood", "calibration_error"):
            numbers[name] = f"{getattr(self, name):.4f}"
        return f"SegmentationResult({', '.join(f'{name}={value}' for name, value in numbers.items())})"


def combine_images(images: Iterable[tuple[str | None, ImageCounts]], num_classes: int) -> SegmentationResult:
    """The result over all images, given as pairs of name and counts; an image whose name is repeated counts once.

    >>> import numpy as np
    >>> from densefield.metrics.counts import count_pixels
    >>> truth = np.zeros((1, 4), int)
    >>> images = {name: count_pixels(np.arange(4)[None] // n, truth, num_classes=4) for name, n in (("a", 2), ("b", 4))}
    >>> combine_images(images.items(), num_classes=4).pixel_accuracy
    0.75
    """
    names: list[str | None] = []
    counts: list[ImageCounts] = []
    first: dict[str, ImageCounts] = {}
    for name, image in images:
        if name is not None and first.setdefault(name, image) is not image:
            if not np.array_equal(_true_labels(first[name], num_classes), _true_labels(image, num_classes)):
                raise InputError(
                    f"two images with different true labels have the name {name!r}. Give each image its own name."
                )
            continue
        names.append(name)
        counts.append(image)
    if not counts:
        raise InputError("no image was counted, expected one or more.")
    confusion = np.sum([image.confusion(num_classes) for image in counts], axis=0)
    return SegmentationResult(stack_images(counts, num_classes), confusion, tuple(names))


def _true_labels(image: ImageCounts, num_classes: int) -> npt.NDArray[Any]:
    return stack_images([image], num_classes).truth


def _bands(rings: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Counts within r pixels, for r = 1…20, from counts at distance 1, 2, … and beyond: (…, 20, L)."""
    return np.cumsum(rings[..., :BANDS, :], axis=-2)


def _iou(overlap: npt.NDArray[Any], truth: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> Array:
    return _ratio(overlap, truth + predicted - overlap)


def mean_without_nan(values: Array) -> Array:
    """The mean over the last axis without NaN; NaN if there is no other value."""
    there = ~np.isnan(values)
    return _ratio(np.where(there, values, 0.0).sum(axis=-1), there.sum(axis=-1))


def _ratio(numerator: npt.NDArray[Any], denominator: npt.NDArray[Any]) -> Array:
    """NaN where the denominator is 0."""
    divisor = np.asarray(denominator, np.float64)
    ratio: Array = np.divide(numerator, divisor, out=np.full(divisor.shape, np.nan), where=divisor > 0)
    return ratio
