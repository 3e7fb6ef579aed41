"""A mask on its image: distances to its edges, and the strength of the image's edges around them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.crf.native import new_array
from densefield.filters.pixel_order import pixel_order
from densefield.refinement.parameters import length_unit

Float32 = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]
Float64 = npt.NDArray[np.float64]

IGNORED, UNKNOWN, KNOWN = 0, 1, 2  # values of `use`

MOST_PAIRS = 32  # of labels with profiles of their own
MOST_LABELS = 512  # in masks whose pairs are counted
BINS = 24  # distances of an edge profile on each side of the mask's edge
DIRECTIONS = 16  # of the mask's normals


@dataclass(frozen=True)
class EdgeProfile:
    """Mean strength of the image's edges along the normals of the edge between two labels, by distance from that edge.

    Parameters
    ----------
    strength
        (directions, 2·BINS): strength over its mean. The last half is inside the inner label, the smaller of two.
    weight
        (directions,): share of the edge with this direction of the outward normal.
    contrast
        Mean strength, in levels of the image per pixel.
    length
        Length of the edge in pixels.
    """

    strength: Float64
    weight: Float64
    contrast: float
    length: float


class MaskEdges:
    """The edges of a mask of labels on an image.

    Parameters
    ----------
    labels
        (H, W) or (D, H, W): labels 0…K-1; those of unknown pixels are replaced by the nearest known one.
    use
        The same shape: IGNORED, UNKNOWN or KNOWN.
    channels
        (N, C), uint8 or float32: the colours of the pixels.
    spacing
        Size of a pixel along each axis, slowest first; lengths are in this unit.
    threads
        Number of threads.
    num_labels
        K; by default the highest label plus one.
    unit
        The length that widths are multiples of; by default `length_unit` of the image.

    >>> mask = np.array([[0, 0, 0, 1, 1]])
    >>> edges = MaskEdges(mask, np.full(mask.shape, KNOWN, np.uint8), np.zeros((5, 1), np.uint8), (1.0, 1.0), 1)
    >>> edges.margins().tolist()
    [[2.5, 1.5, 0.5, 0.5, 1.5]]
    """

    def __init__(
        self,
        labels: npt.NDArray[np.integer],
        use: npt.NDArray[np.uint8],
        channels: npt.NDArray[np.generic],
        spacing: tuple[float, ...],
        threads: int,
        *,
        num_labels: int | None = None,
        unit: float | None = None,
    ) -> None:
        self.shape, self.num_axes, self.spacing, self.threads = labels.shape, labels.ndim, spacing, threads
        self.use, self.channels = use.reshape(-1), channels
        self.unit = length_unit(self.shape, spacing[-1]) if unit is None else unit
        grid = (1,) * (3 - labels.ndim) + labels.shape
        steps = [1.0] * (3 - labels.ndim) + [float(each) for each in spacing]
        self.labels = np.ascontiguousarray(labels, np.int32).reshape(grid)
        self.num_labels = int(self.labels.max()) + 1 if num_labels is None else num_labels
        self.all_known = bool((self.use == KNOWN).all())
        if not self.all_known:
            self.labels = _filled(self.labels, self.use.reshape(grid) == KNOWN, steps, threads)
        self.native = _core.MaskEdges(self.labels, steps, self.num_labels, threads)
        self._steps = steps

    @cached_property
    def unknown_distance(self) -> Float32 | None:
        """(N,): the distance of each pixel to the nearest unknown one, 0 for those; None if there is none."""
        unknown = self.use == UNKNOWN
        if not unknown.any():
            return None
        squared, _ = nearest_other(unknown.reshape(self.labels.shape), self._steps, self.threads)
        return np.where(unknown, np.float32(0), np.sqrt(squared))

    def with_labels(self, labels: npt.NDArray[np.integer]) -> MaskEdges:
        """The same image with another mask."""
        return self._like(labels, self.use, self.channels, self.spacing)

    def every(self, step: int) -> MaskEdges:
        """Every `step`-th row and column of an image (H, W) and its mask; lengths and pair numbers stay the same."""
        part = np.s_[::step, ::step]
        channels = self.channels.reshape(*self.shape, -1)[part]
        coarse = self._like(
            self.labels.reshape(self.shape)[part],
            np.ascontiguousarray(self.use.reshape(self.shape)[part]),
            np.ascontiguousarray(channels).reshape(-1, channels.shape[-1]),
            tuple(step * each for each in self.spacing),
        )
        coarse.pairs = self.pairs
        return coarse

    def _like(
        self,
        labels: npt.NDArray[np.integer],
        use: npt.NDArray[np.uint8],
        channels: npt.NDArray[np.generic],
        spacing: tuple[float, ...],
    ) -> MaskEdges:
        return MaskEdges(labels, use, channels, spacing, self.threads, num_labels=self.num_labels, unit=self.unit)

    @cached_property
    def pairs(self) -> Int32:
        """(labels, labels): the number of each pair of labels, by the length of their edge; -1 for those left out."""
        count = self.num_labels
        pairs = np.full((count, count), -1, np.int32)
        if count <= MOST_LABELS:
            lengths = np.empty((count, count), np.int64)
            self.native.edge_lengths(self.use, lengths)
            both = np.triu(lengths + lengths.T)
            longest = np.argsort(-both, axis=None, kind="stable")[:MOST_PAIRS]
            for number, place in enumerate(longest[both.reshape(-1)[longest] > 0]):
                one, other = divmod(int(place), count)
                pairs[one, other] = pairs[other, one] = number
        return pairs

    def margins(self, displacements: npt.ArrayLike = ()) -> Float32:
        """Signed distance of each pixel to the mask's edge, positive on its label's side of it.

        The edge of each pair is first moved by `displacements` (pairs, 3): into the inner label by the first number,
        and by a shift (x, y) of the mask.
        """
        moved = np.zeros((max(int(self.pairs.max()) + 1, 1), 3), np.float32)
        if np.size(displacements):
            moved[:] = displacements
        out = new_array(self.labels.size)
        self.native.margins(self.pairs, moved, out, self.threads)
        return out.reshape(self.shape)

    def displaced_labels(self, margins: Float32) -> Int32:
        """(N,): the label on each pixel's side of the displaced edges, from the margins() to them."""
        labels = self.labels.reshape(-1)
        beyond = margins.reshape(-1) < 0
        if not beyond.any():
            return np.array(labels)
        squared, nearest = np.empty(labels.size, np.float32), np.empty(labels.size, np.int32)
        self.native.distances(squared, nearest)
        found: Int32 = np.where(beyond & (nearest >= 0), labels[nearest], labels)
        return found

    @cached_property
    def profiles(self) -> list[EdgeProfile | None]:
        """How strong the image's edges are around those of each pair of labels; None if there are none."""
        directions = DIRECTIONS if len(self.shape) == 2 else 1
        strengths, counts = (np.empty((int(self.pairs.max()) + 1, directions, 2 * BINS), np.int64) for _ in range(2))
        if not strengths.size:
            return []
        self.native.profile(self.channels, self.use, self.pairs, self.unit, strengths, counts, self.threads)
        return [_profile(*each) for each in zip(strengths, counts, strict=True)]

    def band(self, margins: Float32, limit: float) -> Int32:
        """The pixels within `limit` of the edge, in an order in which neighbours are close."""
        order = pixel_order(self.shape)
        return self.native.band(margins.reshape(-1), self.use, limit, None if order is None else order.native)

    def features(self, points: Int32) -> Float32:
        """Positions x, y(, z) and colours of some pixels, (points, axes + C)."""
        axes = self.num_axes
        features = np.empty((len(points), axes + self.channels.shape[1]), np.float32)
        for column, place in enumerate(reversed(np.unravel_index(points, self.shape))):
            features[:, column] = place * np.float32(self.spacing[axes - 1 - column])
        features[:, axes:] = self.channels[points]
        return features


