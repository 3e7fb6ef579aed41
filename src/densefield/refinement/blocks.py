"""Masks in blocks: the size of the pixels of a mask that was enlarged without interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

SMALLEST = 3.0  # pixels
LARGEST = 160.0
PADDING = 16  # zeros that refine the frequencies of the transform
LEAST_COHERENCE = 0.93  # 1 for edges at multiples of the block's size
LEAST_POSITIONS = 4.5  # different positions of edges along both axes: a rectangle has four
SAME_SIZE = 0.08  # largest difference of the logarithms of width and height
LEAST_SPREAD = 0.35  # standard deviation of the positions, over the block's size


def block_size(labels: npt.NDArray[np.integer]) -> float | None:
    """The size of the blocks that a mask (H, W) consists of, in pixels; None if it does not.

    Edges of such masks lie at multiples of one length. The Fourier transform of the number of edges at each position
    has its full height at the frequency of that length, which need not be an integer.

    >>> coarse = np.random.default_rng(7).integers(0, 2, (9, 12))
    >>> block_size(coarse.repeat(16, axis=0).repeat(16, axis=1))
    16.0
    >>> rows, columns = np.indices((90, 120))
    >>> block_size((rows - 45) ** 2 + (columns - 60) ** 2 < 900)
    """
    across = (labels[:, 1:] != labels[:, :-1]).sum(axis=0)
    down = (labels[1:] != labels[:-1]).sum(axis=1)
    if not across.any() or not down.any() or _positions(across) + _positions(down) < LEAST_POSITIONS:
        return None
    # Blocks begin at the first pixel, or end at the last one.
    for wide in [*_periods(across), *_periods(across[::-1])]:
        for high in [*_periods(down), *_periods(down[::-1])]:
            if abs(np.log(wide / high)) < SAME_SIZE:
                return round(float(np.sqrt(wide * high)), 1)
    return None


def _periods(edges: npt.NDArray[Any]) -> list[float]:
    """Lengths of which all positions of edges are multiples, largest first.

    The mean of cos 2πfx over the edges at x is 1 if all are at multiples of the period 1/f.
    """
    at = np.concatenate([[0], edges])  # the first edge is between pixels 0 and 1, at x = 1
    length = PADDING * len(at)
    coherence = np.fft.rfft(at, length).real / edges.sum()
    lowest, highest = length / min(LARGEST, _spread(edges) / LEAST_SPREAD + 1e-9), length / SMALLEST
    inside = np.arange(int(np.ceil(lowest)), min(int(highest), len(coherence) - 1))
    inside = inside[coherence[inside] >= LEAST_COHERENCE]
    groups = np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1)
    return [length / float(group[coherence[group].argmax()]) for group in groups if len(group)]


def _positions(edges: npt.NDArray[Any]) -> float:
    """The effective number of different positions of edges."""
    return float(edges.sum() ** 2 / (edges.astype(np.float64) ** 2).sum())


def _spread(edges: npt.NDArray[Any]) -> float:
    """The standard deviation of the positions."""
    places, total = np.arange(len(edges)), edges.sum()
    return float(np.sqrt((edges * (places - (edges * places).sum() / total) ** 2).sum() / total))
