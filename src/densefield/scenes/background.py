"""The background of scenes: ground, and clutter that belongs to no class."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from densefield.datasets.sampling import random_integer
from densefield.scenes.colours import Colour, any_colour, object_colour, towards
from densefield.scenes.geometry import Floats, bow, direction, disc, path, ramp, stroke, wave
from densefield.scenes.textures import clouds


def draw_ground(size: tuple[int, int], colour: Colour, rng: Generator) -> Floats:
    """Ground of about this colour, (3, H, W): smooth patches, a weave or veins, and often a second field behind."""
    x, y = frame(size)
    pattern = 0.75 * smooth_noise(size, rng, 1.2) + 0.35 * smooth_noise(size, rng, 4.0)
    dx, dy = direction(rng.random())
    kind, period = random_integer(rng, 3), rng.uniform(5.0, 11.0)
    if kind == 0:  # veins
        pattern += 0.3 * wave(x * (dx * period) + y * (dy * period) + 1.2 * pattern)
    elif kind == 1:  # weave
        pattern += 0.2 * wave(x * (dx * period) + y * (dy * period))
        pattern += 0.2 * wave(y * (dx * period) - x * (dy * period))
    other = towards(colour, any_colour(rng), rng.uniform(0.15, 0.45))
    mix = 0.5 + 0.5 * pattern
    if rng.random() < 0.6:  # a wall behind a table, a sky above a field
        horizon, slope = rng.uniform(-0.5, 0.2), rng.uniform(-0.15, 0.15)
        mix = mix * 0.6 + 0.4 * ramp(y - slope * x - horizon, -0.02, 0.02)
    ground = np.empty((3, *size), np.float32)
    for channel in range(3):
        ground[channel] = colour[channel] + (other[channel] - colour[channel]) * mix + 7.0 * pattern
    return ground


def smooth_noise(size: tuple[int, int], rng: Generator, cells: float) -> Floats:
    """Smooth random values (H, W) between -1 and 1, with this many cells per unit of the frame."""
    half = min(size) / 2
    counts = [int(count / half * cells) + 2 for count in size]
    values = rng.random(counts).astype(np.float32) * 2 - 1
    for axis, count in enumerate(size):
        at = np.arange(count, dtype=np.float32) * (cells / half)
        below = np.floor(at)
        share, cell = at - below, below.astype(np.intp)
        share = share * share * (3 - 2 * share)
        if axis == 0:
            share = share[:, None]
        here, following = values.take(cell, axis), values.take(cell + 1, axis)
        values = here + (following - here) * share
    return values


def frame(size: tuple[int, int]) -> tuple[Floats, Floats]:
    """Coordinates x (1, W) and y (H, 1) from the centre of the image, ±1 at the ends of its shorter side."""
    rows, columns = size
    half = min(size) / 2
    y = (np.arange(rows, dtype=np.float32) + (0.5 - rows / 2)) * (1 / half)
    x = (np.arange(columns, dtype=np.float32) + (0.5 - columns / 2)) * (1 / half)
    return x[None], y[:, None]


def draw_clutter(canvas: Floats, background: Colour, rng: Generator) -> None:
    """Draw pebbles, twigs and smears on the ground (3, H, W), in the colours of objects."""
    size = canvas.shape[1], canvas.shape[2]
    x, y = frame(size)
    pixel = 2 / min(size)
    for _ in range(3 + random_integer(rng, 5)):
        at = rng.uniform(-1.0, 1.0), rng.uniform(-1.0, 1.0)
        reach = rng.uniform(0.06, 0.2)
        colour = object_colour(rng, rng.random(), background, ())
        dx, dy = direction(rng.random())
        kind = random_integer(rng, 3)
        rows, columns = _window(at, 2.2 * reach, size)
        px, py = x[:, columns], y[rows]
        if kind == 0:  # a twig
            end = at[0] + 1.6 * reach * dx, at[1] + 1.6 * reach * dy
            bend = at[0] + reach * dx - 0.6 * reach * dy, at[1] + reach * dy + 0.6 * reach * dx
            figure = path(px, py, bow(at, bend, end, 3), max(0.012, 0.6 * pixel))
        elif kind == 1:  # a pebble
            figure = stroke(px, py, at, (at[0] + 0.5 * reach * dx, at[1] + 0.5 * reach * dy), 0.55 * reach, 0.4 * reach)
        else:  # a smear
            figure = disc(px, py, at, reach) + 0.6 * reach * clouds(px, py, rng, 6.0)
        soft = 0.03 if kind == 2 else pixel
        cover = ramp(figure, soft, -soft) * rng.uniform(0.55, 1.0)
        spot = canvas[:, rows, columns]
        for channel in range(3):
            spot[channel] += (colour[channel] - spot[channel]) * cover


def _window(at: tuple[float, float], reach: float, size: tuple[int, int]) -> tuple[slice, slice]:
    """The rows and columns within a distance of a point in the frame."""
    half = min(size) / 2
    sides = []
    for place, count in ((at[1], size[0]), (at[0], size[1])):
        middle = place * half + count / 2
        first, last = int(middle - reach * half), int(middle + reach * half) + 2
        sides.append(slice(min(max(first, 0), count), min(max(last, 0), count)))
    return sides[0], sides[1]
