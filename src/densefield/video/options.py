"""What the functions for video have in common: options, and the check of each frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from densefield.crf.arrays import checked_numbers, image_array
from densefield.crf.image_range import warn_of_image
from densefield.crf.kernels import Bilateral
from densefield.crf.options import CRFOptions
from densefield.errors import InputError, InputTypeError
from densefield.filters.threads import check_threads
from densefield.labels import Void
from densefield.refinement.colour_model import TYPICAL_WIDTH, image_colours
from densefield.refinement.mask_input import checked_roughness
from densefield.refinement.parameters import length_unit
from densefield.refinement.refine import checked_temperature

Kind = Literal["labels", "probabilities", "logits"]
Channels = npt.NDArray[np.generic]  # (N, C)

CLIP_STEP, STREAM_STEP = 2.0, 4.0  # units; chosen with benchmarks/video.py
SAMPLE = 16  # frames that the roughness and the colours are estimated on
MOST_SAMPLED = 1 << 23  # pixels of these frames that colours are counted at


@dataclass(frozen=True)
class VideoOptions:
    """How a video is refined; the fields are arguments of refine_clip() and refine_stream()."""

    kind: Kind = "labels"
    num_classes: int | None = None
    void: Void = "auto"
    roughness: float | None = None
    temperature: float | None = None
    iterations: int | None = None
    frame_step: float | None = None
    data_range: float | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        """Raises if a value is wrong, or has no effect."""
        if not isinstance(self.kind, str):
            raise InputTypeError(
                f"masks is of type {type(self.kind).__name__}, expected {_kinds()}. Frames and masks come in pairs: "
                "zip(frames, masks)."
            )
        if self.kind not in get_args(Kind):
            raise InputError(f"masks is {self.kind!r}, expected {_kinds()}.")
        if self.kind == "labels" and self.temperature is not None:
            raise InputError("got temperature= with labels: it is for probabilities and logits. Use roughness=.")
        if self.kind != "labels" and self.roughness is not None:
            raise InputError(f"got roughness= with {self.kind}: it is for masks of labels. Use temperature=.")
        if self.roughness is not None:
            checked_roughness(self.roughness)
        if self.temperature is not None:
            checked_temperature(self.temperature)
        if self.frame_step is not None:
            step = checked_numbers(self.frame_step, "frame_step", "a number of pixels above 0")
            if step.ndim or not 0 < step < 1e6:
                raise InputError(
                    f"frame_step is {self.frame_step!r}, expected a number of pixels above 0: how many pixels the step "
                    "from one frame to the next is worth."
                )
        _ = self.crf, self.num_threads  # which check the others

    @property
    def crf(self) -> CRFOptions:
        """The options of the CRF."""
        iterations = 5 if self.iterations is None else self.iterations
        return CRFOptions(iterations, data_range=self.data_range, threads=self.threads)

    @property
    def num_threads(self) -> int:
        """The number of threads."""
        return check_threads(self.threads)

    def step(self, shape: tuple[int, int], default: float) -> float:
        """The length of the step from one frame to the next, in pixels, for frames (H, W); `default` is in units."""
        return default * length_unit(shape) if self.frame_step is None else float(self.frame_step)


def _kinds() -> str:
    return f"one of {', '.join(map(repr, get_args(Kind)))}"


class FrameCheck:
    """Checks frames one by one: all must have the size and the channels of the first.

    Parameters
    ----------
    options
        With the data range of the frames.

    >>> check = FrameCheck(VideoOptions())
    >>> check(np.zeros((20, 30, 3), np.uint8), 0).shape
    (600, 3)
    >>> check(np.zeros((20, 31, 3), np.uint8), 1)
    Traceback (most recent call last):
        ...
    densefield.errors.InputError: frame 1 (from 0) has shape (20, 31, 3), but frames before have (20, 30, 3): expected \
frames of one size. Resize it, or refine the parts before and after it separately.
    """

    def __init__(self, options: VideoOptions) -> None:
        self._options = options
        self._given: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The size (H, W) of the frames, after the first."""
        assert self._given is not None
        return self._given[0], self._given[1]

    def __call__(self, frame: Any, index: int) -> Channels:
        """The colours (N, C) of a frame, uint8 or float32."""
        image = image_array(frame)
        if self._given is None and (image.ndim not in (2, 3) or 0 in image.shape):
            raise InputError(f"frame {index} (from 0) has shape {image.shape}, expected (rows, columns, channels).")
        if image.ndim == 3 and image.shape[2] > 3:
            raise InputError(
                f"frame {index} (from 0) has shape {image.shape}, expected 1 to 3 channels on the last axis, without "
                "alpha. If they are on the first: numpy.moveaxis(frame, 0, -1)."
            )
        if self._given is not None and image.shape[:2] == self._given[:2] and image.shape != self._given:
            raise InputError(
                f"frame {index} (from 0) has shape {image.shape}, but frames before have {self._given}: expected "
                "equal channels. Convert all to grey, or all to colours."
            )
        if self._given not in (None, image.shape):
            raise InputError(
                f"frame {index} (from 0) has shape {image.shape}, but frames before have {self._given}: expected "
                "frames of one size. Resize it, or refine the parts before and after it separately."
            )
        if image.dtype.kind == "f" and not (finite := np.isfinite(image)).all():
            count = int((~finite).reshape(*image.shape[:2], -1).any(axis=-1).sum())
            raise InputError(
                f"frame {index} (from 0) holds NaN or infinity at {count} of {image.shape[0] * image.shape[1]} pixels, "
                "expected numbers: replace them, for instance by numpy.nan_to_num(frame)."
            )
        data_range = self._options.crf.data_range
        channels = image_colours(image, image.shape[:2], None, data_range)
        if self._given is None and data_range is None:
            warn_of_image(channels, channels.shape[1], (Bilateral(sigma_rgb=TYPICAL_WIDTH),))
        self._given = image.shape
        # A copy, since frames are kept while the caller may read the next one into the same array.
        return np.array(channels, np.uint8 if channels.dtype == np.uint8 else np.float32, order="C")


def of_sample(channels: list[Channels], *others: list[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Flat arrays (N, …) of the frames of a sample, one after the other; every n-th pixel of large ones.

    >>> [each.shape for each in of_sample([np.zeros((6, 3))] * 2, [np.zeros(6)] * 2)]
    [(12, 3), (12,)]
    """
    stride = max(1, sum(map(len, channels)) // MOST_SAMPLED)
    return [np.ascontiguousarray(np.concatenate([part[::stride] for part in parts])) for parts in (channels, *others)]
