"""Regions of Label Studio, such as brush strokes and polygons: checks, labels and pixels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from densefield.errors import InputError
from densefield.integrations.label_studio_rle import decode_brush
from densefield.io.messages import MAX_LENGTH, cause

KINDS = {
    "brushlabels": "a brush",
    "polygonlabels": "a polygon",
    "rectanglelabels": "a rectangle",
    "keypointlabels": "a keypoint",
}
OTHER_SHAPES = ("ellipselabels", "bitmasklabels", "vectorlabels")


def is_region(region: Any) -> bool:
    """Whether a result is a brush, polygon, rectangle or keypoint with a label; raises for other shapes."""
    if not isinstance(region, dict):
        raise InputError(f"a region is {shortened(region)}, expected an object, as Label Studio exports it.")
    kind = region.get("type")
    if kind in OTHER_SHAPES or not isinstance(kind, str | None):
        raise InputError(f"a region is of type {shortened(kind)}, expected one of {', '.join(KINDS)}.")
    return kind in KINDS


def only_label(region: dict[str, Any]) -> str:
    """The label of a region; raises unless it has one."""
    kind, value = region["type"], region.get("value")
    if not isinstance(value, dict):
        raise InputError(
            f"{KINDS[kind]} has the value {shortened(value)}, expected an object with its labels and shape."
        )
    names = value.get(kind)
    if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
        raise InputError(f"{KINDS[kind]} has the labels {shortened(names)}, expected a list of one.")
    return names[0]


def drawn_side(region: dict[str, Any], name: str) -> int | None:
    """Rows or columns of the image that a region was drawn on, its original_height or original_width, if it says so."""
    if name not in region:
        return None
    side = region[name]
    if not isinstance(side, int | float) or not side >= 1 or side % 1 != 0:  # infinity % 1 is NaN
        raise InputError(
            f"{name} of {KINDS[region['type']]} is {shortened(side)}, expected a number of pixels: export it again."
        )
    return int(side)


def shortened(value: object) -> str:
    """A value of a file in a message, on one line."""
    text = repr(value)
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}…"


def region_pixels(region: dict[str, Any], shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """The pixels (H, W) of a region."""
    kind, value = region["type"], region["value"]
    rows, columns = drawn_side(region, "original_height"), drawn_side(region, "original_width")
    size = (rows or shape[0], columns or shape[1])
    if size != shape:
        raise InputError(
            f"{KINDS[kind]} was drawn on an image of {size[0]} × {size[1]} pixels, but the image has {shape[0]} × "
            f"{shape[1]}: it is another file."
        )
    if region.get("image_rotation", 0) != 0:
        raise InputError(
            f"{KINDS[kind]} was drawn on a rotated image, which is not supported: rotate the file instead."
        )
    if kind == "brushlabels":
        return decode_brush(value.get("rle", ()), *shape)
    canvas = Image.new("1", shape[::-1])
    try:
        if kind == "rectanglelabels":
            return _rectangle(value, shape)
        if kind == "polygonlabels":
            if len(value["points"]) < 3:
                raise ValueError(f"it has {len(value['points'])} corners, expected 3 or more")
            corners = [_position(x, y, shape) for x, y in value["points"]]
            ImageDraw.Draw(canvas).polygon(corners, fill=1)
        else:
            canvas.putpixel(_position(value["x"], value["y"], shape), 1)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{KINDS[kind]} cannot be read: {cause(error)}.") from error
    return np.array(canvas)


def _rectangle(value: dict[str, Any], shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """The pixels whose centres are in a rectangle, which is turned clockwise about its upper left corner.

    If there are none, since it is small, the pixel at its centre.
    """
    if not (value["width"] > 0 and value["height"] > 0):
        raise ValueError(f"its sides are {value['width']} and {value['height']}, expected numbers above 0")
    rows, columns = shape
    x, y = value["x"] / 100 * columns, value["y"] / 100 * rows
    width, height = value["width"] / 100 * columns, value["height"] / 100 * rows
    angle = math.radians(value.get("rotation", 0))
    cosine, sine = math.cos(angle), math.sin(angle)
    down = (np.arange(rows) + 0.5 - y)[:, None]
    across = np.arange(columns) + 0.5 - x
    along, below = across * cosine + down * sine, down * cosine - across * sine
    inside: npt.NDArray[np.bool_] = (along >= 0) & (along < width) & (below >= 0) & (below < height)
    if not inside.any():
        column = x + (width * cosine - height * sine) / 2
        row = y + (width * sine + height * cosine) / 2
        inside[_position(100 * column / columns, 100 * row / rows, shape)[::-1]] = True
    return inside


def _position(x: float, y: float, shape: tuple[int, int]) -> tuple[int, int]:
    """Column and row of a point in percent of the width and height, inside the image."""
    column, row = int(x / 100 * shape[1]), int(y / 100 * shape[0])
    return min(max(column, 0), shape[1] - 1), min(max(row, 0), shape[0] - 1)