def pixel_use(
    shape: tuple[int, ...], known: npt.NDArray[np.bool_] | None, ignored: npt.NDArray[np.bool_] | None = None
) -> npt.NDArray[np.uint8]:
    """Whether pixels are KNOWN, UNKNOWN or IGNORED; without `known` all labels are known.

    >>> pixel_use((3,), np.array([True, False, False]), np.array([False, False, True])).tolist()
    [2, 1, 0]
    """
    use = np.full(shape, KNOWN, np.uint8)
    if known is not None:
        use[~known] = UNKNOWN
    if ignored is not None:
        use[ignored] = IGNORED
    return use


def _profile(strengths: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> EdgeProfile | None:
    """The profile of one pair from sums of strengths, in 1/256 levels, and numbers of pixels."""
    at_edge = counts[:, BINS - 1 : BINS + 1].sum(axis=1)
    if not strengths.any() or not at_edge.any():
        return None
    mean = strengths.sum() / counts.sum()
    strength = np.where(counts > 0, strengths / np.maximum(counts, 1) / mean, 1.0)
    return EdgeProfile(strength, at_edge / at_edge.sum(), float(mean) / 256, float(at_edge.sum()) / 2)


def _filled(labels: Int32, known: npt.NDArray[np.bool_], steps: list[float], threads: int) -> Int32:
    """Labels with those of unknown pixels replaced by the nearest known one."""
    _, nearest = nearest_other(~known, steps, threads)
    source = np.where(known.reshape(-1) | (nearest < 0), np.arange(labels.size), nearest)
    filled: Int32 = labels.reshape(-1)[source].reshape(labels.shape)
    return filled


def nearest_other(part: npt.NDArray[np.bool_], steps: list[float], threads: int) -> tuple[Float32, Int32]:
    """Squared distances (N,) from the pixels of a part to the others and back, and the nearest pixels; -1 for none."""
    squared, nearest = np.empty(part.size, np.float32), np.empty(part.size, np.int32)
    _core.MaskEdges(np.ascontiguousarray(part).astype(np.int32), steps, 2, threads).distances(squared, nearest)
    return squared, nearest
