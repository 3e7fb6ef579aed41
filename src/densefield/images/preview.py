"""The picture that shows what refinement changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from densefield.images.images import Pixels
from densefield.images.palette import voc_palette
from densefield.images.panels import Panel, panel_grid, resized, resized_labels
from densefield.io.atomic import write_atomically
from densefield.labels import VOID

Bytes = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.integer]
Window = tuple[slice, slice]  # rows and columns

OPACITY = 0.6  # of the labels' colours over the image
SEPARATOR = 2  # pixels
PANEL_PIXELS, PANEL_SIDE = 500 * 500, 1200  # the most of a panel: larger images are shrunk, small ones enlarged
ZOOM = 5  # the zoomed part has 1/5 of the image's height and width
SMALLEST_ZOOMED = 128  # smaller images are enlarged already
LEAST_ZOOM_SIDE = 160  # of a zoomed panel, which narrow images need
WIDE = 2  # images that are wider than so many heights have their panels one below the other
CHANGED, FRAME, CONTOUR = (225, 0, 110), (255, 190, 0), (255, 255, 255)


def preview(
    image: Pixels,  # (H, W, 3) or (H, W)
    before: Labels,  # (H, W), -1 where unknown
    after: Labels,  # (H, W)
    palette: Bytes | None = None,  # (n, 3); that of VOC where there is none, or no colour
) -> Bytes:
    """Image, mask, refined mask and what changed, each with a caption, and the part where most changed in a zoom.

    Labels are colours over the image with a contour around them. Large images are shrunk in the picture, so that it is
    at most about 2,500 pixels wide.

    >>> rough, fine = np.zeros((2, 40, 60), int)
    >>> fine[:, 30:] = 1
    >>> preview(np.zeros((40, 60), np.uint8), rough, fine).shape[2]
    3
    """
    colours = voc_palette()
    if palette is not None:
        colours[: len(palette)] = palette[:256]
    shape = before.shape
    changed = (before != after) & (before >= 0)
    # The letters are those of Pillow's font, which has no "×".
    captions = (f"Image, {shape[1]} x {shape[0]}", "Mask", "Refined", f"Changed: {_percent(changed)}")
    window = densest_window(changed) if changed.any() and max(shape) >= SMALLEST_ZOOMED else None
    whole = (slice(0, shape[0]), slice(0, shape[1]))
    rows = [_panels(image, before, after, changed, colours, whole, panel_size(shape), captions, window)]
    if window is not None:
        size = _zoomed_size(window, panel_size(shape))
        top, left = window[0].start, window[1].start
        about = f"Zoom at row {top}, column {left}"
        rows.append(_panels(image, before, after, changed, colours, window, size, (about, "", "", ""), None))
    if shape[1] > WIDE * shape[0]:
        return panel_grid(list(zip(*rows, strict=True)))
    return panel_grid(rows)


def _percent(changed: npt.NDArray[np.bool_]) -> str:
    """How many pixels changed.

    >>> _percent(np.arange(1000) < 3), _percent(np.ones(7, bool)), _percent(np.zeros(7, bool))
    ('0.3 % of pixels', '100 % of pixels', 'nothing')
    """
    percent = 100 * np.count_nonzero(changed) / max(changed.size, 1)
    if percent == 0:
        return "nothing"
    return f"{percent:.0f} % of pixels" if percent >= 10 else f"{max(percent, 0.001):.2g} % of pixels"


def _panels(
    image: Pixels,
    before: Labels,
    after: Labels,
    changed: npt.NDArray[np.bool_],
    colours: Bytes,
    part: Window,
    size: tuple[int, int],
    captions: Sequence[str],
    framed: Window | None,
) -> list[Panel]:
    """The four panels of a part of the image, in this size; another part may have a frame around it."""
    pixels = np.rint(image[part]).astype(np.uint8)
    photo = resized(np.broadcast_to(pixels if pixels.ndim == 3 else pixels[..., None], (*pixels.shape[:2], 3)), size)
    masks = [outlined(photo, resized_labels(labels[part], size), colours) for labels in (before, after)]
    marks = resized(changed[part].astype(np.uint8) * np.uint8(255), size) > 0  # so that no change is too small to see
    faded = np.repeat(255 - (255 - photo.mean(axis=2, keepdims=True)) * 0.45, 3, axis=2)
    difference = np.where(marks[..., None], CHANGED, faded).astype(np.uint8)
    pictures = [np.array(photo), *masks, difference]
    if framed is not None:
        scale = size[0] / image.shape[0], size[1] / image.shape[1]
        for picture in pictures:
            _draw_frame(picture, framed, scale)
    return [Panel(picture, caption) for picture, caption in zip(pictures, captions, strict=True)]


def _draw_frame(picture: Bytes, part: Window, scale: tuple[float, float]) -> None:
    ends = [(int(axis.start * s), math.ceil(axis.stop * s)) for axis, s in zip(part, scale, strict=True)]
    (top, bottom), (left, right) = ends
    inner = picture[top:bottom, left:right]
    for side in (inner[:2], inner[-2:], inner[:, :2], inner[:, -2:]):
        side[:] = FRAME


def panel_size(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a panel: those of the image, shrunk where it is large, whole multiples where it is small.

    >>> panel_size((375, 500)), panel_size((3000, 4000)), panel_size((20, 30)), panel_size((5000, 50))
    ((375, 500), (433, 577), (400, 600), (1200, 12))
    """
    scale = min(math.sqrt(PANEL_PIXELS / (shape[0] * shape[1])), PANEL_SIDE / max(shape[0], shape[1]))
    scale = scale if scale < 1 else int(scale)
    return max(round(shape[0] * scale), 1), max(round(shape[1] * scale), 1)


