"""Metrics of scored images, without a CRF and with one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from densefield.errors import InputError
from densefield.metrics.combining import combine_images
from densefield.metrics.image_scores import ImageScores
from densefield.metrics.inputs import scored_items
from densefield.metrics.result import SegmentationResult
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.score_sources import ScoredImage, ScoreSource

Progress = Callable[[int, int], None]


class Uncomputable(InputError):
    """A CRF that cannot be computed on an image, such as one of widths far too narrow."""


def log_marginals(scored: ScoredImage, crf: DenseCRF | None) -> Tensor:
    """log q of the CRF, or without one log softmax of the scores, (L, H, W)."""
    with torch.inference_mode():
        if crf is None:
            return scored.scores.log_softmax(0)
        try:
            marginals: Tensor = crf(scored.scores[None], scored.image[None])[0]
        except InputError as error:
            raise Uncomputable(f"{scored.id}: {error}") from error
        return marginals


def count_image(scored: ScoredImage, crf: DenseCRF | None) -> ImageScores:
    """The counts of one image."""
    (counts,) = scored_items(log_marginals(scored, crf)[None], scored.label[None], len(scored.scores))
    return counts


def measure(source: ScoreSource, crf: DenseCRF | None, progress: Progress | None = None) -> SegmentationResult:
    """The measures of all images of a source; `progress` is called with the number of images done and of all.

    >>> from densefield.scenes.scene import SceneDataset
    >>> from densefield.runs.score_sources import NetworkScores
    >>> constant = lambda image: torch.tensor([2.0, 1.0, 0.0])[None, :, None, None].expand(1, 3, *image.shape[2:])
    >>> source = NetworkScores(constant, SceneDataset(2, size=(96, 96), object_classes=2))
    >>> measure(source, None).iou[1:]  # the background is predicted everywhere
    array([0., 0.])
    """
    images = {}
    for index in range(len(source)):
        scored = source[index]
        images[scored.id] = count_image(scored, crf)
        if progress is not None:
            progress(index + 1, len(source))
    return combine_images(images, len(source.classes))
