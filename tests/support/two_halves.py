"""An image of two colours with a misplaced mask."""

from __future__ import annotations

import numpy as np


def two_halves() -> tuple[np.ndarray, np.ndarray]:
    """An image of two colours, and its mask with the edge two columns off."""
    image = np.zeros((12, 16, 3), np.uint8)
    image[:, 8:] = 200
    mask = np.zeros((12, 16), np.int64)
    mask[:, 10:] = 1
    return image, mask


def probabilities_of(mask: np.ndarray, confidence: float = 0.7) -> np.ndarray:
    first = np.where(mask == 0, confidence, 1 - confidence)
    return np.stack([first, 1 - first])
