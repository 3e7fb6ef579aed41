"""A clip with masks of labels: what is estimated once for all its windows, and the refinement of one window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.crf.arrays import as_array
from densefield.errors import InputError, warn
from densefield.labels import VOID
from densefield.refinement.colour_model import ColourModel, colour_model
from densefield.refinement.mask_edges import Float32, MaskEdges, pixel_use
from densefield.refinement.mask_input import check_label_shape
from densefield.refinement.parameters import learnt, length_unit
from densefield.video.label_frames import LabelFrames
from densefield.video.labels import LabelNumbers, MaskFrame, displaced_frame
from densefield.video.options import CLIP_STEP, SAMPLE, FrameCheck, VideoOptions, of_sample


class LabelClip:
    """A clip with masks of labels.

    All masks are read once, for the labels that occur. The roughness and the colours of the labels are estimated on a
    sample of frames, so that they are the same in all windows.

    Parameters
    ----------
    frames, masks
        The frames and their masks, which are read by index.
    options
        How they are refined.
    """

    def __init__(self, frames: Sequence[Any], masks: Sequence[Any], options: VideoOptions) -> None:
        self._frames, self._masks, self._options = frames, masks, options
        self._check, self._numbers = FrameCheck(options), LabelNumbers(options.num_classes, options.void)
        sampled = self._scan()
        sample = [self.prepare(index) for index in sampled]
        widths = [frame.width for frame in sample if frame.width is not None]
        self._width = None if not widths else float(np.median(widths))
        self._colours = self._fitted(sample)

    def _scan(self) -> list[int]:
        """Reads all masks; returns the frames of the sample: evenly spread ones, and the best one for each label."""
        total = len(self._masks)
        best: dict[int, tuple[int, int]] = {}
        first = None
        for index in range(total):
            mask = checked_mask(self._masks[index], index, self._numbers)
            first = first or mask.shape
            if mask.shape != first:
                raise InputError(
                    f"the mask of frame {index} (from 0) has shape {mask.shape}, but that of frame 0 has {first}: "
                    "expected masks of one size."
                )
            values, areas = np.unique(mask, return_counts=True)
            for value, area in zip(values.tolist(), areas.tolist(), strict=True):
                best[value] = max(best.get(value, (0, 0)), (area, -index))
        _check_any_label(list(best), self._numbers, self._options)
        spread = np.unique(np.linspace(0, total - 1, min(total, SAMPLE)).round().astype(int)).tolist()
        largest = sorted(best.values(), reverse=True)[: 2 * SAMPLE]
        return sorted({*spread, *(-index for _, index in largest)})

    def _fitted(self, sample: list[MaskFrame]) -> ColourModel | None:
        """The colours of each label, at pixels that are far from the edges of the frames of the sample."""
        if self._width is None:
            return None
        unit = length_unit(self._check.shape)
        core = learnt().mask.width(self._width / unit) * unit
        threads = self._options.num_threads
        inside = [margins_of(frame, threads) >= core for frame in sample]
        parts = of_sample([frame.channels for frame in sample], [frame.labels.reshape(-1) for frame in sample], inside)
        return colour_model(parts[0], parts[1], len(self.values), threads, inside=parts[2])

    @property
    def values(self) -> npt.NDArray[np.intp]:
        """(K,): the labels of the rows of window()."""
        return self._numbers.values

    @property
    def num_classes(self) -> int:
        """The number of classes of the clip, with those that do not occur."""
        return self._numbers.num_classes

    def prepare(self, index: int) -> MaskFrame:
        """Reads a frame and its mask, and displaces the mask."""
        return prepared(self._frames[index], self._masks[index], index, self._check, self._numbers, self._options)

    def window(self, frames: Sequence[MaskFrame], kept: slice) -> Iterator[Float32]:
        """Refines a window; yields the marginals (K, H, W) of the frames that are kept."""
        labels = np.stack([frame.labels for frame in frames])
        present = np.unique(labels[labels >= 0])
        if len(present) < 2:
            if not len(present):
                warn(
                    f"{len(frames)} frames in a row have no mask: all labels are equally probable there. Use a larger "
                    "window, or add a mask."
                )
            yield from (alike(frame, present, len(self.values)) for frame in frames[kept])
            return
        group = LabelFrames(
            frames, labels, present, len(self.values), self._options.step(self._check.shape, CLIP_STEP), self._options
        )
        result = group.marginals(group.band(self._width, self._colours))
        yield from (result.frame(number) for number in range(len(frames))[kept])


def _check_any_label(values: list[int], numbers: LabelNumbers, options: VideoOptions) -> None:
    """Raises if all pixels of all masks are unknown; 255 everywhere, which may be one object elsewhere, is."""
    is_void = values == [VOID] and options.void == "auto" and options.num_classes is None
    if is_void or (numbers.rows(np.array([sorted(values)])) < 0).all():
        raise InputError(
            f"all pixels of all masks are {values[0]}, which means unknown, so that no frame has a label: give at "
            "least one frame a mask."
        )


def checked_mask(given: Any, index: int, numbers: LabelNumbers) -> Any:
    """The mask of a frame as an array, after its values are taken into account."""
    mask = as_array(given, f"the mask of frame {index} is", "an array of integers (rows, columns)")
    if mask.ndim != 2:
        raise InputError(f"the mask of frame {index} (from 0) has shape {mask.shape}, expected (rows, columns).")
    numbers.see(mask)
    return mask


def prepared(
    frame: Any, mask: Any, index: int, check: FrameCheck, numbers: LabelNumbers, options: VideoOptions
) -> MaskFrame:
    """A frame and its mask, checked and displaced."""
    channels = check(frame, index)
    rough = checked_mask(mask, index, numbers)
    try:
        check_label_shape(rough.shape, check.shape)
    except InputError as error:
        raise InputError(f"frame {index} (from 0): {error}") from None
    return displaced_frame(channels, numbers.rows(rough), options.roughness, options.num_threads)


def margins_of(frame: MaskFrame, threads: int) -> Any:
    """(N,): distances of the pixels to the edges of the frame's mask; -1 where unknown."""
    known = frame.labels >= 0
    rows = np.where(known, frame.labels, 0)
    edges = MaskEdges(rows, pixel_use(rows.shape, known), frame.channels, (1.0, 1.0), threads)
    return np.where(known, edges.margins(), np.float32(-1)).reshape(-1)


def alike(frame: MaskFrame, present: npt.NDArray[np.integer], num_labels: int) -> Float32:
    """The marginals of a frame if all pixels have the same label, or none."""
    q = np.full((num_labels, *frame.labels.shape), 0 if len(present) else 1 / num_labels, np.float32)
    q[present] = 1
    return q
