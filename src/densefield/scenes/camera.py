"""The photo of a scene: uneven light, a lens slightly out of focus, a noisy sensor."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from densefield.scenes.background import frame
from densefield.scenes.distance import Floats, Point
from densefield.scenes.random import Draws


def take_photo(canvas: Floats, light: Point, draws: Draws) -> npt.NDArray[np.uint8]:
    """Colours 0…255 (H, W, 3) of a canvas (3, H, W), which is used up; light comes from the direction `light`."""
    _illuminate(canvas, light, draws)
    share = draws.number(0.05, 0.16)
    _soften(canvas[:, :-2], canvas[:, 1:-1], canvas[:, 2:], share)
    _soften(canvas[:, :, :-2], canvas[:, :, 1:-1], canvas[:, :, 2:], share)
    canvas += _sensor_noise(canvas, draws)
    canvas += 0.5  # what follows rounds down
    np.clip(canvas, 0, 255, out=canvas)
    image = np.empty((*canvas.shape[1:], 3), np.uint8)
    for channel in range(3):
        image[..., channel] = canvas[channel]
    return image


def _illuminate(canvas: Floats, light: Point, draws: Draws) -> None:
    """Brighter towards the light, darker in the corners."""
    x, y = frame((canvas.shape[1], canvas.shape[2]))
    slope, corners = draws.number(0.04, 0.2), draws.number(0.0, 0.1)
    across = x * (slope * light[0]) - corners * x * x
    down = y * (slope * light[1]) - corners * y * y
    canvas *= 1 + across + down


def _soften(before: Floats, middle: Floats, after: Floats, share: float) -> None:
    """Gives the pixels of the middle a share of those before and of those after."""
    around = before + after
    around *= share
    middle *= 1 - 2 * share
    middle += around


def _sensor_noise(canvas: Floats, draws: Draws) -> Floats:
    """Noise that grows with the light: of a variance a + b·v where the value is v."""
    read, shot = draws.number(1.5, 4.0), draws.number(0.02, 0.1)
    noise = np.maximum(canvas, 0)
    noise *= shot
    noise += read * read
    np.sqrt(noise, out=noise)
    noise *= draws.noise(*canvas.shape)
    return noise
