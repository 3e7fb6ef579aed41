"""Sharpens a coarse mask: three labels in blocks of 40 pixels, refined to the edges of the photo.

Run it with `make picture`. It writes demo/refined.png: the photo, the mask before, and after.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image
from skimage.data import coffee

import densefield

FOLDER = Path("demo")
BLOCK = 40  # pixels
COLOURS = np.array([[60, 60, 60], [230, 120, 40], [90, 170, 255]])  # table, saucer, cup

Labels = npt.NDArray[np.uint8]  # (H, W)
Indices = npt.NDArray[np.intp]


def ellipse(y: Indices, x: Indices, centre: tuple[int, int], radii: tuple[int, int]) -> Labels:
    """1 within the ellipse, 0 outside."""
    return (((y - centre[0]) / radii[0]) ** 2 + ((x - centre[1]) / radii[1]) ** 2 < 1).astype(np.uint8)


def coarse_mask(height: int, width: int) -> Labels:
    """Table, saucer and cup as three ellipses, seen through blocks: what a network with a large stride gives."""
    y, x = np.mgrid[BLOCK // 2 : height : BLOCK, BLOCK // 2 : width : BLOCK]
    saucer = ellipse(y, x, (218, 277), (175, 203))
    cup = ellipse(y, x, (120, 285), (105, 120)) | ellipse(y, x, (190, 290), (95, 105))
    blocks = np.where(cup, np.uint8(2), saucer)
    return blocks.repeat(BLOCK, axis=0).repeat(BLOCK, axis=1)[:height, :width]


def painted(photo: npt.NDArray[np.uint8], labels: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
    """The photo under its labels' colours."""
    return (0.45 * photo + 0.55 * COLOURS[labels]).astype(np.uint8)


def main() -> None:
    """Refines the mask and draws what came of it."""
    photo = coffee()
    before = coarse_mask(*photo.shape[:2])
    start = time.perf_counter()
    probabilities = densefield.refine(photo, labels=before)
    seconds = time.perf_counter() - start
    after = probabilities.argmax(axis=0)
    print(f"{photo.shape[1]}×{photo.shape[0]} pixels, 3 labels: {seconds * 1000:.0f} ms")
    print(f"{np.mean(after != before):.0%} of the pixels have another label")
    FOLDER.mkdir(exist_ok=True)
    strip = np.concatenate([photo, painted(photo, before), painted(photo, after)], axis=1)
    Image.fromarray(strip).save(FOLDER / "refined.png")
    print(FOLDER / "refined.png")


if __name__ == "__main__":
    main()