def _zoomed_size(window: Window, panel: tuple[int, int]) -> tuple[int, int]:
    """As large as the panel allows, without changing the proportions."""
    rows, columns = (axis.stop - axis.start for axis in window)
    scale = min(max(panel[0], LEAST_ZOOM_SIDE) / rows, max(panel[1], LEAST_ZOOM_SIDE) / columns)
    return max(round(rows * scale), 1), max(round(columns * scale), 1)


def densest_window(changed: npt.NDArray[np.bool_]) -> Window:  # of (H, W)
    """The part of the image in which most pixels changed.

    >>> changed = np.zeros((200, 300), bool)
    >>> changed[90:95, 200:206] = True
    >>> rows, columns = densest_window(changed)
    >>> changed[rows, columns].sum().item(), rows.stop - rows.start, columns.stop - columns.start
    (30, 40, 60)
    """
    shape = changed.shape
    # A fifth of each side; of narrow images the part is less narrow.
    wanted = [max(shape[k], round(0.4 * shape[1 - k])) // ZOOM for k in (0, 1)]
    sides = [min(shape[k], max(wanted[k], 1)) for k in (0, 1)]
    sums = np.pad(changed.cumsum(axis=0, dtype=np.int32).cumsum(axis=1, dtype=np.int32), ((1, 0), (1, 0)))
    starts = [
        np.unique(np.r_[0 : n - side : max(side // 8, 1), n - side]) for n, side in zip(shape, sides, strict=True)
    ]
    ends = [start + side for start, side in zip(starts, sides, strict=True)]
    counts = (
        sums[np.ix_(ends[0], ends[1])]
        - sums[np.ix_(starts[0], ends[1])]
        - sums[np.ix_(ends[0], starts[1])]
        + sums[np.ix_(starts[0], starts[1])]
    )
    best = np.argwhere(counts == counts.max())
    row, column = best[np.square(best - best.mean(axis=0)).sum(axis=1).argmin()]  # the changes are in the middle
    top, left = int(starts[0][row]), int(starts[1][column])
    return slice(top, top + sides[0]), slice(left, left + sides[1])


def outlined(image: Bytes, labels: Labels, colours: Bytes) -> Bytes:
    """The photo (H, W, 3) under the labels' colours, with a contour between labels; -1 is unknown and stays bare."""
    picture = tinted(image, labels, colours, void=-1)
    border = np.zeros(labels.shape, bool)
    border[1:] |= labels[1:] != labels[:-1]
    border[:-1] |= labels[1:] != labels[:-1]
    border[:, 1:] |= labels[:, 1:] != labels[:, :-1]
    border[:, :-1] |= labels[:, 1:] != labels[:, :-1]
    picture[border] = CONTOUR
    return picture


def side_by_side(panels: Sequence[Pixels]) -> Bytes:
    """Pictures (H, W, 3) with white between.

    >>> side_by_side([np.zeros((2, 5, 3)), np.zeros((2, 4, 3))]).shape
    (2, 11, 3)
    """
    white = np.full((len(panels[0]), SEPARATOR, 3), 255)
    spaced = [part for panel in panels for part in (white, panel)][1:]
    return np.concatenate(spaced, axis=1).astype(np.uint8)


def tinted(
    image: Pixels,  # (H, W, 3)
    labels: Labels,  # (H, W)
    colours: Bytes,  # (256, 3)
    void: int = VOID,  # the value of unknown pixels
) -> Bytes:
    """The photo under the labels' colours, (H, W, 3); bare where they are unknown."""
    photo = image.astype(np.float32)
    tint = colours[labels % 256].astype(np.float32)  # colours begin again after 256 labels
    opacity = np.where(labels == void, 0, OPACITY).astype(np.float32)[..., None]
    blend: Bytes = np.rint(photo + opacity * (tint - photo)).astype(np.uint8)
    return blend


def write_preview(path: Path, picture: Bytes) -> None:
    """Writes the picture (H, W, 3) as PNG."""
    buffer = BytesIO()
    Image.fromarray(picture).save(buffer, "PNG")
    write_atomically(path, buffer.getvalue())
