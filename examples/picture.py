"""Refines the rough masks of three photos, and compares them with outlines drawn by hand.

Run it with `make picture`. It prints a table and writes demo/refined.png: each photo, its rough mask, the refined mask,
and the outline drawn by hand. The photos are those of scikit-image: public domain, or CC0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import binary_dilation, binary_erosion
from skimage import data

import densefield

FOLDER = Path("demo")
TILE = (320, 240)  # width and height of a panel, in pixels
GAP = 6
COLOUR = (30, 210, 110)

Pixels = npt.NDArray[np.uint8]  # (H, W, 3)
Mask = npt.NDArray[np.uint8]  # (H, W), 0 or 1
Outline = Sequence[tuple[float, float]]  # x, y


def blocks(mask: Mask, side: int = 24) -> Mask:
    """The label of most pixels of each block: a network with a large stride."""
    rows, columns = -(-mask.shape[0] // side), -(-mask.shape[1] // side)
    padded = np.full((rows * side, columns * side), np.nan, np.float32)
    padded[: mask.shape[0], : mask.shape[1]] = mask
    share = np.nanmean(padded.reshape(rows, side, columns, side), axis=(1, 3))
    return (share > 0.5).astype(np.uint8).repeat(side, 0).repeat(side, 1)[: mask.shape[0], : mask.shape[1]]


def dilated(mask: Mask) -> Mask:
    """A mask that is nine pixels too large all around."""
    return binary_dilation(mask, iterations=9).astype(np.uint8)


def eroded(mask: Mask) -> Mask:
    """A mask that is twelve pixels too small all around."""
    return binary_erosion(mask, iterations=12).astype(np.uint8)


def ellipse(centre: tuple[float, float], radii: tuple[float, float]) -> Outline:
    """An ellipse as a polygon of 120 corners."""
    angles = np.linspace(0, 2 * np.pi, 120, endpoint=False)
    return [(centre[0] + radii[0] * np.cos(angle), centre[1] + radii[1] * np.sin(angle)) for angle in angles]


# fmt: off
SAUCER: Outline = [
    (181, 70), (163, 78), (145, 88), (124, 103), (106, 120), (92, 139), (83, 160), (78, 185), (77, 210), (80, 235),
    (87, 262), (98, 288), (114, 312), (134, 335), (158, 354), (186, 370), (216, 381), (248, 387), (280, 389),
    (312, 387), (344, 381), (372, 373), (398, 361), (420, 346), (440, 327), (456, 305), (468, 281), (476, 255),
    (479, 228), (478, 202), (473, 178), (463, 154), (448, 132), (435, 118), (422, 106), (400, 118), (300, 60),
]
SPOON: Outline = [
    (397, 72), (402, 69), (409, 66), (416, 67), (422, 70), (425, 75), (423, 83), (418, 100), (412, 118), (400, 118),
]
ASTRONAUT: Outline = [
    (20, 512), (25, 470), (22, 430), (26, 405), (22, 380), (26, 340), (37, 305), (41, 288), (52, 265), (72, 242),
    (95, 222), (115, 207), (113, 197), (115, 186), (121, 180), (126, 166), (140, 155), (160, 149), (183, 149),
    (184, 132), (176, 130), (171, 118), (163, 112), (156, 98), (154, 80), (153, 66), (158, 54), (170, 47), (188, 38),
    (200, 25), (217, 18), (235, 15), (250, 18), (262, 21), (277, 29), (290, 43), (299, 60), (301, 82), (297, 100),
    (291, 112), (283, 122), (278, 133), (270, 137), (266, 138), (259, 155), (255, 173), (275, 185), (290, 203),
    (300, 220), (305, 236), (318, 241), (335, 257), (347, 275), (353, 295), (360, 320), (363, 335), (361, 348),
    (385, 344), (405, 344), (425, 347), (448, 358), (467, 376), (482, 400), (491, 425), (496, 452), (503, 460),
    (508, 475), (509, 495), (505, 512),
]
ROCKET: Outline = [
    (311, 150), (312, 142), (316, 133), (320, 128), (323, 126), (327, 128), (331, 134), (334, 143), (334, 175),
    (331, 178), (330, 408), (314, 408), (313, 178), (311, 175),
]
# fmt: on


@dataclass(frozen=True)
class Photo:
    """A photo of scikit-image, the outlines of its object, a kind of rough mask, and the part that is shown."""

    name: str
    outlines: Sequence[Outline]
    rough: Callable[[Mask], Mask]
    corner: tuple[int, int]  # left and top of the shown part
    width: int  # of the shown part


PHOTOS = (
    Photo("coffee", [SAUCER, ellipse((291, 112), (118, 95)), SPOON], blocks, (33, 0), 533),
    Photo("astronaut", [ASTRONAUT], eroded, (0, 0), 512),
    Photo("rocket", [ROCKET], dilated, (142, 115), 360),
)


def drawn(outlines: Sequence[Outline], size: tuple[int, int]) -> Mask:
    """The pixels within the outlines."""
    mask = Image.new("L", size)
    for outline in outlines:
        ImageDraw.Draw(mask).polygon([tuple(point) for point in outline], fill=1)
    return np.array(mask)


def iou(mask: Mask, truth: Mask) -> float:
    """Intersection over union of two masks."""
    return float(np.sum(mask & truth) / np.sum(mask | truth))


def panel(pixels: Pixels, mask: Mask | None, photo: Photo, caption: str) -> Image.Image:
    """The shown part of the photo under its mask, with a caption."""
    if mask is not None:
        pixels = np.where(mask[..., None] > 0, 0.4 * pixels + 0.6 * np.array(COLOUR), pixels).astype(np.uint8)
    left, top = photo.corner
    height = photo.width * TILE[1] // TILE[0]
    tile = Image.fromarray(pixels).crop((left, top, left + photo.width, top + height)).resize(TILE)
    canvas, font = ImageDraw.Draw(tile), ImageFont.load_default(size=15)
    canvas.rectangle((0, TILE[1] - 24, canvas.textlength(caption, font) + 12, TILE[1]), fill=(20, 20, 20))
    canvas.text((6, TILE[1] - 22), caption, fill=(255, 255, 255), font=font)
    return tile


def main() -> None:
    """Refine the masks, print a table, and draw the strips."""
    columns = 4
    sheet = Image.new("RGB", (columns * (TILE[0] + GAP) - GAP, len(PHOTOS) * (TILE[1] + GAP) - GAP), "white")
    print(f"{'photo':12s}{'rough mask':12s}{'IoU before':>12s}{'IoU after':>12s}")
    for row, photo in enumerate(PHOTOS):
        pixels: Pixels = getattr(data, photo.name)()
        truth = drawn(photo.outlines, (pixels.shape[1], pixels.shape[0]))
        before = photo.rough(truth)
        after = densefield.refine(pixels, labels=before).argmax(axis=0).astype(np.uint8)
        was, now = iou(before, truth), iou(after, truth)
        print(f"{photo.name:12s}{photo.rough.__name__:12s}{100 * was:12.1f}{100 * now:12.1f}")
        strip = [
            panel(pixels, None, photo, "photo"),
            panel(pixels, before, photo, f"rough, IoU {100 * was:.0f}"),
            panel(pixels, after, photo, f"refined, IoU {100 * now:.0f}"),
            panel(pixels, truth, photo, "drawn by hand"),
        ]
        for column, tile in enumerate(strip):
            sheet.paste(tile, (column * (TILE[0] + GAP), row * (TILE[1] + GAP)))
    FOLDER.mkdir(exist_ok=True)
    sheet.save(FOLDER / "refined.png")
    print(FOLDER / "refined.png")


if __name__ == "__main__":
    main()
