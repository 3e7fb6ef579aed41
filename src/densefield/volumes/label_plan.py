"""Refining a mask of labels tile by tile: roughness, displacement and colours are estimated once, on a sample."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from densefield.refinement.colour_model import ColourModel
from densefield.refinement.mask_edges import IGNORED, KNOWN, UNKNOWN, MaskEdges, pixel_use
from densefield.refinement.parameters import learnt
from densefield.refinement.rough_mask import BAND, SOURCES, Model, mask_colours, refined_band
from densefield.refinement.roughness import Roughness, estimate_roughness
from densefield.volumes.coding import Int32, LabelCode
from densefield.volumes.grid import Array, Grid
from densefield.volumes.intensity import Levels, fitted_levels
from densefield.volumes.sample import Sample

NEAR = 10.0  # mm or pixels: the intensities within this distance of the mask's edges set the levels
# In volumes, errors of many voxels are rare, and structures are near each other: edges of another one must not be taken
# for those of the mask. Chosen on synthetic scans, see docs/files.md.
MOST_ROUGHNESS = 5.0  # mm, or pixels
MOST_DISPLACEMENT = 3.0
REACH = 2.0  # widths of the bilateral kernel after which other pixels hardly matter


@dataclass(frozen=True)
class LabelPlan:
    """How the tiles of a mask are refined.

    Parameters
    ----------
    code
        The labels.
    levels
        The scale of the image's intensities.
    steps
        Size of a pixel along each axis of the shape, in pixels along x.
    roughness
        That of the mask; None if the image has no edges to follow.
    pairs, ranks
        The numbers of the pairs of labels, and the ranks of labels by area.
    colours
        The colours of each label; None if there is one label alone.
    model
        The learnt parameters.
    threads
        Number of threads.
    """

    code: LabelCode
    levels: Levels
    steps: tuple[float, ...]
    roughness: Roughness | None
    pairs: Int32
    ranks: npt.NDArray[np.intp]
    colours: ColourModel | None
    model: Model
    threads: int

    @property
    def halo(self) -> tuple[int, ...]:
        """Pixels around a tile on which its result depends, along each axis."""
        if self.roughness is None or self.colours is None:
            return (0,) * len(self.steps)
        width, parameters = self.roughness.width, self.model.parameters
        sigma = parameters.sigma_xy(width)
        moved = max((abs(each.offset) + math.hypot(*each.shift) for each in self.roughness.displacements), default=0.0)
        length = BAND * parameters.width(width) + (SOURCES + REACH) * sigma + moved
        return tuple(math.ceil(length / step) for step in self.steps)

    def labels(self, sample: Sample) -> Array:
        """The refined labels (…) of a tile as its file writes them; ignored pixels keep theirs."""
        given = sample.mask[..., 0]
        rows, known = self.code.rows(given)
        use = pixel_use(rows.shape, known, sample.missing)
        here = np.bincount(rows[use == KNOWN], minlength=1)
        if self.colours is None or np.count_nonzero(here) < 2:
            if known is None or not here.any():
                return given
            only = self.code.values[int(here.argmax())]
            return np.where(use == UNKNOWN, only, given).astype(given.dtype)
        channels = self.levels(sample.image, sample.missing)
        edges = part_edges(rows, use, channels, self.steps, len(self.code.values), self.threads)
        edges.pairs = self.pairs
        band = refined_band(edges, self._displaced(edges), self.model, self.colours)
        best = band.edges.displaced_labels(band.margins)
        best[band.points] = band.point_marginals().argmax(axis=0)
        out = self.code.values[best.reshape(rows.shape)].astype(given.dtype)
        return np.where(use == IGNORED, given, out)

    def _displaced(self, edges: MaskEdges) -> Roughness | None:
        """The roughness with offsets of pairs whose inner label, the smaller one, is another in this tile."""
        found = self.roughness
        if found is None or not any(each.offset for each in found.displacements):
            return found
        ranks = _ranks(edges)
        moved = list(found.displacements)
        for one, other in np.argwhere(np.triu(self.pairs + 1)):
            number = int(self.pairs[one, other])
            if (ranks[one] < ranks[other]) != (self.ranks[one] < self.ranks[other]):
                moved[number] = replace(moved[number], offset=-moved[number].offset)
        return replace(found, displacements=tuple(moved))


def plan_labels(
    image: Grid,
    sample: Sample,
    code: LabelCode,
    *,
    roughness: float | None,
    iterations: int | None,
    window: tuple[float, float] | None,
    threads: int,
) -> LabelPlan:
    """The plan for a mask of labels; `roughness` is in the unit of the spacing."""
    rows, known = code.rows(sample.mask[..., 0])
    use = pixel_use(rows.shape, known, sample.missing)
    spacing = image.spacing
    steps = tuple(each / spacing[0] for each in reversed(spacing))
    model = Model(learnt().mask, 5 if iterations is None else iterations)
    count = len(code.values)
    blank = np.zeros((rows.size, 1), np.uint8)
    edges = part_edges(rows, use, blank, steps, count, threads)
    levels = edge_levels(image, sample, edges, window)
    ranks = _ranks(edges)
    if count < 2 or np.count_nonzero(np.bincount(rows[use == KNOWN])) < 2:
        return LabelPlan(code, levels, steps, None, edges.pairs, ranks, None, model, threads)
    edges.channels = levels(sample.image, sample.missing).reshape(rows.size, -1)
    found = _roughness(edges, roughness, spacing[0], image.unit)
    here = found or Roughness(edges.unit)
    margins = edges.margins(here.moves(1.0))
    colours = mask_colours(edges, margins, model.parameters.width(here.width))
    return LabelPlan(code, levels, steps, found, edges.pairs, ranks, colours, model, threads)


def edge_levels(
    image: Grid, sample: Sample, edges: MaskEdges, window: tuple[float, float] | None, *, reduce: bool = True
) -> Levels:
    """The scale by the intensities near the edges of the mask, or everywhere if it has none."""
    near = np.abs(edges.margins()) <= (NEAR / image.spacing[0] if image.unit == "mm" else NEAR)
    present = edges.use.reshape(edges.shape) != IGNORED
    values = sample.image[near & present]
    if not len(values):
        values = sample.image[present]
    if not len(values):
        values = np.zeros((1, sample.image.shape[-1]), sample.image.dtype)
    return fitted_levels(values, window, photo=len(image.shape) == 2, reduce=reduce)


def _roughness(edges: MaskEdges, given: float | None, step: float, unit: str) -> Roughness | None:
    """The roughness in pixels along x; in volumes, edges are moved less far than in photos."""
    if given is not None:
        return estimate_roughness(edges, given / step)
    found = estimate_roughness(edges)
    if found is None or edges.num_axes == 2:
        return found
    length = step if unit == "mm" else 1.0
    most = MOST_ROUGHNESS / length
    near = estimate_roughness(edges, MOST_DISPLACEMENT / length)
    return Roughness(min(found.width, most), near.displacements if near is not None else (), found.block)


def part_edges(
    rows: Int32, use: npt.NDArray[np.uint8], channels: Array, steps: tuple[float, ...], count: int, threads: int
) -> MaskEdges:
    """The edges of a part; lengths are in pixels along x, whatever the size of the part."""
    flat = np.ascontiguousarray(channels.reshape(rows.size, -1))
    return MaskEdges(rows, use, flat, steps, threads, num_labels=count, unit=1.0)


def _ranks(edges: MaskEdges) -> npt.NDArray[np.intp]:
    """The rank of each label by its area, the largest first: of two labels, that with the higher rank is inner."""
    areas = np.bincount(edges.labels.reshape(-1), minlength=edges.num_labels)
    ranks = np.empty(edges.num_labels, np.intp)
    ranks[np.argsort(-areas, kind="stable")] = np.arange(edges.num_labels)
    return ranks
