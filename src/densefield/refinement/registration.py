"""Moving the edges of a mask as a whole to where the image has edges.

A mask that was dilated, eroded or shifted has edges at a constant offset from those of the image. One contour is too
little to see this; the mean over the whole mask shows it clearly. The edge profile of a mask gives the mean strength of
the image's edges for each direction of the mask's normal and each distance. An offset β into the inner label and a
shift s of the mask move the edge with outward normal n to the distance β - s·n inside. The displacement whose edges are
strongest is used if they are clearly stronger than those of the mask as it came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.refinement.mask_edges import BINS, EdgeProfile

Array = npt.NDArray[Any]

MOST_OFFSET = 14  # units
MOST_SHIFT = 7
MOST_TOGETHER = 16
CLEAR_GAIN = 0.3  # of edge strength, relative to that at the mask's own edge, for a long edge
NOISE = 6.0  # more is asked for in proportion to 1/√length, as noise of a mean is
COST_OF_LENGTH = 0.04  # edge strength that a displacement by one unit must gain


@dataclass(frozen=True)
class Displacement:
    """How an edge is moved: by an offset into the inner label, and by a shift (x, y) of the mask, in units."""

    offset: float = 0.0
    shift: tuple[float, float] = (0.0, 0.0)


def register(profiles: Sequence[EdgeProfile | None], most: float = np.inf) -> list[Displacement]:
    """The displacement of the edge of each pair of labels.

    All edges share one displacement, with either label as the one that was enlarged, or stay where they are: if an
    object was dilated over the background, only their edge has moved.

    Parameters
    ----------
    profiles
        The edge profile of each pair; None for pairs whose edge is not known.
    most
        The largest displacement, in units.
    """
    known = [each for each in profiles if each is not None]
    if not known:
        return [Displacement()] * len(profiles)
    candidates, places, mirrored = _candidates(len(known[0].weight))
    lengths = _lengths(candidates)
    allowed = lengths <= most
    flat = places + 2 * BINS * np.arange(places.shape[1])
    means = np.array([np.take(_smoothed(each.strength) * each.weight[:, None], flat).sum(axis=1) for each in known])
    values = means - COST_OF_LENGTH * lengths
    best_sign = np.maximum(values, values[:, mirrored])
    share = np.array([each.length for each in known])
    total = share.sum()
    together = np.where(allowed, share @ np.maximum(best_sign, means[:, :1]), -np.inf) / total
    best = int(together.argmax())
    if together[best] < (1 + CLEAR_GAIN + NOISE / np.sqrt(total)) * together[0]:
        return [Displacement()] * len(profiles)

    def choice(value: Array) -> Displacement:
        options = [0, best, int(mirrored[best])]
        return _displacement(candidates[options[int(value[options].argmax())]])

    chosen = iter([choice(value) for value in values])
    return [Displacement() if each is None else next(chosen) for each in profiles]


def _displacement(candidate: Array) -> Displacement:
    offset, x, y = candidate.tolist()
    return Displacement(offset, (x, y))


def sharpness(profile: EdgeProfile, at: Displacement) -> float:
    """Edge strength at the displaced edge over that 4 units beside it: how exactly edges of mask and image agree."""
    expected = _distances(np.array([[at.offset, *at.shift]]), len(profile.weight))[0]  # (directions,)
    strength = _smoothed(profile.strength)

    def mean(steps: tuple[int, ...]) -> float:
        places = np.clip(np.floor(expected[:, None] + np.array(steps) + 0.5) + BINS, 0, 2 * BINS - 1).astype(np.intp)
        return float((np.take_along_axis(strength, places, axis=1).mean(axis=1) * profile.weight).sum())

    return mean((-1, 0)) / max(mean((-5, -4, 3, 4)), 1e-9)


def _smoothed(strength: Array) -> Array:
    """Each direction's profile, smoothed over neighbouring distances."""
    padded = np.pad(strength, ((0, 0), (1, 1)), mode="edge")
    return (padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]) / 4  # type: ignore[no-any-return]


def _lengths(candidates: Array) -> Array:
    return np.abs(candidates[:, 0]) + np.hypot(candidates[:, 1], candidates[:, 2])


def _distances(candidates: Array, directions: int) -> Array:
    """β - s·n for each candidate and direction."""
    angles = np.arange(directions) * (2 * np.pi / directions)
    outward: Array = candidates[:, 1:2] * np.cos(angles) + candidates[:, 2:] * np.sin(angles)
    return candidates[:, :1] - outward


@lru_cache(maxsize=4)
def _candidates(directions: int) -> tuple[Array, Array, Array]:
    """Displacements (n, 3), none first; the bins (n, directions) of their edges; those with opposite offset (n,)."""
    offsets = np.arange(-MOST_OFFSET, MOST_OFFSET + 1)
    shifts = np.arange(-MOST_SHIFT, MOST_SHIFT + 1) if directions > 1 else np.zeros(1, int)
    grid = np.stack(np.meshgrid(offsets, shifts, shifts, indexing="ij"), axis=-1).reshape(-1, 3).astype(np.float64)
    grid = grid[(np.hypot(grid[:, 1], grid[:, 2]) <= MOST_SHIFT) & (_lengths(grid) <= MOST_TOGETHER)]
    grid = grid[np.argsort(_lengths(grid), kind="stable")]
    places = np.clip(np.floor(_distances(grid, directions)) + BINS, 0, 2 * BINS - 1).astype(np.intp)
    order = np.lexsort(grid.T)
    mirrored = np.empty(len(grid), np.intp)
    mirrored[np.lexsort((grid * [-1, 1, 1]).T)] = order
    return grid, places, mirrored
