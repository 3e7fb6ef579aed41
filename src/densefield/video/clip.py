"""Refining a clip by overlapping windows of frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.crf.label_mask import expanded
from densefield.crf.unary import only_input
from densefield.errors import InputError, InputTypeError
from densefield.labels import Void
from densefield.video.label_clip import LabelClip
from densefield.video.options import Kind, VideoOptions
from densefield.video.score_clip import ScoreClip
from densefield.volumes.tiles import even_sides, tiles

Float32 = npt.NDArray[np.float32]

WINDOW = {"labels": 32, "probabilities": 16, "logits": 16}  # frames
LEAST_WINDOW = 4


def refine_clip(
    frames: Sequence[Any],  # each (H, W, C) or (H, W)
    *,
    labels: Sequence[Any] | None = None,  # each (H, W)
    probabilities: Sequence[Any] | None = None,  # each (L, H, W), or (H, W)
    logits: Sequence[Any] | None = None,  # each (L, H, W)
    num_classes: int | None = None,
    void: Void = "auto",
    roughness: float | None = None,
    temperature: float | None = None,
    iterations: int | None = None,
    frame_step: float | None = None,
    window: int | None = None,
    data_range: float | None = None,
    threads: int | None = None,
) -> Iterator[Float32]:
    """Refine the masks of a video with kernels over (x, y, t); yields the probabilities (L, H, W) frame by frame.

    Windows of frames are refined together. They overlap by a quarter on either side, and the frames of a window that
    are away from its ends are kept. Memory depends on the window, not on the length of the clip. The roughness of masks
    and the colours of labels are estimated on a sample of frames, once for the whole clip.

    Parameters
    ----------
    frames
        A sequence of frames (H, W, C) or (H, W) of one size, colours 0…255: an array (T, H, W, C), a list, or any
        object with a length that reads a frame by its index, from 0.
    labels
        A sequence of masks (H, W). A mask that is unknown everywhere takes its labels from the frames around it.
    probabilities
        A sequence of arrays (L, H, W), or (H, W) for the probability of the foreground.
    logits
        A sequence of arrays (L, H, W).
    num_classes, void, roughness, temperature, iterations, data_range, threads
        Those of `densefield.refine`. The roughness is that of a single mask after it is displaced as a whole.
    frame_step
        The number of pixels that the step from one frame to the next is worth: smaller ones couple frames more
        strongly. By default 2 in frames of up to 375 × 500 pixels, and more in larger ones in proportion to their
        diagonal.
    window
        The number of frames that are refined together, by default 32, and 16 for probabilities and logits.

    >>> frames = np.zeros((6, 20, 30, 3), np.uint8)
    >>> frames[:, :, 12:] = 255
    >>> rough = np.zeros((6, 20, 30), np.uint8)
    >>> for t in range(6):
    ...     rough[t, :, 10 + t :] = 1  # from two columns early to three late
    >>> [int(q.argmax(axis=0)[0].argmax()) for q in refine_clip(frames, labels=rough)]
    [12, 12, 12, 12, 12, 12]
    """
    kind: Any = only_input(probabilities, labels, logits)
    masks = {"labels": labels, "probabilities": probabilities, "logits": logits}[kind]
    options = VideoOptions(kind, num_classes, void, roughness, temperature, iterations, frame_step, data_range, threads)
    size = checked_window(window, kind)
    check_lengths(frames, masks, kind)
    return _refined(frames, masks, options, size)


def _refined(frames: Sequence[Any], masks: Any, options: VideoOptions, window: int) -> Iterator[Float32]:
    clip = opened_clip(frames, masks, options)
    for _, q in refined_windows(clip, len(frames), window):
        yield expanded(q, clip.values, clip.num_classes)


def opened_clip(frames: Sequence[Any], masks: Sequence[Any], options: VideoOptions) -> LabelClip | ScoreClip:
    """The clip with its estimates."""
    return LabelClip(frames, masks, options) if options.kind == "labels" else ScoreClip(frames, masks, options)


def refined_windows(
    clip: LabelClip | ScoreClip, total: int, window: int, wanted: Callable[[int], bool] = lambda index: True
) -> Iterator[tuple[int, Float32]]:
    """Indices and marginals (K, H, W) of the frames of all windows in which a frame is wanted."""
    model: Any = clip
    overlap = window // 4
    (kept,) = (total,) if total <= window else even_sides((total,), window - 2 * overlap)
    read: dict[int, Any] = {}
    for tile in tiles((total,), kept, overlap):
        core, outer, inner = (part[0] for part in (tile.core, tile.outer, tile.inner))
        if not any(wanted(index) for index in range(core.start, core.stop)):
            continue
        read = {index: read[index] for index in range(outer.start, outer.stop) if index in read}
        for index in range(outer.start, outer.stop):
            if index not in read:
                read[index] = model.prepare(index)
        results = model.window([read[index] for index in range(outer.start, outer.stop)], inner)
        yield from zip(range(core.start, core.stop), results, strict=True)


def checked_window(window: object, kind: Kind) -> int:
    """The number of frames that are refined together."""
    if window is None:
        return WINDOW[kind]
    if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < LEAST_WINDOW:
        raise InputError(f"window is {window!r}, expected the number of frames refined together, from {LEAST_WINDOW}.")
    return int(window)


def check_lengths(frames: Any, masks: Any, kind: Kind) -> None:
    """Raises unless frames and masks are sequences of the same length, above 0."""
    for name, given in (("frames", frames), (kind, masks)):
        if not hasattr(given, "__len__") or not hasattr(given, "__getitem__"):
            raise InputTypeError(
                f"{name} is of type {type(given).__name__}, expected a sequence with a length, such as a list or an "
                "array. For frames that come one by one use refine_stream()."
            )
    if len(frames) != len(masks):
        raise InputError(f"got {len(frames)} frames and {len(masks)} {kind}, expected one for each frame.")
    if not len(frames):
        raise InputError("got no frames, expected at least one.")
