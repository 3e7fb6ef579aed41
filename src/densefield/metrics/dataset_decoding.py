"""Labels of a dataset from its marginals, chosen for a high expected IoU or Dice score over all images together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, SupportsIndex

import numpy as np

from densefield.errors import InputError
from densefield.metrics.decoding import check_overlap_metric, checked_marginals
from densefield.metrics.decoding_rules import (
    Array,
    Evaluation,
    Float64,
    Labels,
    OverlapMetric,
    Rule,
    arg_max_rule,
    ascend,
    decide,
    expected_overlap,
    pixels_and_intersection,
)


@dataclass(frozen=True)
class DecodingRule:
    """The labels of a dataset: pixel i gets the label with the largest scale[l] · p_il - offset[l].

    Only labels that `decode` uses in the image take part. The two arrays are all that has to be saved.

    Parameters
    ----------
    scale, offset
        Arrays (L,).
    metric
        "iou" or "dice".
    all_present
        As in `decode`.
    """

    scale: Float64
    offset: Float64
    metric: OverlapMetric = "iou"
    all_present: bool = False

    def __post_init__(self) -> None:
        """Checks the arrays."""
        check_overlap_metric(self.metric)
        for name in ("scale", "offset"):
            values = np.asarray(getattr(self, name), np.float64)
            if values.ndim != 1 or values.shape != np.shape(self.scale) or not np.isfinite(values).all():
                raise InputError(
                    f"{name} has shape {values.shape}, expected scale and offset with one finite number for each class."
                )
            object.__setattr__(self, name, values)

    def decode(self, marginals: object, *, ignore: object = None) -> Labels:
        """Labels (H, W) of an image.

        Parameters
        ----------
        marginals
            Probabilities (L, H, W).
        ignore
            As in `decode`.
        """
        p, counted = checked_marginals(marginals, ignore)
        if len(p) != len(self.scale):
            raise InputError(f"the marginals have {len(p)} classes, expected {len(self.scale)}, those of the rule.")
        classes = _allowed(counted, self.metric, self.all_present)
        return classes[Rule(self.scale, self.offset).taken(classes).rows(p[classes])]


class _Sampled(NamedTuple):
    """Pixels of one image, and the labels that it uses."""

    classes: Labels  # (K,)
    p: Array  # (K, n)
    weight: float  # pixels of the image for each sampled one


class DatasetDecoder:
    """Finds the labels with the highest expected IoU or Dice score over all images together, as VOC counts it.

    Counts of all images are added before the ratio is taken: I_l / (P_l + T_l - I_l) with the pixels P_l of label l,
    their expected intersection I_l and the expected area T_l. `update` takes the images one by one, `fit` gives a
    `DecodingRule`, and its `decode` labels the images. No true labels are needed. An image uses only the labels that
    `decode` uses in it alone, so that doubtful classes do not appear.

    Parameters
    ----------
    num_classes
        The number of classes L.
    metric
        "iou" or "dice".
    all_present
        As in `decode`.
    samples
        Pixels sampled from each image. Areas T_l of labels that an image does not use are exact, other sums are over
        these pixels. An image keeps the marginals of the labels that it uses: 100 kB for three of them.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(83)
    >>> images = [random.dirichlet([2.0, 1.0, 0.5], (20, 30)).transpose(2, 0, 1) for _ in range(4)]
    >>> decoder = DatasetDecoder(num_classes=3)
    >>> for marginals in images:
    ...     decoder.update(marginals)
    >>> rule = decoder.fit()
    >>> areas = [np.bincount(rule.decode(marginals).ravel(), minlength=3) for marginals in images]
    >>> argmax = [np.bincount(marginals.argmax(axis=0).ravel(), minlength=3) for marginals in images]
    >>> bool(np.sum(areas, axis=0)[2] > np.sum(argmax, axis=0)[2])  # more pixels of the rare class
    True
    """

    def __init__(
        self, num_classes: int, metric: OverlapMetric = "iou", *, all_present: bool = False, samples: int = 8192
    ) -> None:
        check_overlap_metric(metric)
        self.num_classes, self.metric, self.all_present = _count(num_classes, "num_classes"), metric, all_present
        self._samples = _count(samples, "samples")
        self._images: list[_Sampled] = []
        self._area = np.zeros(self.num_classes)

    def update(self, marginals: object, *, ignore: object = None) -> None:
        """Adds an image.

        Parameters
        ----------
        marginals
            Probabilities (L, H, W).
        ignore
            As in `decode`.
        """
        _, p = checked_marginals(marginals, ignore)
        if len(p) != self.num_classes:
            raise InputError(f"the marginals have {len(p)} classes, expected {self.num_classes}, those of the decoder.")
        if not p.shape[1]:
            return
        classes = _allowed(p, self.metric, self.all_present)
        kept, weight = p[classes], 1.0
        if p.shape[1] > self._samples:
            random = np.random.default_rng(len(self._images))
            places = random.choice(p.shape[1], self._samples, replace=False, shuffle=False)
            kept, weight = p[np.ix_(classes, places)], p.shape[1] / self._samples
        area = p.sum(axis=1, dtype=np.float64)
        area[classes] = weight * kept.sum(axis=1, dtype=np.float64)
        self._area += area
        self._images.append(_Sampled(classes, kept, weight))

    def fit(self) -> DecodingRule:
        """The rule that a fixed-point iteration from the arg max ends at; every step raises the expected score."""
        if not self._images:
            raise InputError("no image was added, expected one or more. Call update(marginals) for every image.")
        found, _ = ascend(self._evaluated, arg_max_rule(self.num_classes))
        return DecodingRule(found.scale, found.offset, self.metric, self.all_present)

    def _evaluated(self, rule: Rule) -> Evaluation:
        """The expected score of the labels of a rule."""
        pixels, intersection = np.zeros(self.num_classes), np.zeros(self.num_classes)
        known = np.zeros(self.num_classes, bool)
        for classes, p, weight in self._images:
            counted, overlapping = pixels_and_intersection(p, rule.taken(classes).rows(p))
            pixels[classes] += weight * counted
            intersection[classes] += weight * overlapping
            known[classes] = True
        values, (scale, offset) = expected_overlap(self.metric, pixels[known], intersection[known], self._area[known])
        # Labels that no image uses get the mean threshold: further images may use them.
        step = Rule(np.ones(self.num_classes), np.full(self.num_classes, (offset / scale).mean()))
        step.scale[known], step.offset[known] = scale, offset
        return Evaluation(float(values.mean()), step, values, pixels)


def _allowed(p: Array, metric: OverlapMetric, all_present: bool) -> Labels:
    """The labels that take part in an image with marginals `p` (L, N)."""
    return np.arange(len(p)) if all_present else decide(p, metric, all_present=False).classes


def _count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or value.__index__() < 1:
        raise InputError(f"{name} is {value!r}, expected an integer, 1 or more.")
    return value.__index__()
