"""Refining frames as they come: the marginals of each frame are carried to the next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.crf.label_mask import expanded
from densefield.errors import InputError, InputTypeError
from densefield.labels import Void
from densefield.refinement.mask_edges import Float32, Int32
from densefield.video.label_clip import alike, prepared
from densefield.video.label_frames import LabelFrames
from densefield.video.labels import UNLABELLED, LabelNumbers, MaskFrame
from densefield.video.options import SAMPLE, STREAM_STEP, FrameCheck, Kind, VideoOptions
from densefield.video.score_frames import ScoreFrame, ScoreReader, largest_leads, possible, refined_scores


def refine_stream(
    pairs: Iterable[tuple[Any, Any]],
    masks: Kind = "labels",
    *,
    num_classes: int | None = None,
    void: Void = "auto",
    roughness: float | None = None,
    temperature: float | None = None,
    iterations: int | None = None,
    frame_step: float | None = None,
    data_range: float | None = None,
    threads: int | None = None,
) -> Iterator[Float32]:
    """Refine the masks of frames as they come; yields the probabilities (L, H, W) of each before the next is read.

    The marginals of a frame are carried to the next: its pixels send messages through the kernels over (x, y, t), with
    their marginals held fixed. Nothing else is kept of the frames before, except the roughness of the last 16 masks.

    Parameters
    ----------
    pairs
        An iterable of pairs: a frame (H, W, C) or (H, W), and its mask (H, W), probabilities or logits (L, H, W).
    masks
        What the second of each pair is: "labels", "probabilities" or "logits".
    num_classes
        The number of classes, for labels; by default the highest label so far plus one, which may grow.
    frame_step
        That of `refine_clip`, by default 4 in frames of up to 375 × 500 pixels.
    void, roughness, temperature, iterations, data_range, threads
        Those of `refine_clip`.

    >>> def camera():
    ...     for t in range(4):
    ...         frame, rough = np.zeros((20, 30, 3), np.uint8), np.zeros((20, 30), np.uint8)
    ...         frame[:, 12 + t :] = 255  # an edge that moves
    ...         rough[:, 14 + t % 2 :] = 1
    ...         yield frame, rough
    >>> [int(q.argmax(axis=0)[0].argmax()) for q in refine_stream(camera())]
    [12, 13, 14, 15]
    """
    numbers = roughness, temperature, iterations, frame_step, data_range, threads
    options = VideoOptions(masks, num_classes, void, *numbers)
    return (expanded(each.q, each.values, each.num_classes) for each in stream(pairs, options))


@dataclass(frozen=True)
class Streamed:
    """The marginals q (K, H, W) of a frame, the labels (K,) of its rows, and the number of classes."""

    q: Float32
    values: npt.NDArray[np.intp]
    num_classes: int


def stream(pairs: Iterable[tuple[Any, Any]], options: VideoOptions) -> Iterator[Streamed]:
    """The refined frames."""
    if not isinstance(pairs, Iterable):
        raise InputTypeError(
            f"got an object of type {type(pairs).__name__}, expected an iterable of pairs (frame, mask)."
        )
    step: Any = (_LabelStream if options.kind == "labels" else _ScoreStream)(options)
    for index, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InputError(f"element {index} of the stream is of type {type(pair).__name__}, expected (frame, mask).")
        yield step(*pair, index)


class _LabelStream:
    """Refines frames with masks of labels one after the other."""

    def __init__(self, options: VideoOptions) -> None:
        self._options, self._check = options, FrameCheck(options)
        self._numbers = LabelNumbers(options.num_classes, options.void)
        self._widths: deque[float] = deque(maxlen=SAMPLE)
        self._last: tuple[MaskFrame, Streamed] | None = None

    def __call__(self, image: Any, mask: Any, index: int) -> Streamed:
        frame = prepared(image, mask, index, self._check, self._numbers, self._options)
        if frame.width is not None:
            self._widths.append(frame.width)
        values = self._numbers.values
        frames: list[MaskFrame] = [frame]
        held: Float32 | None = None
        if self._last is not None:
            before, result = self._last
            carried = _renumbered(result, values)
            best = _best_labels(carried)
            if (best >= 0).any():
                frames, held = [MaskFrame(before.channels, best, None), frame], carried
        labels = np.stack([each.labels for each in frames])
        present = np.unique(labels[labels >= 0])
        if len(present) < 2:
            q = alike(frame, present, len(values))
        else:
            step = self._options.step(self._check.shape, STREAM_STEP)
            group = LabelFrames(frames, labels, present, len(values), step, self._options)
            width = float(np.median(self._widths)) if self._widths else None
            flat = None if held is None else held.reshape(len(values), -1)
            q = group.marginals(group.band(width, None), flat).frame(len(frames) - 1)
        result = Streamed(q, values, self._numbers.num_classes)
        self._last = frame, result
        return result


class _ScoreStream:
    """Refines frames with probabilities or logits one after the other."""

    def __init__(self, options: VideoOptions) -> None:
        self._options, self._reader = options, ScoreReader(options)
        self._last: tuple[ScoreFrame, Streamed] | None = None

    def __call__(self, image: Any, scores: Any, index: int) -> Streamed:
        whole = self._reader.frame(image, scores, index)
        values = possible(largest_leads(whole.scores, self._options.num_threads))
        if self._last is not None:
            before, result = self._last
            values = np.union1d(values, result.values[possible(_log_leads(result.q))])
        frame = ScoreFrame(whole.channels, whole.scores[values])
        frames, held = [frame], None
        if self._last is not None:
            held = _renumbered(result, values).reshape(len(values), -1)
            frames = [ScoreFrame(before.channels, np.zeros_like(frame.scores)), frame]
        q = refined_scores(frames, None, self._options, held)[:, -1]
        result = Streamed(np.ascontiguousarray(q), values, self._reader.num_classes)
        self._last = frame, result
        return result


def _best_labels(q: Float32) -> Int32:
    """(H, W): the most probable label of each pixel; -1 where all are equally probable, as before any mask."""
    best = q.argmax(axis=0)
    known = q.max(axis=0) > np.float32(1.001) * q.mean(axis=0)
    return np.where(known | (len(q) == 1), best, UNLABELLED).astype(np.int32)


def _renumbered(result: Streamed, values: npt.NDArray[np.intp]) -> Float32:
    """The marginals of a frame before, with rows for other labels; those of labels that are left out are 0."""
    q = np.zeros((len(values), *result.q.shape[1:]), np.float32)
    kept = np.isin(result.values, values)
    q[np.searchsorted(values, result.values[kept])] = result.q[kept]
    return q


def _log_leads(q: Float32) -> Float32:
    """(K,): the logarithm of the largest probability of each label."""
    highest: Float32 = np.log(np.maximum(q.reshape(len(q), -1).max(axis=1), np.float32(1e-30)))
    return highest
