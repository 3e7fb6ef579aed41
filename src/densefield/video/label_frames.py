"""Refining several frames of a video with masks of labels together, by (x, y, t) kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densefield.refinement.colour_model import ColourModel
from densefield.refinement.mask_edges import Float32, Int32, MaskEdges, pixel_use
from densefield.refinement.parameters import learnt
from densefield.refinement.rough_mask import EdgeBand, Model, edge_band
from densefield.refinement.roughness import Roughness
from densefield.video.held import with_held_marginals
from densefield.video.labels import MaskFrame
from densefield.video.options import VideoOptions

RULED_OUT = -1e4  # score of a label that occurs in none of the frames


@dataclass(frozen=True)
class LabelFrames:
    """Frames whose masks are refined together.

    Distances to the edges of masks are those in (x, y, t): a pixel whose label differs from that of the frame before
    or after is near an edge, and may change.

    Parameters
    ----------
    frames
        The frames in their order.
    labels
        Their labels (T, H, W), 0…K-1; -1 where unknown.
    present
        The labels that occur, ascending.
    num_labels
        K.
    step
        The length of the step from one frame to the next, in pixels.
    options
        Iterations and threads.
    """

    frames: Sequence[MaskFrame]
    labels: Int32
    present: npt.NDArray[np.integer]
    num_labels: int
    step: float
    options: VideoOptions

    def band(self, width: float | None, colours: ColourModel | None) -> EdgeBand:
        """The pixels near edges, for a roughness in pixels; None if there are no edges to follow."""
        known = self.labels >= 0
        edges = MaskEdges(
            np.where(known, self.labels, np.int32(self.present[0])),
            pixel_use(known.shape, known),
            np.concatenate([frame.channels for frame in self.frames]),
            (self.step, 1.0, 1.0),
            self.options.num_threads,
            num_labels=self.num_labels,
        )
        model = Model(learnt().mask, self.options.crf.iterations)
        band = edge_band(edges, None if width is None else Roughness(width), model, colours)
        absent = np.setdiff1d(np.arange(self.num_labels), self.present)
        band.scores[absent] = RULED_OUT
        return band

    def marginals(self, band: EdgeBand, held: Float32 | None = None) -> FrameMarginals:
        """The marginals of all frames but the first if those of the first, (K, N), are held."""
        if not len(band.points):
            return FrameMarginals(self, band, band.scores)
        places = np.ascontiguousarray(band.features[:, :3])
        problem = band.crf.problem(band.scores, features={"place": places, "pixel": band.features})
        if held is not None:
            first = band.points < held.shape[1]
            problem = with_held_marginals(problem, first, held[:, band.points[first]])
        return FrameMarginals(self, band, band.crf.marginals_of(problem))


@dataclass(frozen=True)
class FrameMarginals:
    """The marginals (K, M) of the points of a band, from which those of single frames are made."""

    group: LabelFrames
    band: EdgeBand
    q: Float32

    def frame(self, number: int) -> Float32:
        """(K, H, W): the marginals of a frame; pixels far from edges have the label of the mask."""
        edges, present = self.band.edges, self.group.present
        shape = edges.shape[1:]
        pixels = math.prod(shape)
        certain = 1 / (1 + (len(present) - 1) * math.exp(-self.band.strength))
        out = np.zeros((self.group.num_labels, pixels), np.float32)
        out[present] = (1 - certain) / max(len(present) - 1, 1)
        labels = edges.labels.reshape(-1)[number * pixels : (number + 1) * pixels]
        out[labels, np.arange(pixels)] = certain
        here = np.flatnonzero(self.band.points // pixels == number)
        out[:, self.band.points[here] - number * pixels] = self.q[:, here]
        return out.reshape(-1, *shape)
