"""Colours of the labels of a mask: smoothed histograms of the colours inside each label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densefield.refinement.mask_edges import Float32, Int32, MaskEdges

LEVELS = {1: 64, 2: 32, 3: 16}  # bins per channel
LEAST_PIXELS = 20  # of a label; with fewer inside its core, all its pixels count
UNSEEN = 0.01  # share of the pixels that is spread over all colours
SMOOTHING = 2  # passes of [1, 2, 1]/4 along each channel


@dataclass(frozen=True)
class ColourModel:
    """log p(colour | label) of each bin.

    Parameters
    ----------
    channels
        (N, C), at most three: the colours of the pixels.
    low, scale, levels
        A value v is in bin (v - low) · scale of `levels`.
    log_likelihoods
        (labels, bins), minus their mean over the labels, and weighted.
    """

    channels: npt.NDArray[np.generic]
    low: list[float]
    scale: list[float]
    levels: int
    log_likelihoods: Float32

    def write_scores(
        self, edges: MaskEdges, margins: Float32, points: Int32, strength: float, width: float, out: Float32
    ) -> None:
        """Writes the scores (K, M) of some points: half the preference for the mask's label, and that of colours.

        The mask's label is preferred to the one across the edge by strength · (1 - exp(-(margin/width)²)); all others
        have the score -strength.
        """
        edges.native.scores(
            self.channels,
            edges.use,
            self.low,
            self.scale,
            self.levels,
            self.log_likelihoods,
            margins.reshape(-1),
            strength,
            width,
            points,
            out,
            edges.threads,
        )


def colour_model(edges: MaskEdges, margins: Float32, core: float, weight: float) -> ColourModel:
    """The colours of the pixels that are at least `core` inside their label, for each label."""
    channels = _at_most_three(edges.channels)
    levels = LEVELS[channels.shape[1]]
    low, high = _range(channels)
    scale = [levels / (b - a) if b > a else 0.0 for a, b in zip(low, high, strict=True)]

    def counts(least: float) -> npt.NDArray[np.int64]:
        out = np.empty((edges.num_labels, levels ** channels.shape[1]), np.int64)
        edges.native.count_colours(
            channels, edges.use, low, scale, levels, margins.reshape(-1), least, out, edges.threads
        )
        return out

    found = counts(core)
    few = found.sum(axis=1) < LEAST_PIXELS
    if few.any():
        found[few] = counts(-np.inf)[few]
    shape = (levels,) * channels.shape[1]
    histogram = _smoothed(found.astype(np.float32).reshape(-1, *shape)).reshape(len(found), -1)
    histogram += UNSEEN * np.maximum(found.sum(axis=1, keepdims=True), 1) / histogram.shape[1]
    logs = np.log(histogram / histogram.sum(axis=1, keepdims=True))
    logs -= logs.mean(axis=0)
    return ColourModel(channels, low, scale, levels, np.ascontiguousarray(weight * logs, np.float32))


def _at_most_three(channels: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Channels (N, C), or their first three principal components if there are more."""
    if channels.shape[1] <= 3:
        return channels
    sample = channels[:: max(1, len(channels) // 10_000)].astype(np.float64)
    _, axes = np.linalg.eigh(np.cov(sample, rowvar=False))
    return np.ascontiguousarray(channels @ axes[:, -3:].astype(np.float32), np.float32)


def _range(channels: npt.NDArray[np.generic]) -> tuple[list[float], list[float]]:
    """The lowest and highest colour of each channel: 0 and 256, unless the colours are in another range."""
    count = channels.shape[1]
    if channels.dtype == np.uint8:
        return [0.0] * count, [256.0] * count
    low, high = channels.min(axis=0), channels.max(axis=0)
    if (low >= 0).all() and (high < 256).all():
        return [0.0] * count, [256.0] * count
    return low.tolist(), high.tolist()


def _smoothed(histogram: Float32) -> Float32:
    """Histograms (labels, levels, …) smoothed along every axis but the first; the sum is kept."""
    for axis in range(1, histogram.ndim):
        for _ in range(SMOOTHING):
            moved = np.moveaxis(histogram, axis, -1)
            padded = np.concatenate([moved[..., :1], moved, moved[..., -1:]], axis=-1)
            moved[...] = (padded[..., :-2] + 2 * padded[..., 1:-1] + padded[..., 2:]) / 4
    return histogram
