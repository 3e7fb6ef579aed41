"""What is estimated once for a whole file: the labels of its mask, and a sample of windows around their edges.

A file that is small enough is its own sample. Of a larger one, windows with many edges are put side by side, with
ignored pixels between them, so that the methods for one image apply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from densefield.volumes.grid import Array, Box, Grid, Pixels
from densefield.volumes.tiles import box_shape, even_sides, tiles

Bool = npt.NDArray[np.bool_]

WHOLE = {2: 1 << 22, 3: 1 << 24}  # pixels of a file that is its own sample, by the number of axes
WINDOW_SIDE = {2: 512, 3: 96}
MOST_WINDOWS = 16
MANY_CHANNELS = 64
GAP = 64  # pixels between two windows: farther than edges are searched for
MOST_VALUES = 4096  # different values of a mask of floating point numbers that may be labels


@dataclass(frozen=True)
class Scan:
    """What a pass over the mask found.

    Parameters
    ----------
    values
        The values that occur where the file has data, ascending; None if there are too many for labels, or several
        channels.
    windows
        The windows that represent the file.
    missing
        Whether there are pixels without data.
    """

    values: Array | None
    windows: tuple[Box, ...]
    missing: bool


class Sample(NamedTuple):
    """Image and mask of the windows, side by side: values (…, C), and True (…) for pixels that do not count."""

    image: Array
    mask: Array
    missing: Bool | None


class _Window(NamedTuple):
    box: Box
    labels: frozenset[float]
    edges: int


def scan_mask(mask: Grid, channels: int = 1) -> Scan:
    """Reads a mask once, window by window. Images of very many `channels` have a smaller sample."""
    axes = len(mask.shape)
    share = min(1.0, MANY_CHANNELS / channels)
    whole = math.prod(mask.shape) <= WHOLE[axes] * share
    side = WINDOW_SIDE[axes] * (1 if not whole else max(1, -(-max(mask.shape) // WINDOW_SIDE[axes])))
    values: set[float] | None = set()
    windows, missing = [], False
    for tile in tiles(mask.shape, even_sides(mask.shape, side)):
        pixels = mask.read(tile.core)
        labels = _labels(pixels)
        here = np.unique(labels if pixels.missing is None else labels[~pixels.missing])
        missing = missing or pixels.missing is not None
        windows.append(_Window(tile.core, frozenset(here[:MOST_VALUES].tolist()), _count_edges(labels)))
        if values is not None and len(here) <= MOST_VALUES and mask.channels in (None, 1):
            values |= set(here.tolist())
        else:
            values = None
    if values is not None and len(values) > MOST_VALUES:
        values = None
    found = None if values is None else np.array(sorted(values))
    most = max(1, int(MOST_WINDOWS * share))
    chosen = (mask.whole,) if whole else tuple(each.box for each in _representative(windows, most))
    return Scan(found, chosen, missing)


def _labels(pixels: Pixels) -> Array:
    """One number (…) for each pixel: its label, or the most probable one; missing ones are those of the file."""
    return pixels.values[..., 0] if pixels.values.shape[-1] == 1 else pixels.values.argmax(axis=-1)


def _count_edges(labels: Array) -> int:
    """The number of neighbours with different labels."""
    if labels.dtype.kind == "f":
        labels = labels > 0.5
    return sum(int((np.diff(labels, axis=axis) != 0).sum()) for axis in range(labels.ndim))


def _representative(windows: list[_Window], most: int) -> list[_Window]:
    """The windows with most edges, after those that are needed for every label to occur."""
    ranked = sorted(windows, key=lambda each: -each.edges)
    chosen: list[_Window] = []
    seen: set[float] = set()
    for window in ranked:
        if len(chosen) < most and not window.labels <= seen:
            chosen.append(window)
            seen |= window.labels
    step = max(1, len(ranked) // (4 * MOST_WINDOWS))  # of the quarter with most edges, from all over the file
    for window in ranked[::step]:
        if len(chosen) < most and window.edges and window not in chosen:
            chosen.append(window)
    return sorted(chosen, key=lambda each: tuple(part.start for part in each.box))


def read_sample(image: Grid, mask: Grid, windows: tuple[Box, ...]) -> Sample:
    """Image and mask of some windows side by side along x; those that are smaller are padded."""
    if len(windows) == 1:
        colours, labels = image.read(windows[0]), mask.read(windows[0])
        return Sample(colours.values, labels.values, _union(colours.missing, labels.missing))
    shapes = [box_shape(window) for window in windows]
    *rest, width = (max(sizes) for sizes in zip(*shapes, strict=True))
    shape = (*rest, len(windows) * (width + GAP) - GAP)
    missing = np.ones(shape, bool)
    parts: list[Array | None] = [None, None]
    for number, (window, size) in enumerate(zip(windows, shapes, strict=True)):
        start = number * (width + GAP)
        place = (*(slice(0, each) for each in size[:-1]), slice(start, start + size[-1]))
        here = [grid.read(window) for grid in (image, mask)]
        for index, pixels in enumerate(here):
            part = parts[index]
            if part is None:
                part = parts[index] = np.zeros((*shape, pixels.values.shape[-1]), pixels.values.dtype)
            part[place] = pixels.values
        missing[place] = False if (bad := _union(here[0].missing, here[1].missing)) is None else bad
    assert parts[0] is not None and parts[1] is not None
    return Sample(parts[0], parts[1], missing)


def read_both(image: Grid, mask: Grid, box: Box) -> Sample:
    """Image and mask of one box."""
    return read_sample(image, mask, (box,))


def _union(one: Bool | None, other: Bool | None) -> Bool | None:
    if one is None or other is None:
        return other if one is None else one
    return one | other
