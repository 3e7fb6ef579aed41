"""The picture that shows what refinement did."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from densefield.files.images import Pixels
from densefield.files.masks import VOID
from densefield.files.palette import voc_palette
from densefield.files.whole import write_whole

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
    white = np.full((len(photo), SEPARATOR, 3), 255, np.float32)
    panels = [photo, white, _tinted(photo, before, colours), white, _tinted(photo, after, colours)]
    return np.rint(np.concatenate(panels, axis=1)).astype(np.uint8)


def _tinted(
    photo: npt.NDArray[np.float32], labels: npt.NDArray[np.integer], colours: npt.NDArray[np.uint8]
) -> npt.NDArray[np.float32]:
    """The photo under the labels' colours; bare where they are unknown."""
    tint = colours[labels % 256].astype(np.float32)  # colours begin again after 256 labels
    opacity = np.where(labels == VOID, 0, OPACITY).astype(np.float32)[..., None]
    blend: npt.NDArray[np.float32] = photo + opacity * (tint - photo)
    return blend


def write_preview(path: Path, picture: npt.NDArray[np.uint8]) -> None:
    """Writes the picture (H, W, 3) as PNG."""
    buffer = BytesIO()
    Image.fromarray(picture).save(buffer, "PNG")
    write_whole(path, buffer.getvalue())
