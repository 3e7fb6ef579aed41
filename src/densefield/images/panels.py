"""Pictures in rows and columns, each under a caption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

Bytes = npt.NDArray[np.uint8]

GAP = 10  # pixels between panels and around them
BACKGROUND, TEXT = (255, 255, 255), (30, 30, 30)
SMALLEST_TEXT, LARGEST_TEXT = 15, 26  # pixels
LETTERS = 100  # of the text that fit into the width of the picture: text stays readable where the picture is shrunk


@dataclass(frozen=True)
class Panel:
    """A picture (h, w, 3), and what it shows."""

    picture: Bytes
    caption: str


def panel_grid(rows: Sequence[Sequence[Panel]]) -> Bytes:
    """Panels on white, (H, W, 3). Columns are as wide as their widest picture or caption, so no caption is cut.

    >>> black = Panel(np.zeros((40, 30, 3), np.uint8), "nothing at all")
    >>> picture = panel_grid([[black, black]])
    >>> picture.shape[1] > 2 * 60 + 3 * GAP, picture[-GAP:].min().item()
    (True, 255)
    """
    pictures = sum(max(row[k].picture.shape[1] for row in rows if k < len(row)) for k in range(len(rows[0])))
    font = _font(pictures)
    widths = [
        max(max(row[k].picture.shape[1], _text_width(font, row[k].caption)) for row in rows if k < len(row))
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


def _font(width: int) -> ImageFont.FreeTypeFont:
    """Pillow's own font, in a size for a picture of this width."""
    font = ImageFont.load_default(min(max(2 * width / LETTERS, SMALLEST_TEXT), LARGEST_TEXT))
    assert isinstance(font, ImageFont.FreeTypeFont)  # which a given size asks for
    return font


def _text_width(font: ImageFont.FreeTypeFont, text: str) -> int:
    return int(np.ceil(font.getlength(text)))


def resized(picture: Bytes, size: tuple[int, int]) -> Bytes:  # (h, w, 3) or (h, w), and (rows, columns)
    """The picture in another size: averaged where it shrinks, with square pixels where it grows."""
    if picture.shape[:2] == size:
        return picture
    method = Image.Resampling.BOX if size[0] < picture.shape[0] else Image.Resampling.NEAREST
    return np.asarray(Image.fromarray(picture).resize(size[::-1], method))


def resized_labels(labels: npt.NDArray[np.integer], size: tuple[int, int]) -> npt.NDArray[np.intp]:
    """Labels (H, W) in another size: each pixel has the label of the nearest one.

    >>> resized_labels(np.array([[0, 300], [7, -1]]), (2, 4)).tolist()
    [[0, 0, 300, 300], [7, 7, -1, -1]]
    """
    picture = Image.fromarray(labels.astype(np.int32)).resize(size[::-1], Image.Resampling.NEAREST)
    return np.asarray(picture).astype(np.intp)
