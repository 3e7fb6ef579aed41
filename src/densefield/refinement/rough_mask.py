"""The refinement of a mask: how its scores are made, and which pixels the CRF couples.

1. How far the mask's edges lie from those of the image is estimated (`roughness`), and a constant displacement, as of
   dilated, eroded or shifted masks, is undone (`registration`).
2. Scores grow with the distance from the edge, over a length given by the roughness.
3. Log-likelihoods of colours are added (`colour_model`).
4. A CRF couples the pixels near the edges. The others are certain, and too far away to matter.
5. A very rough mask is refined twice: first at a lower resolution, then as a mask of a third of the roughness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from densefield.crf.kernels import Custom
from densefield.crf.label_mask import LabelMask
from densefield.crf.model import CRF
from densefield.crf.native import new_array
from densefield.refinement.colour_model import ColourModel, colour_model
from densefield.refinement.mask_edges import KNOWN, Float32, Int32, MaskEdges, pixel_use
from densefield.refinement.parameters import MaskParameters
from densefield.refinement.roughness import Roughness, estimate_roughness

BAND = 1.2  # widths of the confidence from the edge at which no label can change
SOURCES = 0.25  # widths of the bilateral kernel beyond, from which messages come
SOURCES_OF_UNKNOWN = 2.0  # widths of the bilateral kernel from unknown pixels, from which messages come

VERY_ROUGH = 9.0  # units: masks of more are refined twice
LEFT = 0.35  # roughness after the first time, over that before


@dataclass(frozen=True)
class Model:
    """The learnt model.

    Parameters
    ----------
    parameters
        Widths and weights as functions of the roughness.
    iterations
        Number of mean-field iterations.
    """

    parameters: MaskParameters
    iterations: int = 5


@dataclass(frozen=True)
class EdgeBand:
    """The pixels near the edges of a mask, and the CRF that couples them.

    Parameters
    ----------
    edges
        Distances to the mask's edges.
    margins
        (…): signed distance to the displaced edges, positive on the side of the pixel's own label.
    points
        (M,): the pixels near the edges, by index.
    features
        (M, axes + C): their positions and colours.
    scores
        (K, M): their scores.
    strength
        Score by which the labels of other pixels are preferred.
    crf
        The CRF, with kernels of "place" and "pixel".
    """

    edges: MaskEdges
    margins: Float32
    points: Int32
    features: Float32
    scores: Float32
    strength: float
    crf: CRF

    def point_marginals(self) -> Float32:
        """Probabilities (K, M) of the labels at the points."""
        if not len(self.points):
            return self.scores
        places = np.ascontiguousarray(self.features[:, : len(self.edges.shape)])
        return self.crf.marginals(self.scores, features={"place": places, "pixel": self.features})

    def marginals(self) -> Float32:
        """Probabilities (K, …) of the labels."""
        edges, count, q = self.edges, self.edges.num_labels, self.point_marginals()
        out = new_array(count, edges.labels.size)
        certain = 1 / (1 + (count - 1) * math.exp(-self.strength))
        edges.native.assemble(self.margins.reshape(-1), self.points, q, certain, out, edges.threads)
        return out.reshape(count, *edges.shape)


@dataclass(frozen=True)
class RefinedMask:
    """The result of refining a mask.

    Parameters
    ----------
    roughness
        That of the mask; None if the image has no edges to follow.
    band
        The pixels near the edges, the last time if it was refined twice.
    marginals
        (K, …): the probabilities.
    """

    roughness: Roughness | None
    band: EdgeBand
    marginals: Float32


def refine_mask(
    mask: LabelMask,
    channels: npt.NDArray[np.generic],  # (N, C)
    model: Model,
    *,
    spacing: Sequence[float] = (1.0, 1.0),  # along x, y(, z)
    roughness: float | None = None,
    threads: int = 1,
) -> RefinedMask:
    """Refines a mask of two or more labels, of which some are known; colours are in levels, 0…255."""
    edges = mask_edges(mask, channels, spacing, threads)
    found = estimate_roughness(edges, roughness)
    band = refined_band(edges, found, model)
    return RefinedMask(found, band, band.marginals())


def refined_band(
    edges: MaskEdges, roughness: Roughness | None, model: Model, colours: ColourModel | None = None
) -> EdgeBand:
    """The edge_band(), with the same arguments, of a mask that is first refined coarsely if it is very rough."""
    if roughness is None or edges.num_axes != 2 or roughness.width <= VERY_ROUGH * edges.unit:
        return edge_band(edges, roughness, model, colours)
    rows = _coarsely_refined(edges, roughness, model, colours)
    return edge_band(edges.with_labels(rows), Roughness(LEFT * roughness.width), model, colours)


def mask_edges(mask: LabelMask, channels: npt.NDArray[np.generic], spacing: Sequence[float], threads: int) -> MaskEdges:
    """The edges of a checked mask on the colours (N, C) of its image; lengths are in pixels along x."""
    use = pixel_use(mask.rows.shape, mask.known, mask.ignore)
    if channels.dtype != np.uint8:
        channels = channels.astype(np.float32, copy=False)
    steps = tuple(each / spacing[0] for each in reversed(spacing))
    return MaskEdges(mask.rows, use, np.ascontiguousarray(channels), steps, threads, num_labels=len(mask.labels))


def edge_band(
    edges: MaskEdges, roughness: Roughness | None, model: Model, colours: ColourModel | None = None
) -> EdgeBand:
    """The pixels that may change their label, with their scores, and the CRF for this roughness.

    `colours` are those of a larger image that this one is a part of; by default those of this image.
    """
    here = roughness or Roughness(edges.unit)
    units, parameters = here.width / edges.unit, model.parameters
    strength, width = parameters.strength(units), parameters.width(units) * edges.unit
    margins = edges.margins(here.moves(edges.unit))
    # If the image has no edges, no known pixel changes.
    near = np.full(margins.size, np.inf, np.float32) if roughness is None else np.abs(margins.reshape(-1))
    sigma_xy = parameters.sigma_xy(units) * edges.unit
    limit = BAND * width + SOURCES * sigma_xy
    if edges.unknown_distance is not None:
        near = np.minimum(near, edges.unknown_distance * np.float32(limit / (SOURCES_OF_UNKNOWN * sigma_xy)))
    points = edges.band(near, limit)
    scores = new_array(edges.num_labels, len(points))
    if len(points):
        edges.native.scores(edges.use, margins.reshape(-1), strength, width, points, scores, edges.threads)
        if colours is None:
            colours = mask_colours(edges, margins, width)
        else:
            colours = replace(colours, channels=edges.channels)
        colours.add_to(scores, parameters.colour_weight(units), points)
    crf = _crf(edges, units, model)
    return EdgeBand(edges, margins, points, edges.features(points), scores, strength, crf)


def mask_colours(edges: MaskEdges, margins: Float32, core: float) -> ColourModel:
    """The colours of the known pixels that are at least `core` inside their label."""
    labels = edges.labels.reshape(-1)
    if not edges.all_known:
        labels = np.where(edges.use == KNOWN, labels, np.int32(-1))
    return colour_model(edges.channels, labels, edges.num_labels, edges.threads, inside=margins.reshape(-1) >= core)


def _crf(edges: MaskEdges, units: float, model: Model) -> CRF:
    """The CRF of points near the edges, for a roughness in units."""
    parameters, unit = model.parameters, edges.unit
    widths = [parameters.sigma_xy(units) * unit] * edges.num_axes
    widths += [parameters.sigma_rgb(units)] * edges.channels.shape[1]
    return CRF(
        [
            Custom("place", sigma=parameters.sigma(units) * unit, weight=parameters.weight(units)),
            Custom("pixel", sigma=widths, weight=parameters.bilateral_weight(units)),
        ],
        iterations=model.iterations,
        threads=edges.threads,
    )


def _coarsely_refined(
    edges: MaskEdges, roughness: Roughness, model: Model, colours: ColourModel | None
) -> npt.NDArray[np.int32]:
    """Labels (H, W) refined on every second row and column, or fewer for rougher masks."""
    step = max(2, int(roughness.width / (2 * VERY_ROUGH * edges.spacing[-1])))
    coarse = edges.every(step)
    rows: Int32 = edge_band(coarse, roughness, model, colours).marginals().argmax(axis=0).astype(np.int32)
    height, width = edges.shape
    return rows.repeat(step, axis=0)[:height].repeat(step, axis=1)[:, :width]
