"""A synthetic video with known truth: textured objects that move and turn before a textured background.

Rough masks have errors that are independent from frame to frame, as those of a network or of people who draw.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt, gaussian_filter, map_coordinates

Array = npt.NDArray[Any]


class Video(NamedTuple):
    """Frames (T, H, W, 3) of uint8, and their true labels (T, H, W)."""

    frames: Array
    truth: Array


def moving_objects(seed: int, frames: int = 24, shape: tuple[int, int] = (120, 160), speed: float = 2.5) -> Video:
    """Three objects, labels 1 to 3, that move by up to `speed` pixels a frame and are deformed; the camera pans."""
    rng = np.random.default_rng(seed)
    y, x = np.indices(shape).astype(np.float64)
    wide = (shape[0] + 80, shape[1] + 80)
    scenery = _texture(rng, wide, rng.uniform(60, 190, 3))
    coats = [_texture(rng, wide, rng.uniform(40, 220, 3)) for _ in range(3)]
    start = rng.uniform(0.25, 0.75, (3, 2)) * shape
    step = rng.uniform(-1, 1, (3, 2)) * speed
    size, phase = rng.uniform(0.12, 0.22, 3) * shape[0], rng.uniform(0, 6, (3, 3))
    images, labels = [], []
    for t in range(frames):
        image = _window(scenery, y + 40 + 0.5 * t, x + 40 + 0.7 * t)
        label = np.zeros(shape, np.uint8)
        for k in range(3):
            centre = start[k] + _bounced(step[k] * t, 0.3 * np.array(shape))
            down, across = y - centre[0], x - centre[1]
            angle = np.arctan2(down, across) + 0.03 * t
            lobes = 1 + 0.25 * np.sin(3 * angle + phase[k, 0]) + 0.12 * np.sin(5 * angle + phase[k, 1] + 0.15 * t)
            inside = np.hypot(down, across) < size[k] * lobes
            coat = _window(coats[k], down + wide[0] / 2, across + wide[1] / 2)
            image[inside], label[inside] = coat[inside], k + 1
        image = gaussian_filter(image, (0.6, 0.6, 0)) + 5 * rng.standard_normal(image.shape)
        images.append(np.clip(image, 0, 255).astype(np.uint8))
        labels.append(label)
    return Video(np.array(images), np.array(labels))


def rough_masks(truth: Array, seed: int) -> dict[str, Array]:
    """The truth made rough, each frame on its own: borders displaced, objects grown or shrunk and shifted as a whole,
    blocks, and parts that are missed.
    """
    rng = np.random.default_rng(seed)
    return {
        "displaced": np.array([_displaced(rng, each, 3.0) for each in truth]),
        "grown": np.array([_grown(rng, each) for each in truth]),
        "blocks": np.array([_blocks(rng, each) for each in truth]),
        "missed": np.array([_missed(rng, _displaced(rng, each, 1.5), int(truth.max())) for each in truth]),
        "true": truth,
    }


def network_scores(truth: Array, seed: int) -> Array:
    """Logits (T, L, H, W) like those of a network: at an eighth of the resolution, and with errors of their own in each
    frame.
    """
    rng = np.random.default_rng(seed)
    count = int(truth.max()) + 1
    scores = []
    for labels in truth:
        planes = [gaussian_filter((labels == label).astype(np.float64), 4.0) for label in range(count)]
        planes = [6 * plane + 1.6 * _smooth(rng, labels.shape, 6.0) for plane in planes]
        scores.append([_window(plane[4::8, 4::8, None], *_coarse(labels.shape), 1)[..., 0] for plane in planes])
    return np.array(scores, np.float32)


def _coarse(shape: tuple[int, int]) -> Array:
    """Positions of pixels in the coarse planes."""
    return (np.indices(shape) - 4) / 8


def _grown(rng: np.random.Generator, labels: Array) -> Array:
    """Objects that are dilated by up to 5 pixels or eroded by up to 4, and shifted."""
    radius = rng.uniform(-4, 5)
    outside, nearest = distance_transform_edt(labels == 0, return_indices=True)
    if radius > 0:
        grown = np.where(outside <= radius, labels[tuple(nearest)], 0)
    else:
        grown = np.where(distance_transform_edt(labels > 0) > -radius, labels, 0)
    return np.roll(grown, np.round(rng.normal(0, 2, 2)).astype(int), (0, 1))


def _displaced(rng: np.random.Generator, labels: Array, length: float) -> Array:
    moved = [at + length * _smooth(rng, labels.shape, 8.0) for at in np.indices(labels.shape)]
    return map_coordinates(labels, moved, order=0, mode="nearest")


def _blocks(rng: np.random.Generator, labels: Array) -> Array:
    shift = rng.integers(0, 8, 2)
    coarse = np.roll(labels, shift, (0, 1))[4::8, 4::8].repeat(8, 0).repeat(8, 1)
    return np.roll(coarse, -shift, (0, 1))[: labels.shape[0], : labels.shape[1]]


def _missed(rng: np.random.Generator, labels: Array, most: int) -> Array:
    """A part of the objects is missed, and some background is taken for an object."""
    spots = _smooth(rng, labels.shape, 9.0)
    out = np.where(spots > 1.4, 0, labels)
    return np.where((spots < -2.2) & (labels == 0), rng.integers(1, most + 1), out).astype(labels.dtype)


def _bounced(way: Array, reach: Array) -> Array:
    """A way that turns back at a distance from its start."""
    return reach * (2 / np.pi) * np.arcsin(np.sin(np.pi / 2 * way / reach))


def _texture(rng: np.random.Generator, shape: tuple[int, int], mean: Array) -> Array:
    planes = [18 * _smooth(rng, shape, 12.0) + 10 * _smooth(rng, shape, 3.0) + level for level in mean]
    return np.stack(planes, axis=-1)


def _window(texture: Array, rows: Array, columns: Array, channels: int = 3) -> Array:
    planes = [map_coordinates(texture[..., c], [rows, columns], order=1, mode="reflect") for c in range(channels)]
    return np.stack(planes, axis=-1)


def _smooth(rng: np.random.Generator, shape: tuple[int, ...], width: float) -> Array:
    field = gaussian_filter(rng.standard_normal(shape), width, mode="wrap")
    return field / field.std()
