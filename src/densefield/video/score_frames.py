"""Refining several frames of a video with probabilities or logits together, by (x, y, t) kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.crf.model import CRF
from densefield.crf.problem import checked_scores
from densefield.crf.unary import unary
from densefield.errors import InputError
from densefield.refinement.colour_model import ColourModel, colour_model
from densefield.refinement.mask_edges import Float32
from densefield.refinement.parameters import learnt
from densefield.refinement.scores import LEAST_PROBABILITY, score_kernels
from densefield.video.held import with_held_marginals
from densefield.video.options import CLIP_STEP, STREAM_STEP, Channels, FrameCheck, VideoOptions


@dataclass(frozen=True)
class ScoreFrame:
    """A frame with its scores.

    Parameters
    ----------
    channels
        (N, C): the colours of the pixels.
    scores
        (L, H, W), or (K, H, W) of the labels that are possible.
    """

    channels: Channels
    scores: Float32

    @property
    def labels(self) -> npt.NDArray[np.int32]:
        """(N,): the most probable label of each pixel."""
        best: npt.NDArray[np.int32] = self.scores.reshape(len(self.scores), -1).argmax(axis=0).astype(np.int32)
        return best


class ScoreReader:
    """Checks frames and their scores one by one: all must have the size and the classes of the first."""

    def __init__(self, options: VideoOptions) -> None:
        self.check, self._options, self._num_classes = FrameCheck(options), options, options.num_classes
        self._shape: tuple[int, ...] | None = None

    @property
    def num_classes(self) -> int:
        """The number of classes, after the first scores."""
        assert self._num_classes is not None
        return self._num_classes

    def scores(self, given: Any, index: int) -> Float32:
        """The scores (L, H, W) of a frame, divided by the temperature."""
        options = self._options
        try:
            found = unary(**{options.kind: given})
            scores = checked_scores(found.scores, False, options.num_threads).astype(np.float32, copy=False)
        except InputError as error:
            reason, of_pixels, _ = str(error).partition(" Leave those pixels out")  # of a video, none can be left out
            cure = " Replace them in the array." if of_pixels else ""
            raise InputError(f"frame {index} (from 0): {reason}{cure}") from None
        if scores.ndim != 3:
            raise InputError(
                f"the {options.kind} of frame {index} (from 0) have shape {scores.shape}, expected (classes, rows, "
                "columns)."
            )
        if self._shape not in (None, scores.shape):
            raise InputError(
                f"the {options.kind} of frame {index} (from 0) have shape {scores.shape}, but those before have "
                f"{self._shape}: expected one size."
            )
        if self._num_classes not in (None, len(scores)):
            raise InputError(
                f"the {options.kind} of frame {index} (from 0) have shape {scores.shape}, that is {len(scores)} "
                f"classes, but num_classes={self._num_classes} was given."
            )
        self._num_classes, self._shape = len(scores), scores.shape
        return scores if options.temperature is None else scores / np.float32(options.temperature)

    def frame(self, image: Any, given: Any, index: int) -> ScoreFrame:
        """A frame and its scores."""
        channels, scores = self.check(image, index), self.scores(given, index)
        if scores.shape[1:] != self.check.shape:
            raise InputError(
                f"the {self._options.kind} of frame {index} (from 0) have shape {scores.shape}, but the frame has "
                f"{self.check.shape} pixels: expected (classes, rows, columns) with the rows and columns of the frame."
            )
        return ScoreFrame(channels, scores)


def largest_leads(scores: Float32, threads: int) -> Float32:
    """(L,): how far each label leads at most at any pixel; below 0 for one that is nowhere the best."""
    leads = np.empty(len(scores), np.float32)
    _core.largest_leads(np.ascontiguousarray(scores.reshape(len(scores), -1)), leads, threads)
    return leads


def possible(leads: Float32) -> npt.NDArray[np.intp]:
    """The labels with a probability of at least 0.1 % somewhere, and at least two.

    >>> possible(np.array([3.0, -1.0, -20.0])).tolist()
    [0, 1]
    """
    least = min(math.log(LEAST_PROBABILITY), float(np.sort(leads)[-2:][0]))
    return np.flatnonzero(leads >= least)


def refined_scores(
    frames: Sequence[ScoreFrame],
    colours: ColourModel | None,
    options: VideoOptions,
    held: Float32 | None = None,  # (K, N)
) -> Float32:
    """The marginals (K, T, H, W) of frames that are refined together; those of the first frame may be held.

    `colours` are those of the whole clip; by default those of these frames.
    """
    scores = np.stack([frame.scores for frame in frames], axis=1)
    shape = scores.shape[1:]
    channels = np.concatenate([frame.channels for frame in frames])
    spacing = (1.0, 1.0, options.step((shape[1], shape[2]), CLIP_STEP if held is None else STREAM_STEP))
    crf = CRF(
        score_kernels(shape, spacing),
        iterations=options.crf.iterations,
        threads=options.threads,
        data_range=255.0,  # as FrameCheck scales them
    )
    problem = crf.problem(scores, channels.reshape(*shape, -1), spacing=spacing)
    if colours is None:
        labels = np.concatenate([frame.labels for frame in frames])
        if held is not None:
            labels[: held.shape[1]] = held.argmax(axis=0)
        colours = colour_model(channels, labels, len(scores), options.num_threads)
    summed = np.array(problem.scores, np.float32, order="C")
    replace(colours, channels=channels).add_to(summed, learnt().scores.colour_weight)
    problem = replace(problem, scores=summed)
    if held is not None:
        first = np.arange(summed.shape[1]) < held.shape[1]
        problem = with_held_marginals(problem, first, held)
    return crf.marginals_of(problem)
