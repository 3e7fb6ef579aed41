"""Frames and masks of a folder as sequences that read a file when it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError
from densefield.images.masks import ARRAYS, MAX_COLOURS, Mask, not_labels, read_mask
from densefield.images.palette import voc_palette
from densefield.images.reading import (
    FULL,
    levels,
    open_image,
    read_image,
    stored_pixels,
    used_range,
    warn_of_small_range,
)
from densefield.images.refine_settings import RefineSettings
from densefield.labels import VOID, binary_foreground
from densefield.video.options import Kind

COLOURED = ("colours", "voc colours")
NO_VALUES = np.zeros(0, np.intp)  # of a mask whose values are read as they are
WEIGHTS = np.array([1 << 16, 1 << 8, 1])  # of r, g and b in one number


class FrameFiles:
    """The frames in files; `size` is the rows and columns of their masks. Frames of 16 bits have one scale."""

    def __init__(self, paths: Sequence[Path], size: tuple[int, int]) -> None:
        self._paths, self._size = paths, size
        self._range: tuple[float, float] | None = None  # of frames with 16 bits
        if stored_pixels(paths[0], size).dtype == np.uint16:
            self._range = used_range(self._deep(path) for path in paths)
            if self._range != (0.0, FULL):
                warn_of_small_range("of all frames")

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        path = self._paths[index]
        if self._range is not None:
            return levels(self._deep(path), *self._range)
        pixels = read_image(path, self._size)
        if pixels.dtype != np.uint8:
            raise InputError(f"{path} has 16 bits, but {self._paths[0]} has 8: expected one kind of frames.")
        return pixels

    def _deep(self, path: Path) -> npt.NDArray[Any]:
        pixels = stored_pixels(path, self._size)
        if pixels.dtype != np.uint16:
            raise InputError(f"{path} has 8 bits, but {self._paths[0]} has 16: expected one kind of frames.")
        return pixels


class MaskFiles:
    """The masks in files, all of the same kind. What their values and colours mean is decided for all of them together.

    Parameters
    ----------
    paths
        The files in their order.
    settings
        How they are read.
    """

    def __init__(self, paths: Sequence[Path], settings: RefineSettings) -> None:
        self._paths, self._settings = paths, settings
        self.written: dict[int, Mask] = {}  # how the result of a frame is written; without values
        first = self._read(0, NO_VALUES)
        self.size, self.kind = first.size, _kind(first)
        self.num_classes = settings.num_classes
        self._values: npt.NDArray[np.integer[Any]] = NO_VALUES
        self._palette = self._all_colours() if first.form in COLOURED else None
        if self.kind == "labels" and self._palette is None:
            self._values = self._all_values()
            if self.num_classes is None:
                first = self._read(0, self._values)
                labels = self._values if first.void is None else self._values[self._values != first.void]
                self.num_classes = 2 if first.form == "binary" else max(int(labels.max(initial=0)) + 1, 2)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        """Scores, or labels with -1 where unknown."""
        path, mask = self._paths[index], self._read(index, self._values)
        if _kind(mask) != self.kind or (mask.form in COLOURED) != (self._palette is not None):
            raise InputError(
                f"{path} is a mask of another kind ({mask.form}) than {self._paths[0]}: expected one kind for all "
                "frames."
            )
        if self._palette is not None:
            mask = _in_palette(mask, self._palette)
        self.written[index] = replace(mask, values=np.zeros((0, 0), np.uint8))
        return mask.labels() if self.kind == "labels" else mask.values

    def _read(self, index: int, among: npt.NDArray[np.integer[Any]] | None) -> Mask:
        settings = self._settings
        return read_mask(
            self._paths[index],
            logits=settings.logits,
            soft=settings.soft,
            num_classes=settings.num_classes,
            void=settings.void,
            among=among,
        )

    def _all_values(self) -> npt.NDArray[np.integer[Any]]:
        """The values of all masks; raises if some are binary and others hold labels."""
        found, binary, labels = [NO_VALUES], None, None
        for index, path in enumerate(self._paths):
            mask = self._read(index, NO_VALUES)
            if _kind(mask) != "labels":
                continue  # __getitem__ raises the error
            values = np.unique(mask.values)
            found.append(values)
            if mask.form == "labels" and len(values) > 1 and binary_foreground(values) is not None:
                binary = binary or path
            elif binary_foreground(values) is None and values.any():
                labels = labels or path
        settings = self._settings
        if binary and labels and settings.void == "auto" and settings.num_classes is None:
            raise InputError(
                f"{binary} is a binary mask such as 0/255, but {labels} holds other labels. If 255 is unknown, pass "
                "void=255; if it is a label, pass the number of classes: num_classes=."
            )
        all_values: npt.NDArray[np.integer[Any]] = np.unique(np.concatenate(found))
        void = VOID if settings.void == "auto" and settings.num_classes is None else settings.void
        if all_values.tolist() == [void]:
            raise InputError(
                f"all pixels of all masks are {void}, such as those of {self._paths[0]}, which means unknown, so that "
                "no frame has a label: give at least one frame a mask."
            )
        return all_values

    def _all_colours(self) -> npt.NDArray[np.uint8]:
        """The colours (n, 3) of all masks in their order, black first, or those of PASCAL VOC."""
        seen: set[int] = set()
        only_voc = True
        for index, path in enumerate(self._paths):
            mask = self._read(index, NO_VALUES)
            if mask.form not in COLOURED:
                continue  # __getitem__ raises the error
            only_voc &= mask.form == "voc colours"
            seen |= set(np.unique(_packed(mask)).tolist())
            if len(seen) > MAX_COLOURS:
                raise InputError(f"the masks up to {path} have {len(seen)} colours, expected at most {MAX_COLOURS}.")
        if only_voc:
            return voc_palette()
        palette = np.array([[each >> 16, each >> 8 & 255, each & 255] for each in sorted(seen)], np.uint8)
        if (palette == palette[:, :1]).all():
            raise InputError(not_labels(self._paths[0], open_image(self._paths[0])))
        return palette


def check_sizes(paths: Sequence[Path]) -> None:
    """Raises unless all pictures can be read, and have the same size."""
    first = None
    for path in paths:
        if path.suffix.lower() in ARRAYS:
            continue
        size = open_image(path).size
        first = first or (path, size)
        if size != first[1]:
            raise InputError(
                f"{path} has {size[0]} × {size[1]} pixels (width × height), but {first[0]} has {first[1][0]} × "
                f"{first[1][1]}: expected one size. Resize it, or refine the parts before and after it separately."
            )


def _kind(mask: Mask) -> Kind:
    if mask.form == "logits":
        return "logits"
    return "probabilities" if mask.form in ("soft", "probabilities") else "labels"


def _packed(mask: Mask) -> npt.NDArray[np.int64]:
    """The colour of each pixel as one number."""
    assert mask.palette is not None
    packed: npt.NDArray[np.int64] = (mask.palette.astype(np.int64) @ WEIGHTS)[mask.values.astype(np.intp)]
    return packed


def _in_palette(mask: Mask, palette: npt.NDArray[np.uint8]) -> Mask:
    """The mask with its colours numbered as in the palette of all masks."""
    if len(palette) == 256:  # that of PASCAL VOC
        return mask
    numbers = np.searchsorted(palette.astype(np.int64) @ WEIGHTS, _packed(mask))
    return replace(mask, form="colours", values=numbers.astype(np.uint8), palette=palette)
