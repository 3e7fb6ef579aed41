"""Small photos of an ellipse, its mask, and a rough mask."""

from __future__ import annotations

from pathlib import Path

import numpy as np

SIZE = (72, 108)


def object_of(seed: int) -> np.ndarray:
    """An ellipse, (72, 108)."""
    rows, columns = np.indices(SIZE)
    return (((rows - 36) / 22) ** 2 + ((columns - 50 - 6 * seed) / 30) ** 2 < 1).astype(np.uint8)


def photo_of(seed: int) -> np.ndarray:
    """A photo of the ellipse on a ground of another colour, with noise."""
    noise = np.random.default_rng(730_881 + seed).integers(0, 24, (*SIZE, 3))
    return (noise + np.where(object_of(seed)[..., None], (190, 120, 60), (40, 90, 130))).astype(np.uint8)


def rough_of(seed: int) -> np.ndarray:
    """A mask whose edges are up to six pixels wrong."""
    return np.roll(object_of(seed), (4, -6), axis=(0, 1))


def write_mask(path: Path, labels: np.ndarray) -> None:
    """Write labels as a palette PNG."""
    from PIL import Image

    from densefield.images.palette import voc_palette

    picture = Image.fromarray(labels)
    picture.putpalette(voc_palette().tobytes())
    picture.save(path)
