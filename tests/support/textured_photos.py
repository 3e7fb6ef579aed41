"""Synthetic photos with shading, texture and noise, and rough versions of their masks."""

from __future__ import annotations

import numpy as np

COLOURS = np.array([(60, 90, 130), (190, 120, 70), (110, 180, 90), (150, 60, 160)])
SHAPE = (120, 160)


def blob(shape: tuple[int, int] = SHAPE, radius: float = 32.0, centre: tuple[float, float] = (60, 80)) -> np.ndarray:
    """A smooth shape with bays and without symmetry."""
    y, x = (each - place for each, place in zip(np.indices(shape), centre, strict=True))
    angle = np.arctan2(y, x)
    return np.hypot(y, x) < radius * (1 + 0.15 * np.cos(3 * angle) + 0.08 * np.sin(5 * angle))


def photo(truth: np.ndarray, seed: int = 70_117, noise: float = 8.0) -> np.ndarray:
    """Each label in its own colour, (H, W, 3)."""
    random = np.random.default_rng(seed)
    rows, columns = np.indices(truth.shape)
    waves = 8 * np.sin(rows / 9 + columns / 7)
    colours = COLOURS[truth.astype(int)] + waves[..., None] + random.normal(0, noise, (*truth.shape, 3))
    return np.clip(np.rint(colours), 0, 255).astype(np.uint8)


def dilated(mask: np.ndarray, radius: float) -> np.ndarray:
    """All pixels within the radius of a mask; a negative one erodes it."""
    if radius < 0:
        return ~dilated(~mask, -radius)
    reach, out = int(radius), mask.copy()
    for y in range(-reach, reach + 1):
        for x in range(-reach, reach + 1):
            if x * x + y * y <= radius * radius:
                out |= np.roll(mask, (y, x), axis=(0, 1))  # masks here do not touch the border
    return out


def shifted(mask: np.ndarray, x: int, y: int) -> np.ndarray:
    return np.roll(mask, (y, x), axis=(0, 1))


def blocks(mask: np.ndarray, size: float) -> np.ndarray:
    """The mask at a lower resolution, enlarged without interpolation; the size need not be an integer."""
    rows, columns = ((np.arange(count) // size * size + size / 2).astype(int) for count in mask.shape)
    return mask[np.minimum(rows, mask.shape[0] - 1)[:, None], np.minimum(columns, mask.shape[1] - 1)]
