"""The picture that shows what refinement did."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from densefield.atomic import write_atomically
from densefield.files.images import Pixels
from densefield.files.masks import VOID
from densefield.files.palette import voc_palette

OPACITY = 0.6  # of the labels' colours over the image
SEPARATOR = 2  # pixels


def preview(
    image: Pixels,  # (H, W, 3) or (H, W)
    before: npt.NDArray[np.integer],  # (H, W), 255 where unknown
    after: npt.NDArray[np.integer],  # (H, W)
    palette: npt.NDArray[np.uint8] | None = None,  # (n, 3); that of VOC where there is none, or no colour
) -> npt.NDArray[np.uint8]:
    """The image, the labels before, and those after, side by side with white between, (H, 3 W + 4, 3).

    >>> preview(np.zeros((2, 5), np.uint8), np.ones((2, 5), int), np.zeros((2, 5), int))[0, [0, 5, 7, 14]].tolist()
    [[0, 0, 0], [255, 255, 255], [77, 0, 0], [0, 0, 0]]
    """
    colours = voc_palette()
    if palette is not None:
        colours[: len(palette)] = palette[:256]
    photo = np.broadcast_to(image if image.ndim == 3 else image[..., None], (*image.shape[:2], 3)).astype(np.float32)
    return side_by_side([np.rint(photo), tinted(photo, before, colours), tinted(photo, after, colours)])


def side_by_side(panels: Sequence[Pixels]) -> npt.NDArray[np.uint8]:
    """Pictures (H, W, 3) with white between.

    >>> side_by_side([np.zeros((2, 5, 3)), np.zeros((2, 4, 3))]).shape
    (2, 11, 3)
    """
    white = np.full((len(panels[0]), SEPARATOR, 3), 255)
    spaced = [part for panel in panels for part in (white, panel)][1:]
    return np.concatenate(spaced, axis=1).astype(np.uint8)


def tinted(
    image: Pixels,  # (H, W, 3)
    labels: npt.NDArray[np.integer],  # (H, W), 255 where unknown
    colours: npt.NDArray[np.uint8],  # (256, 3)
) -> npt.NDArray[np.uint8]:
    """The photo under the labels' colours, (H, W, 3); bare where they are unknown."""
    photo = image.astype(np.float32)
    tint = colours[labels % 256].astype(np.float32)  # colours begin again after 256 labels
    opacity = np.where(labels == VOID, 0, OPACITY).astype(np.float32)[..., None]
    blend: npt.NDArray[np.uint8] = np.rint(photo + opacity * (tint - photo)).astype(np.uint8)
    return blend


def write_preview(path: Path, picture: npt.NDArray[np.uint8]) -> None:
    """Writes the picture (H, W, 3) as PNG."""
    buffer = BytesIO()
    Image.fromarray(picture).save(buffer, "PNG")
    write_atomically(path, buffer.getvalue())
