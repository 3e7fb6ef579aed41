"""Colours of labels: a mixture of Gaussians for each, fitted to the colours inside it, as in GrabCut.

Fitting takes one pass over the pixels, which counts colours in bins; the Gaussians are fitted to the mean colours of
the bins. Each bin belongs to its most likely Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.crf.features import pixel_features
from densefield.crf.image_range import LEVELS
from densefield.crf.kernels import Bilateral
from densefield.crf.problem import check_data_range, check_finite_parts, without_ignored
from densefield.refinement.mask_edges import Float32, Int32

BINS = {1: 64, 2: 32, 3: 16}  # per channel
FEWER_BINS = {1: 64, 2: 16, 3: 8}  # for more than MANY_LABELS, whose tables would be large
MANY_LABELS = 64
COMPONENTS = 8
ITERATIONS = 4
LEAST_VARIANCE = 10.0  # along each channel, in levels²
UNSEEN = 0.01  # share of the pixels that is spread over all colours
RANGE = 256.0  # of a channel, in levels
TYPICAL_WIDTH = 10.0  # of colours, in levels, for checks of the image's range
LEAST_PIXELS = 20  # of a label; with fewer inside its core, all its pixels count


@dataclass(frozen=True)
class ColourModel:
    """log p(colour | label), relative to the mean over the labels.

    Parameters
    ----------
    channels
        (N, C), at most three: the colours of the pixels.
    mixtures
        The Gaussians of each label.
    threads
        Number of threads.
    """

    channels: npt.NDArray[np.generic]
    mixtures: _core.ColourMixtures
    threads: int

    def add_to(self, scores: Float32, weight: float, points: Int32 | None = None) -> None:
        """Adds the log-likelihoods, times a weight, to scores (K, M) of some pixels, or (K, N) of all."""
        least = math.log(UNSEEN) - 3 * math.log(RANGE)
        self.mixtures.add_log_likelihoods(self.channels, points, least, weight, scores, self.threads)


def colour_model(
    channels: npt.NDArray[np.generic],  # (N, C)
    labels: Int32,  # (N,)
    num_labels: int,
    threads: int,
    inside: npt.NDArray[np.bool_] | None = None,  # (N,)
) -> ColourModel:
    """The colours of each label at the pixels inside it.

    Parameters
    ----------
    channels
        The colours of all pixels. Of more than three channels, the first three principal components are used.
    labels
        The label of each pixel; -1 for pixels that are not used.
    num_labels
        The number of labels.
    threads
        Number of threads.
    inside
        True for pixels whose label is certain; the others are left out. A label with few certain pixels has the colours
        of all its pixels.

    >>> grey = np.array([[10], [12], [200], [90]], np.uint8)
    >>> model = colour_model(grey, np.array([0, 0, 1, -1], np.int32), num_labels=2, threads=1)
    >>> scores = np.zeros((2, 4), np.float32)
    >>> model.add_to(scores, weight=1.0)
    >>> scores.argmax(axis=0).tolist()
    [0, 0, 1, 0]
    """
    channels = _at_most_three(channels)
    counted = labels
    if inside is not None:
        counted = np.where(inside, labels, np.int32(-1))
        few = np.bincount(counted + 1, minlength=num_labels + 1)[1:] < LEAST_PIXELS
        if few.any():
            counted = np.where((labels >= 0) & few[labels], labels, counted)
    levels = (BINS if num_labels <= MANY_LABELS else FEWER_BINS)[channels.shape[1]]
    low, high = _range(channels)
    scale = [levels / (b - a) if b > a else 0.0 for a, b in zip(low, high, strict=True)]
    mixtures = _core.ColourMixtures(
        channels, counted, num_labels, low, scale, levels, COMPONENTS, ITERATIONS, LEAST_VARIANCE, threads
    )
    return ColourModel(channels, mixtures, threads)


def image_colours(
    image: npt.NDArray[Any],
    shape: tuple[int, ...],
    ignore: npt.NDArray[np.bool_] | None = None,
    data_range: float | Sequence[float] | None = None,
) -> npt.NDArray[np.generic]:
    """The colours (N, C) of an image in levels 0…255, checked; those of ignored pixels are replaced.

    Parameters
    ----------
    image
        The image.
    shape
        Its grid of pixels.
    ignore
        True for pixels that may hold any values.
    data_range
        The range of its colours; by default 255.
    """
    parts = pixel_features((Bilateral(sigma_rgb=TYPICAL_WIDTH),), shape, image)
    if ignore is not None:
        present = (~ignore).astype(np.float32).reshape(-1, 1)
        parts = {name: without_ignored(values, present) for name, values in parts.items()}
    check_data_range(data_range, parts)
    channels = parts["channel"]
    if channels.dtype.kind == "f":
        check_finite_parts(("channel",), parts, shape)
    if data_range is not None:
        channels = np.multiply(channels, LEVELS / np.asarray(data_range), dtype=np.float32, casting="unsafe")
    return channels


def _at_most_three(channels: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Channels (N, C), uint8 or float32; the first three principal components if there are more."""
    if channels.dtype != np.uint8:
        channels = channels.astype(np.float32, copy=False)
    if channels.shape[1] <= 3:
        return np.ascontiguousarray(channels)
    sample = channels[:: max(1, len(channels) // 10_000)].astype(np.float64)
    _, axes = np.linalg.eigh(np.cov(sample, rowvar=False))
    return np.ascontiguousarray(channels @ axes[:, -3:].astype(np.float32), np.float32)


def _range(channels: npt.NDArray[np.generic]) -> tuple[list[float], list[float]]:
    """The lowest and highest colour of each channel: 0 and 256, unless the colours are in another range."""
    count = channels.shape[1]
    if channels.dtype == np.uint8:
        return [0.0] * count, [RANGE] * count
    low, high = channels.min(axis=0), channels.max(axis=0)
    if (low >= 0).all() and (high < RANGE).all():
        return [0.0] * count, [RANGE] * count
    return low.tolist(), high.tolist()
