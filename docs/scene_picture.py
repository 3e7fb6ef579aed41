"""Draw the picture of scenes.md, images above their labels: `python docs/scene_picture.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from densefield.images import voc_palette
from densefield.scenes import draw_scene

PICTURE = Path(__file__).parent / "images" / "scenes.jpg"
SEED, SIDE, COLUMNS, GAP = 2015, 160, 6, 4


def draw_row(first: int) -> npt.NDArray[np.uint8]:
    """Some scenes side by side, their labels below."""
    scenes = [draw_scene(SEED, first + column, (SIDE, SIDE), 20) for column in range(COLUMNS)]
    labels = [voc_palette()[scene.labels] for scene in scenes if scene.labels is not None]
    return np.concatenate([beside([scene.image for scene in scenes]), beside(labels)])


def beside(tiles: list[npt.NDArray[np.uint8]]) -> npt.NDArray[np.uint8]:
    """Tiles in a row, with white gaps."""
    gap = np.full((SIDE, GAP, 3), 255, np.uint8)
    return np.concatenate([part for tile in tiles for part in (tile, gap)][:-1], axis=1)


def main() -> None:
    """Draw the first twelve scenes of a seed."""
    rows = [draw_row(0), draw_row(COLUMNS)]
    gap = np.full((2 * GAP, rows[0].shape[1], 3), 255, np.uint8)
    Image.fromarray(np.concatenate([rows[0], gap, rows[1]])).save(PICTURE, quality=80, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
