"""How masks in files are read and refined."""

from __future__ import annotations

from dataclasses import dataclass

from densefield.crf.model import CRF
from densefield.labels import Void
from densefield.metrics.decoding import DecodingMetric

DATA_RANGE = 255.0  # read_image() scales every image to 0…255


@dataclass(frozen=True)
class RefineSettings:
    """How masks are read and refined.

    Parameters
    ----------
    crf
        A CRF to use instead of the learnt one.
    iterations
        Number of mean-field iterations, without `crf`; by default 5.
    roughness
        Distance of a mask's edges from the true ones in pixels; estimated by default.
    temperature
        Divisor of logits and of logarithms of probabilities.
    confidence
        Probability that a label of a mask is correct, in place of the estimate of roughness.
    decode
        What labels of pictures are chosen for: "accuracy", "iou" or "dice", see `densefield.metrics.decode`.
    num_classes
        The number of classes; by default one more than the highest label of each mask.
    void
        The value of unknown pixels in masks; "auto" is 255, None is no value.
    logits
        Arrays hold logits instead of probabilities.
    soft
        Grey pictures hold the probability of label 1.
    explain
        Diagnose each pair with `densefield.explain`.
    window, spacing, tile
        For volumes and rasters, see `densefield.volumes.refine_file`.

    >>> RefineSettings(num_classes=21).decode
    'accuracy'
    """

    crf: CRF | None = None
    iterations: int | None = None
    roughness: float | None = None
    temperature: float | None = None
    confidence: float | None = None
    decode: DecodingMetric = "accuracy"
    num_classes: int | None = None
    void: Void = "auto"
    logits: bool = False
    soft: bool = False
    explain: bool = False
    window: tuple[float, float] | None = None
    spacing: tuple[float, ...] | None = None
    tile: int | None = None
