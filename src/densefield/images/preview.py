"""Pictures that show what refinement changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from densefield.images.palette import Bytes, Labels, Pixels, outlined_overlay, voc_palette

Window = tuple[slice, slice]  # rows and columns

PANEL_PIXELS, PANEL_SIDE = 500 * 500, 1200  # maximum size of a panel: larger images are shrunk, small ones enlarged
ZOOM = 5  # the zoomed part has 1/5 of the image's height and width
MIN_ZOOM_IMAGE = 128  # smaller images are enlarged already
MIN_ZOOM_SIDE = 160  # of a zoomed panel, for narrow images
WIDE = 2  # panels of images with a larger ratio of width to height are placed below each other
CHANGED, FRAME = (225, 0, 110), (255, 190, 0)
GAP = 10  # pixels between panels and around them
BACKGROUND, TEXT = (255, 255, 255), (30, 30, 30)
MIN_TEXT, MAX_TEXT = 15, 26  # pixels
LETTERS = 100  # that fit into the width of the picture, so that text stays readable when the picture is shrunk


@dataclass(frozen=True)
class Panel:
    """A picture (h, w, 3) and its caption."""

    picture: Bytes
    caption: str


def draw_preview(image: Pixels, before: Labels, after: Labels, palette: Bytes | None = None) -> Bytes:
    """Draw image, mask, refined mask and the changed pixels, and a zoom to the part that changed most, (h, w, 3).

    Labels are colours over the image with contours. The picture is at most about 2,500 pixels wide.

    Parameters
    ----------
    image
        Colours 0…255, (H, W, 3) or (H, W).
    before, after
        Labels before and after refinement, (H, W); -1 is unknown.
    palette
        Colours of the labels, (n, 3); labels beyond it, or all labels if it is None, have those of PASCAL VOC.

    >>> rough, fine = np.zeros((2, 40, 60), int)
    >>> fine[:, 30:] = 1
    >>> draw_preview(np.zeros((40, 60), np.uint8), rough, fine).shape[2]
    3
    """
    colours = voc_palette()
    if palette is not None:
        colours[: len(palette)] = palette[:256]
    shape = before.shape
    changed = (before != after) & (before >= 0)
    # Pillow's font has no "×".
    captions = (f"Image, {shape[1]} x {shape[0]}", "Mask", "Refined", f"Changed: {_percent(changed)}")
    window = densest_window(changed) if changed.any() and max(shape) >= MIN_ZOOM_IMAGE else None
    full = (slice(0, shape[0]), slice(0, shape[1]))
    rows = [_panels(image, before, after, changed, colours, full, panel_size(shape), captions, window)]
    if window is not None:
        size = _zoomed_size(window, panel_size(shape))
        caption = f"Zoom at row {window[0].start}, column {window[1].start}"
        rows.append(_panels(image, before, after, changed, colours, window, size, (caption, "", "", ""), None))
    if shape[1] > WIDE * shape[0]:
        return panel_grid(list(zip(*rows, strict=True)))
    return panel_grid(rows)


def _percent(changed: npt.NDArray[np.bool_]) -> str:
    """Share of changed pixels.

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
    """The four panels of a part of the image, drawn at `size`; `framed` is a part that gets a frame."""
    pixels = np.rint(image[part]).astype(np.uint8)
    photo = resized(np.broadcast_to(pixels if pixels.ndim == 3 else pixels[..., None], (*pixels.shape[:2], 3)), size)
    masks = [outlined_overlay(photo, resized_labels(labels[part], size), colours) for labels in (before, after)]
    marks = resized(changed[part].astype(np.uint8) * np.uint8(255), size) > 0  # above 0: no change is too small to see
    faded = np.repeat(255 - (255 - photo.mean(axis=2, keepdims=True)) * 0.45, 3, axis=2)
    difference = np.where(marks[..., None], CHANGED, faded).astype(np.uint8)
    pictures = [np.array(photo), *masks, difference]
    if framed is not None:
        (top, bottom), (left, right) = (
            (int(framed[k].start * size[k] / image.shape[k]), math.ceil(framed[k].stop * size[k] / image.shape[k]))
            for k in (0, 1)
        )
        for picture in pictures:
            inner = picture[top:bottom, left:right]
            for side in (inner[:2], inner[-2:], inner[:, :2], inner[:, -2:]):
                side[:] = FRAME
    return [Panel(picture, caption) for picture, caption in zip(pictures, captions, strict=True)]


