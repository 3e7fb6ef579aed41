"""The CRF and the colours for probabilities and logits, as networks give them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.crf.features import checked_spacing
from densefield.crf.kernels import Bilateral, Kernel, Spatial
from densefield.crf.options import CRFOptions
from densefield.crf.problem import Problem
from densefield.crf.unary import Unary
from densefield.filters.threads import check_threads
from densefield.refinement.colour_model import colour_model, image_colours
from densefield.refinement.parameters import ScoreParameters, learnt, length_unit

LEAST_PROBABILITY = 1e-3  # of a label, at its most probable pixel


def score_kernels(shape: Sequence[int], spacing: Sequence[float] | None = None) -> tuple[Kernel, ...]:
    """The learnt kernels for scores of an image (H, W) or a volume (D, H, W).

    >>> [kernel.name for kernel in score_kernels((375, 500))]
    ['spatial', 'bilateral']
    """
    if len(shape) < 2:  # points; the error about their shape comes later
        return kernels_for_scores(learnt().scores, 1.0)
    return kernels_for_scores(learnt().scores, length_unit(shape, checked_spacing(spacing, len(shape))[0]))


def possible_labels(unary: Unary, threads: int) -> Unary:
    """The scores without labels that are less probable than 0.1 % everywhere, which get probability 0.

    >>> scores = np.array([[[5.0, 0.0]], [[0.0, 5.0]], [[-9.0, -9.0]]], np.float32)
    >>> possible_labels(Unary(scores), threads=1).labels.tolist()
    [0, 1]
    """
    if unary.ignore is not None or not np.issubdtype(unary.scores.dtype, np.floating) or not unary.scores.size:
        return unary
    scores = np.ascontiguousarray(unary.scores, np.float32)
    planes = scores.reshape(len(scores), -1)
    if not _core.all_finite(planes.reshape(-1), threads):
        return unary  # inference raises the error
    leads = np.empty(len(scores), np.float32)
    _core.largest_leads(planes, leads, threads)
    kept = np.flatnonzero(leads >= math.log(LEAST_PROBABILITY))
    if len(kept) == len(scores) or len(kept) < 2:
        return unary
    return Unary(scores[kept], kept, len(scores))


def with_colours(
    problem: Problem,
    image: npt.NDArray[Any],
    options: CRFOptions,
    ignore: npt.NDArray[np.bool_] | None = None,
    weight: float | None = None,
) -> Problem:
    """The problem with scores that prefer labels of similar colour, by the colours of the most probable labels.

    Parameters
    ----------
    problem
        The checked scores of the image.
    image
        The image.
    options
        The data range and the threads.
    ignore
        True for pixels that do not count.
    weight
        Factor of the log-likelihoods; by default the learnt one.
    """
    threads, count = check_threads(options.threads), len(problem.scores)
    scores = np.array(problem.scores, np.float32, order="C")
    labels = np.empty(scores.shape[1], np.int32)
    _core.best_labels(scores, labels, threads)
    if ignore is not None:
        labels[ignore.reshape(-1)] = -1
    colours = colour_model(image_colours(image, problem.shape, ignore, options.data_range), labels, count, threads)
    colours.add_to(scores, learnt().scores.colour_weight if weight is None else weight)
    return replace(problem, scores=scores)


def kernels_for_scores(parameters: ScoreParameters, unit: float) -> tuple[Kernel, ...]:
    """The kernels of some parameters, for lengths in multiples of a unit."""
    return (
        Spatial(parameters.sigma * unit, weight=parameters.weight),
        Bilateral(parameters.sigma_xy * unit, parameters.sigma_rgb, weight=parameters.bilateral_weight),
    )
