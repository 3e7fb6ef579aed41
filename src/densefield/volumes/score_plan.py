"""Refining probabilities, or labels by a CRF of the user, tile by tile."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.crf.label_mask import LabelMask
from densefield.crf.model import CRF
from densefield.crf.unary import LEAST_PROBABILITY, Unary, scores_of_mask
from densefield.refinement.colour_model import ColourModel, colour_model
from densefield.refinement.parameters import ScoreParameters, learnt
from densefield.refinement.refine import for_present_labels
from densefield.refinement.scores import kernels_for_scores
from densefield.volumes.coding import LabelCode, probabilities_of
from densefield.volumes.grid import Array, Grid, Pixels
from densefield.volumes.intensity import Levels
from densefield.volumes.sample import Sample

Float32 = npt.NDArray[np.float32]

CONFIDENCE = 0.7  # of labels, with a CRF of the user
# Of volumes, with lengths in mm, or in half pixels if their size is unknown: chosen on synthetic scans, see
# docs/files.md. Those of photos are wider than the organs of a scan.
VOLUME = ScoreParameters(colour_weight=0.2, sigma=2.0, weight=1.0, sigma_xy=12.0, sigma_rgb=10.0, bilateral_weight=5.0)
REACH = 2.0  # widths of the widest kernel after which other pixels hardly matter


@dataclass(frozen=True)
class ScorePlan:
    """How the tiles of a file of probabilities are refined.

    Parameters
    ----------
    mask
        The file.
    levels
        The scale of the image's intensities.
    spacing
        Size of a pixel along x, y(, z).
    crf
        The CRF, with widths in the unit of the spacing.
    logits
        The file holds logits.
    temperature
        Divisor of logits and logarithms of probabilities.
    code, confidence
        The labels, if the file holds labels, and the probability that they are correct.
    colours, colour_weight
        The colours of each class, and the factor of their log-likelihoods; None with a CRF of the user.
    """

    mask: Grid
    levels: Levels
    spacing: tuple[float, ...]
    crf: CRF
    logits: bool = False
    temperature: float = 1.0
    code: LabelCode | None = None
    confidence: float = CONFIDENCE
    colours: ColourModel | None = None
    colour_weight: float = 0.0

    @property
    def halo(self) -> tuple[int, ...]:
        """Pixels around a tile on which its result depends, along each axis."""
        axes = len(self.spacing)
        widest = np.zeros(axes)
        for kernel in self.crf.kernels:
            widths = kernel.widths_of_parts()
            if kernel.covariance is not None and "position" in widths:
                widest = np.maximum(widest, np.sqrt(np.diag(np.asarray(kernel.covariance, np.float64)))[:axes])
            elif "position" in widths:
                widest = np.maximum(widest, np.asarray(widths["position"], np.float64))
        if self.crf.options.axis_order == "yx":
            widest = widest[::-1]
        return tuple(math.ceil(REACH * width / step) for width, step in zip(widest, self.spacing, strict=True))[::-1]

    def labels(self, sample: Sample) -> Array:
        """The refined labels (…) of a tile, of a file of labels; ignored pixels keep theirs."""
        assert self.code is not None
        given = sample.mask[..., 0]
        best = self.code.values[self.marginals(sample).argmax(axis=0)].astype(given.dtype)
        return best if sample.missing is None else np.where(sample.missing, given, best)

    def marginals(self, sample: Sample) -> Float32:
        """The refined probabilities (L, …) of a tile; ignored pixels keep theirs."""
        unary = self._unary(sample)
        crf = for_present_labels(self.crf, unary)
        levels = self.levels(sample.image, sample.missing)
        problem = crf.problem(unary.scores, levels, ignore=sample.missing, spacing=self.spacing)
        if self.colours is not None:
            scores = np.array(problem.scores, np.float32, order="C")
            flat = np.ascontiguousarray(levels.reshape(scores.shape[1], -1))
            replace(self.colours, channels=flat).add_to(scores, self.colour_weight)
            problem = replace(problem, scores=scores)
        q = crf.marginals_of(problem)
        if sample.missing is not None and self.code is None:
            q[:, sample.missing] = _softmax(unary.scores[:, sample.missing])
        return q

    def _unary(self, sample: Sample) -> Unary:
        """The scores of a tile."""
        if self.code is None:
            return Unary(scores_of(sample, self.mask.path, self.logits) / np.float32(self.temperature))
        rows, known = self.code.rows(sample.mask[..., 0])
        mask = LabelMask(rows, known, self.code.classes, self.code.num_classes, sample.missing)
        return scores_of_mask(mask, self.confidence)


def scores_of(sample: Sample, path: Any, logits: bool) -> Float32:
    """Scores (L, …) of the probabilities or logits of a file."""
    if not logits:
        probabilities = probabilities_of(Pixels(sample.mask, sample.missing), path)
        return np.asarray(np.log(np.maximum(probabilities, np.float32(LEAST_PROBABILITY))))
    scores = np.ascontiguousarray(np.moveaxis(sample.mask, -1, 0), np.float32)
    if sample.missing is not None:
        scores = np.where(sample.missing, np.float32(0), scores)
    return np.concatenate([np.zeros_like(scores), scores]) if len(scores) == 1 else scores


def plan_scores(
    image: Grid,
    mask: Grid,
    sample: Sample,
    levels: Levels,
    *,
    logits: bool,
    temperature: float,
    iterations: int | None,
    threads: int,
) -> ScorePlan:
    """The plan for probabilities or logits: in rasters with the kernels learnt on photos, in pixels along x."""
    spacing = image.spacing
    parameters, unit = learnt().scores, spacing[0]
    if len(spacing) == 3:
        parameters, unit = VOLUME, 1.0 if image.unit == "mm" else spacing[0] / 2
    crf = CRF(
        kernels_for_scores(parameters, unit),
        iterations=5 if iterations is None else iterations,
        data_range=255.0,
        threads=threads,
    )
    scores = scores_of(sample, mask.path, logits)
    labels = scores.argmax(axis=0).astype(np.int32)
    if sample.missing is not None:
        labels[sample.missing] = -1
    flat = levels(sample.image, sample.missing).reshape(labels.size, -1)
    colours = colour_model(flat, labels.reshape(-1), len(scores), threads)
    return ScorePlan(
        mask, levels, spacing, crf, logits, temperature, None, CONFIDENCE, colours, parameters.colour_weight
    )


def _softmax(scores: Float32) -> Float32:
    """Probabilities (L, …) of scores."""
    q = np.exp(scores - scores.max(axis=0))
    return q / q.sum(axis=0)  # type: ignore[no-any-return]