def panel_size(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a panel: large images are shrunk, small ones enlarged by an integer.

    >>> panel_size((375, 500)), panel_size((3000, 4000)), panel_size((20, 30)), panel_size((5000, 50))
    ((375, 500), (433, 577), (400, 600), (1200, 12))
    """
    scale = min(math.sqrt(PANEL_PIXELS / (shape[0] * shape[1])), PANEL_SIDE / max(shape[0], shape[1]))
    scale = scale if scale < 1 else int(scale)
    return max(round(shape[0] * scale), 1), max(round(shape[1] * scale), 1)


def _zoomed_size(window: Window, panel: tuple[int, int]) -> tuple[int, int]:
    """The largest size that fits the panel and keeps the proportions."""
    rows, columns = (axis.stop - axis.start for axis in window)
    scale = min(max(panel[0], MIN_ZOOM_SIDE) / rows, max(panel[1], MIN_ZOOM_SIDE) / columns)
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
    # A fifth of each side, but less narrow than a narrow image.
    wanted = [max(shape[k], round(0.4 * shape[1 - k])) // ZOOM for k in (0, 1)]
    sides = [min(shape[k], max(wanted[k], 1)) for k in (0, 1)]
    sums = np.pad(changed.cumsum(axis=0, dtype=np.int32).cumsum(axis=1, dtype=np.int32), ((1, 0), (1, 0)))
    starts = [
        np.unique(np.r_[0 : n - side : max(side // 8, 1), n - side]) for n, side in zip(shape, sides, strict=True)
    ]
    in_rows = sums[starts[0] + sides[0]] - sums[starts[0]]
    counts = in_rows[:, starts[1] + sides[1]] - in_rows[:, starts[1]]
    best = np.argwhere(counts == counts.max())
    row, column = best[np.square(best - best.mean(axis=0)).sum(axis=1).argmin()]  # the most central of the best
    top, left = int(starts[0][row]), int(starts[1][column])
    return slice(top, top + sides[0]), slice(left, left + sides[1])


def panel_grid(rows: Sequence[Sequence[Panel]]) -> Bytes:
    """Panels in rows on white, (H, W, 3). Columns are as wide as their widest picture or caption.

    >>> black = Panel(np.zeros((40, 30, 3), np.uint8), "nothing at all")
    >>> picture = panel_grid([[black, black]])
    >>> picture.shape[1] > 2 * 60 + 3 * GAP, picture[-GAP:].min().item()
    (True, 255)
    """
    pictures = sum(max(row[k].picture.shape[1] for row in rows if k < len(row)) for k in range(len(rows[0])))
    font = ImageFont.load_default(min(max(2 * pictures / LETTERS, MIN_TEXT), MAX_TEXT))
    assert isinstance(font, ImageFont.FreeTypeFont)  # since a size is given
    widths = [
        max(max(row[k].picture.shape[1], math.ceil(font.getlength(row[k].caption))) for row in rows if k < len(row))
        for k in range(len(rows[0]))
    ]
    line = round(1.4 * font.size)
    heights = [max(panel.picture.shape[0] for panel in row) for row in rows]
    size = (sum(widths) + GAP * (len(widths) + 1), sum(heights) + (line + GAP) * len(rows) + GAP)
    sheet = Image.new("RGB", size, BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    top = GAP
    for row, height in zip(rows, heights, strict=True):
        left = GAP
        for panel, width in zip(row, widths, strict=False):
            draw.text((left, top), panel.caption, fill=TEXT, font=font)
            sheet.paste(Image.fromarray(panel.picture), (left, top + line))
            left += width + GAP
        top += line + height + GAP
    return np.asarray(sheet)


def resized(picture: Bytes, size: tuple[int, int]) -> Bytes:  # (h, w, 3) or (h, w), and (rows, columns)
    """Resize a picture: averaged if it shrinks, with square pixels if it grows."""
    if picture.shape[:2] == size:
        return picture
    method = Image.Resampling.BOX if size[0] < picture.shape[0] else Image.Resampling.NEAREST
    return np.asarray(Image.fromarray(picture).resize(size[::-1], method))


def resized_labels(labels: Labels, size: tuple[int, int]) -> npt.NDArray[np.intp]:
    """Resize labels (H, W): each pixel has the label of the nearest one.

    >>> resized_labels(np.array([[0, 300], [7, -1]]), (2, 4)).tolist()
    [[0, 0, 300, 300], [7, 7, -1, -1]]
    """
    picture = Image.fromarray(labels.astype(np.int32)).resize(size[::-1], Image.Resampling.NEAREST)
    return np.asarray(picture).astype(np.intp)
