"""Slow, readable versions of the native functions about the edges of masks, in float64 and with loops over pixels.

Masks are (planes, rows, columns); a mask (rows, columns) is one plane. Pixels are numbered in this order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

IGNORED, UNKNOWN, KNOWN = 0, 1, 2  # as in densefield.refinement.mask_edges


def places(shape: Sequence[int], spacing: Sequence[float]) -> np.ndarray:
    """The positions (N, 3) of all pixels along z, y, x."""
    return np.indices(shape).reshape(3, -1).T * np.asarray(spacing, np.float64)


def squared_distances(labels: np.ndarray, spacing: Sequence[float]) -> np.ndarray:
    """The squared distance (N,) of each pixel to the nearest one of another label, infinite if there is none."""
    at, flat = places(labels.shape, spacing), labels.reshape(-1)
    squared = ((at[:, None] - at[None]) ** 2).sum(axis=2)
    squared[flat[:, None] == flat[None]] = np.inf
    return squared.min(axis=1)


def inner_ranks(labels: np.ndarray, num_labels: int) -> np.ndarray:
    """The rank (labels,) by area, the largest first; of two labels that with the higher rank is the inner one."""
    areas = np.bincount(labels.reshape(-1), minlength=num_labels)
    ranks = np.empty(num_labels, int)
    ranks[np.argsort(-areas, kind="stable")] = np.arange(num_labels)
    return ranks


class Side(NamedTuple):
    """Where a pixel lies at an edge: its distance, the direction z, y, x to the other label, and +1 if it is inside."""

    distance: float
    direction: np.ndarray
    sign: int
    pair: int

    @property
    def outward(self) -> np.ndarray:
        """The normal from the inner to the outer label."""
        return self.sign * self.direction


class Mask:
    """A mask, with the nearest pixel of another label for each pixel: the caller chooses among equally near ones."""

    def __init__(
        self, labels: np.ndarray, spacing: Sequence[float], num_labels: int, nearest: np.ndarray, pairs: np.ndarray
    ) -> None:
        self.shape, self.labels, self.nearest, self.pairs = labels.shape, labels.reshape(-1), nearest, pairs
        self.spacing, self.num_labels = [float(each) for each in spacing], num_labels
        self.at, self.ranks = places(labels.shape, spacing), inner_ranks(labels, num_labels)

    def side(self, pixel: int) -> Side | None:
        """None if there is no other label."""
        other = int(self.nearest[pixel])
        if other < 0:
            return None
        step = self.at[other] - self.at[pixel]
        distance, own, across = float(np.linalg.norm(step)), self.labels[pixel], self.labels[other]
        sign = 1 if self.ranks[own] > self.ranks[across] else -1
        return Side(distance, step / distance, sign, int(self.pairs[own, across]))

    def edge_distance(self, side: Side) -> float:
        """The edge lies half a pixel before the nearest pixel of another label."""
        return side.distance - 0.5 * self.spacing[2]

    def slope(self, image: np.ndarray, use: np.ndarray, pixel: int, direction: np.ndarray) -> float | None:
        """The norm over the channels of the Sobel derivative along a direction; None if a neighbour is missing."""
        z, y, x = (int(each) for each in np.unravel_index(pixel, self.shape))
        colours, usable = image.astype(np.float64).reshape(*self.shape, -1), use.reshape(self.shape) != IGNORED
        around = np.s_[z, y - 1 : y + 2, x - 1 : x + 2]
        if not (0 < y < self.shape[1] - 1 and 0 < x < self.shape[2] - 1 and usable[around].all()):
            return None
        smooth, across = np.array([1, 2, 1]), np.array([-1, 0, 1])
        gradient = [
            np.zeros(colours.shape[-1]),
            np.einsum("yxc,y,x->c", colours[around], across, smooth) / (8 * self.spacing[1]),
            np.einsum("yxc,y,x->c", colours[around], smooth, across) / (8 * self.spacing[2]),
        ]
        if 0 < z < self.shape[0] - 1 and usable[z - 1, y, x] and usable[z + 1, y, x]:
            gradient[0] = (colours[z + 1, y, x] - colours[z - 1, y, x]) / (2 * self.spacing[0])
        return float(np.linalg.norm(direction @ np.array(gradient)))

    def profile(
        self, image: np.ndarray, use: np.ndarray, bin_width: float, num_pairs: int, directions: int, bins: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sums of strengths in 1/256 levels, and numbers of pixels, both (pairs, directions, 2 · bins)."""
        strengths, counts = np.zeros((2, num_pairs, directions, 2 * bins), np.int64)
        for pixel in np.flatnonzero(use.reshape(-1) == KNOWN):
            side = self.side(pixel)
            if side is None or side.pair < 0:
                continue
            step = math.floor(max(self.edge_distance(side), 0.0) / bin_width)
            strength = self.slope(image, use, pixel, side.direction)
            if step >= bins or strength is None:
                continue
            turns = math.atan2(side.outward[1], side.outward[2]) / (2 * math.pi)
            cell = side.pair, round(turns * directions) % directions, bins + step if side.sign > 0 else bins - 1 - step
            strengths[cell] += round(256 * strength)
            counts[cell] += 1
        return strengths, counts

    def margins(self, displacements: np.ndarray) -> np.ndarray:
        """Signed distances (N,) to edges moved by `displacements` (pairs, 3): offset inwards, and a shift (x, y)."""
        margins = np.full(self.labels.size, np.inf)
        for pixel in range(self.labels.size):
            side = self.side(pixel)
            if side is None:
                continue
            margins[pixel] = self.edge_distance(side)
            if side.pair >= 0:
                offset, x, y = displacements[side.pair]
                margins[pixel] -= side.sign * (offset - np.dot([0, y, x], side.outward))
        return margins

    def edge_lengths(self, use: np.ndarray) -> np.ndarray:
        """The number (labels, labels) of known pixels that touch a pixel of another label across a face, by pair."""
        lengths = np.zeros((self.num_labels, self.num_labels), np.int64)
        for pixel in np.flatnonzero(use.reshape(-1) == KNOWN):
            side = self.side(pixel)
            if side is not None and side.distance <= 1.01 * min(self.spacing):
                lengths[self.labels[pixel], self.labels[self.nearest[pixel]]] += 1
        return lengths

    def scores(self, use: np.ndarray, margins: np.ndarray, strength: float, width: float) -> np.ndarray:
        """The scores (labels, N)."""
        scores = np.zeros((self.num_labels, self.labels.size))
        for pixel in np.flatnonzero(use.reshape(-1) == KNOWN):
            half = np.sign(margins[pixel]) * strength / 2 * (1 - math.exp(-((margins[pixel] / width) ** 2)))
            part = np.full(self.num_labels, -strength if self.num_labels > 2 else 0.0)
            if self.nearest[pixel] >= 0:
                part[self.labels[self.nearest[pixel]]] = -half
            part[self.labels[pixel]] = half
            scores[:, pixel] += part
        return scores

    def assembled(self, margins: np.ndarray, points: np.ndarray, marginals: np.ndarray, certain: float) -> np.ndarray:
        """Marginals (labels, N): those of the points, elsewhere those of the label on the pixel's side of the edge."""
        rest = (1 - certain) / max(self.num_labels - 1, 1)
        out = np.full((self.num_labels, self.labels.size), rest)
        for pixel in range(self.labels.size):
            over = margins[pixel] < 0 and self.nearest[pixel] >= 0
            out[self.labels[self.nearest[pixel] if over else pixel], pixel] = certain if self.num_labels > 1 else 1.0
        out[:, points] = marginals
        return out
