"""Signed distances to simple figures, negative inside, and the parts that shapes are made of.

Scenes use only operations that round alike on every machine: sums, products, quotients and square roots in single
precision. Angles are computed in double precision, so that rounding to single precision hides their last bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

Floats = npt.NDArray[np.floating]  # float32
Point = tuple[float, float]
Tone = Literal["main", "accent", "dark", "light"]

_TINY = 1e-6  # keeps quotients finite


@dataclass(frozen=True)
class Plane:
    """Pixel coordinates around an object in its own frame: x to the right, y down, the object's radius is about 1."""

    x: Floats  # (h, w)
    y: Floats  # (h, w)
    pixel: float  # the side of a pixel

    def thin(self, half: float) -> float:
        """Half the width of a thin part, at least two thirds of a pixel, so that it stays visible."""
        return max(half, 0.66 * self.pixel)


@dataclass(frozen=True)
class Part:
    """A part of an object: its signed distance (h, w), its colour, and whether it has the texture of the class."""

    distance: Floats
    tone: Tone = "main"
    textured: bool = False


# Returns the parts of an object, from back to front.
Shape = Callable[[Plane, Generator], Sequence[Part]]


def length(x: Floats, y: Floats) -> Floats:
    """√(x² + y²)."""
    return np.sqrt(x * x + y * y)


def ramp(values: Floats, start: float, end: float) -> Floats:
    """Smooth step: 0 up to `start`, 1 from `end` on; start may be the larger.

    >>> ramp(np.array([0.0, 1.0, 2.0], np.float32), 0, 2).tolist()
    [0.0, 0.5, 1.0]
    """
    t: Floats = np.clip((values - start) * (1 / (end - start)), 0, 1)
    return t * t * (3 - 2 * t)


def wave(t: Floats) -> Floats:
    """A smooth wave of period 1 between -1 and 1, which is 1 at integers, similar to a cosine.

    >>> wave(np.array([0.0, 0.25, 0.5, 1.0], np.float32)).tolist()
    [1.0, 0.0, -1.0, 1.0]
    """
    w: Floats = np.abs(2 * (t - np.floor(t)) - 1)
    return 2 * w * w * (3 - 2 * w) - 1


def turn(x: Floats, y: Floats) -> Floats:
    """The angle from the x axis to the y axis, in turns from -½ to ½.

    >>> one = np.ones(1, np.float32)
    >>> [round(float(turn(x * one, y * one)[0]), 3) for x, y in ((1, 0), (1, 1), (0, 1), (-1, 0), (0, -1))]
    [0.0, 0.125, 0.25, 0.5, -0.25]
    """
    angle: Floats = np.arctan2(y, x, dtype=np.float64) * (0.5 / math.pi)
    return angle.astype(np.float32)


def direction(turns: float) -> Point:
    """The unit vector at an angle in turns.

    >>> [round(part, 6) for part in direction(0.125)]
    [0.707107, 0.707107]
    """
    return math.cos(2 * math.pi * turns), math.sin(2 * math.pi * turns)


def disc(x: Floats, y: Floats, at: Point, radius: float) -> Floats:
    """A disc."""
    return length(x - at[0], y - at[1]) - radius


def ring(x: Floats, y: Floats, at: Point, radius: float, half: float) -> Floats:
    """A circle, drawn as a line of half width `half`."""
    return np.abs(disc(x, y, at, radius)) - half


def ellipse(x: Floats, y: Floats, at: Point, rx: float, ry: float) -> Floats:
    """An ellipse; the distance is exact at its border and approximate elsewhere."""
    px, py = (x - at[0]) * (1 / rx), (y - at[1]) * (1 / ry)
    k = length(px, py)
    steepness = length(px * (1 / rx), py * (1 / ry))
    result: Floats = k * (k - 1) / (steepness + _TINY)
    return result


def box(x: Floats, y: Floats, at: Point, hx: float, hy: float, corner: float = 0.0) -> Floats:
    """A box of these half sides with rounded corners."""
    qx, qy = np.abs(x - at[0]) - (hx - corner), np.abs(y - at[1]) - (hy - corner)
    outside: Floats = length(np.maximum(qx, 0), np.maximum(qy, 0))
    inside: Floats = np.minimum(np.maximum(qx, qy), 0)
    return outside + inside - corner


def stroke(x: Floats, y: Floats, a: Point, b: Point, half: float, end: float | None = None) -> Floats:
    """A round-ended line from a to b; its half width goes from `half` to `end`."""
    px, py = x - a[0], y - a[1]
    dx, dy = b[0] - a[0], b[1] - a[1]
    along = np.clip((px * dx + py * dy) * (1 / (dx * dx + dy * dy + _TINY)), 0, 1)
    width = half if end is None else half + (end - half) * along
    return length(px - along * dx, py - along * dy) - width


def path(x: Floats, y: Floats, points: Sequence[Point], half: float, end: float | None = None) -> Floats:
    """A line through points; its half width goes linearly from `half` to `end`."""
    count = len(points) - 1
    last = half if end is None else end
    widths = [half + (last - half) * k / count for k in range(count + 1)]
    result = stroke(x, y, points[0], points[1], widths[0], widths[1])
    for k in range(1, count):
        result = np.minimum(result, stroke(x, y, points[k], points[k + 1], widths[k], widths[k + 1]))
    return result


def bow(a: Point, by: Point, b: Point, pieces: int = 4) -> list[Point]:
    """Points of the quadratic Bézier curve from a to b with control point `by`."""
    ts = [k / pieces for k in range(pieces + 1)]
    weights = [((1 - t) * (1 - t), 2 * t * (1 - t), t * t) for t in ts]
    return [(u * a[0] + v * by[0] + w * b[0], u * a[1] + v * by[1] + w * b[1]) for u, v, w in weights]


def wavy(a: Point, b: Point, width: float, waves: float, pieces: int = 9) -> list[Point]:
    """Points of a sine wave from a to b, with this amplitude and number of periods."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    points = []
    for k in range(pieces + 1):
        t = k / pieces
        off = width * min(1.0, 3 * t) * direction(waves * t)[1]
        points.append((a[0] + t * dx - off * dy, a[1] + t * dy + off * dx))
    return points


def convex(x: Floats, y: Floats, corners: Sequence[Point], rounding: float = 0.0) -> Floats:
    """A convex polygon with these corners, clockwise when y points down."""
    result: Floats | None = None
    for (ax, ay), (bx, by) in zip(corners, [*corners[1:], corners[0]], strict=True):
        nx, ny = by - ay, ax - bx
        norm = 1 / math.sqrt(nx * nx + ny * ny)
        side = (x - ax) * (nx * norm) + (y - ay) * (ny * norm)
        result = side if result is None else np.maximum(result, side)
    assert result is not None
    return result - rounding


def join(*figures: Floats) -> Floats:
    """The union of figures."""
    result = figures[0]
    for figure in figures[1:]:
        result = np.minimum(result, figure)
    return result


def blend(a: Floats, b: Floats, reach: float) -> Floats:
    """The union of two figures, blended smoothly within this distance."""
    near = np.maximum(reach - np.abs(a - b), 0) * (1 / reach)
    return np.minimum(a, b) - near * near * (reach / 4)


def cut(figure: Floats, away: Floats) -> Floats:
    """The first figure without the second."""
    return np.maximum(figure, -away)
