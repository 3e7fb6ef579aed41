"""Textures of objects: patterns (h, w) between -1 and 1 in the object's own frame."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from densefield.datasets.sampling import random_integer
from densefield.scenes.geometry import Floats, length, ramp, turn, wave

Texture = Callable[[Floats, Floats, Generator], Floats]


def clouds(x: Floats, y: Floats, rng: Generator, cells: float) -> Floats:
    """Smooth random values with this many cells per unit, for coordinates between -2 and 2."""
    count = int(4 * cells) + 2
    table = rng.random((count, count)).astype(np.float32) * 2 - 1
    px, py = np.clip((x + 2) * cells, 0, count - 1.01), np.clip((y + 2) * cells, 0, count - 1.01)
    column, row = np.floor(px), np.floor(py)
    fx, fy = px - column, py - row
    fx, fy = fx * fx * (3 - 2 * fx), fy * fy * (3 - 2 * fy)
    corner = (row * count + column).astype(np.intp)
    flat = table.reshape(-1)
    a, b, c, d = flat[corner], flat[corner + 1], flat[corner + count], flat[corner + count + 1]
    above, below = a + (b - a) * fx, c + (d - c) * fx
    result: Floats = above + (below - above) * fy
    return result


def plates(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Scales in rows, each row shifted by half a scale."""
    cells = rng.uniform(5.0, 6.5)
    px, py = x * cells, y * cells
    column = np.floor(px)
    odd = column - 2 * np.floor(column * 0.5)
    v = py + odd * 0.5
    fx, fy = px - column, v - np.floor(v) - 0.5
    return 1 - 2 * ramp(length(fx * 0.9, fy), 0.25, 0.72)


def dots(x: Floats, y: Floats, rng: Generator, cells: float, radius: float) -> Floats:
    """A disc of random size and position in every cell."""
    count = 64
    table = rng.random((3, count)).astype(np.float32)
    px, py = x * cells, y * cells
    column, row = np.floor(px), np.floor(py)
    cell = (column.astype(np.intp) * 7 + row.astype(np.intp) * 19) % count
    cx, cy, size = (table[k][cell] for k in range(3))
    far = length(px - column - 0.3 - 0.4 * cx, py - row - 0.3 - 0.4 * cy)
    return 2 * ramp(far - radius * (0.6 + 0.7 * size), 0.12, -0.12) - 1


def large_spots(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Few large spots."""
    return dots(x, y, rng, rng.uniform(2.6, 3.4), 0.26)


def small_spots(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Many small spots."""
    return dots(x, y, rng, rng.uniform(6.0, 7.5), 0.24)


def seams(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Fine lengthwise lines, and a deep one in the middle."""
    lines = wave(np.abs(x) * rng.uniform(6.0, 8.0) + 0.5) * 0.7
    return lines - 1.2 * ramp(np.abs(x), 0.07, 0.02)


def bands(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Broad horizontal bands."""
    across: Floats = wave(y * rng.uniform(1.6, 2.4) + 0.12 * x * x + rng.random())
    result: Floats = np.clip(across * 2.5, -1, 1)
    return result


def foliage(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Small tufts among larger ones."""
    small, large = clouds(x, y, rng, 7.0), clouds(x, y, rng, 3.0)
    result: Floats = np.clip(1.5 * small + 0.6 * large, -1, 1)
    return result


def quarters(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Four fields of two colours."""
    left: Floats = np.clip(x * 30, -1, 1)
    above: Floats = np.clip((y + rng.uniform(0.36, 0.46)) * 30, -1, 1)
    return left * above


def gores(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Panels that meet at the top."""
    across = x / (np.sqrt(np.maximum(1.0 - y * y, 0.05)) + 0.05)
    return np.clip(wave(across * rng.uniform(1.9, 2.3)) * 3, -1, 1)


def tread(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Slanted blocks all around."""
    blocks = float(14 + random_integer(rng, 8))
    return np.clip(wave(turn(x, y) * blocks + length(x, y) * 3) * 2, -1, 1)


def coil(x: Floats, y: Floats, rng: Generator) -> Floats:
    """A spiral."""
    px, py = x + 0.12, y + 0.02
    return wave(length(px, py) * rng.uniform(3.6, 4.6) - turn(px, py) + rng.random())


def grain(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Long wavy veins of wood."""
    return wave(y * rng.uniform(5.0, 6.5) + 0.9 * clouds(x * 0.5, y, rng, 2.5))


def rays(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Streaks from the heart of a flower."""
    return wave(turn(x, y + 0.4) * float(18 + random_integer(rng, 8))) * ramp(length(x, y + 0.4), 0.6, 0.2)


def chevrons(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Rows of pointed feathers."""
    cells = rng.uniform(4.5, 5.5)
    zigzag = np.abs(y * cells - np.floor(y * cells) - 0.5)
    return wave(x * cells + 1.2 * zigzag)


def brushed(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Fine diagonal lines of brushed metal."""
    table = rng.random(64).astype(np.float32) * 2 - 1
    at = (x + y + 4) * 9
    line = np.floor(at)
    here, following = table[line.astype(np.intp) % 64], table[(line.astype(np.intp) + 1) % 64]
    result: Floats = here + (following - here) * (at - line)
    return result


def shine(x: Floats, y: Floats, rng: Generator) -> Floats:
    """A soft highlight at the upper left."""
    far = length((x + 0.2) * 1.4, y + rng.uniform(0.52, 0.62))
    return 1.6 * ramp(far, 0.3, 0.05) - 0.5


def year_rings(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Growth rings of a board."""
    return wave(x * rng.uniform(3.0, 4.0) + 0.5 * y * y + 0.5 * clouds(x, y, rng, 1.5))


def pleats(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Folds that spread downwards."""
    return wave(x / (y + 1.7) * rng.uniform(9.0, 12.0))


def marble(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Irregular veins."""
    return wave(x * 1.2 + y * 0.8 + 1.6 * clouds(x, y, rng, 2.2))


def bricks(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Rows of bricks with mortar between."""
    rows = rng.uniform(5.5, 7.0)
    row = np.floor(y * rows)
    shifted = x * rows * 0.55 + 0.5 * (row - 2 * np.floor(row * 0.5))
    fx, fy = shifted - np.floor(shifted), y * rows - row
    joint = np.minimum(np.minimum(fx, 1 - fx) * 1.8, np.minimum(fy, 1 - fy))
    return 2 * ramp(joint, 0.06, 0.22) - 1


def ribs(x: Floats, y: Floats, rng: Generator) -> Floats:
    """Upright ribs, narrow and dark between."""
    w = wave(x * rng.uniform(6.0, 7.5) + 0.5)
    return 1 - 1.6 * ramp(w, 0.1, 0.95)
