"""A small clip for tests: a disc that moves over a background, and masks that are rough in their own way per frame."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Clip(NamedTuple):
    """Frames (T, H, W, 3), true labels and rough labels (T, H, W)."""

    frames: npt.NDArray[Any]
    truth: npt.NDArray[Any]
    rough: npt.NDArray[Any]


def moving_disc(length: int = 12, shape: tuple[int, int] = (34, 46), seed: int = 71077) -> Clip:
    """A disc of radius 10 that moves by a pixel a frame; rough masks have another radius and place in each frame."""
    rng = np.random.default_rng(seed)
    rows, columns = np.indices(shape)
    frames, truth, rough = [], [], []
    for t in range(length):
        middle = np.array([16.0, 15.0 + t % 16])
        inside = np.hypot(rows - middle[0], columns - middle[1]) < 10
        image = np.where(inside[..., None], (190, 90, 60), (70, 110, 120)) + rng.normal(0, 12, (*shape, 3))
        radius, (down, across) = 10 + rng.uniform(-3, 3), middle + rng.normal(0, 1.5, 2)
        frames.append(np.clip(image, 0, 255))
        truth.append(inside)
        rough.append(np.hypot(rows - down, columns - across) < radius)
    return Clip(np.array(frames).astype(np.uint8), np.array(truth).astype(np.uint8), np.array(rough).astype(np.uint8))


def error_share(labels: npt.NDArray[Any], truth: npt.NDArray[Any]) -> float:
    """The share of the pixels with a wrong label."""
    return float(np.mean(np.asarray(labels) != truth))


def flicker(labels: npt.NDArray[Any], truth: npt.NDArray[Any]) -> float:
    """The share of the pixels whose label changes from frame to frame although the true one does not."""
    return float(np.mean((labels[1:] != labels[:-1]) & (truth[1:] == truth[:-1])))
