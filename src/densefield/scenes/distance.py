"""Signed distances to simple figures: below 0 inside, above 0 outside.

Here and in all files of scenes only sums, products, quotients, roots and comparisons are used. They round alike on
every machine, which sines, powers and reductions do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]  # float32
Point = tuple[float, float]

_TINY = 1e-6  # keeps quotients finite


def length(x: Floats, y: Floats) -> Floats:
    """√(x² + y²)."""
    return np.sqrt(x * x + y * y)


def ramp(values: Floats, start: float, end: float) -> Floats:
    """0 up to `start`, 1 from `end` on, smooth between; start may be the larger.

    >>> ramp(np.array([0.0, 1.0, 2.0], np.float32), 0, 2).tolist()
    [0.0, 0.5, 1.0]
    """
    t: Floats = np.clip((values - start) * (1 / (end - start)), 0, 1)
    return t * t * (3 - 2 * t)


def wave(t: Floats) -> Floats:
    """A smooth wave of period 1 between -1 and 1, which is 1 at whole numbers: much like a cosine.

    >>> wave(np.array([0.0, 0.25, 0.5, 1.0], np.float32)).tolist()
    [1.0, 0.0, -1.0, 1.0]
    """
    w: Floats = np.abs(2 * (t - np.floor(t)) - 1)
    return 2 * w * w * (3 - 2 * w) - 1


def turn(x: Floats, y: Floats) -> Floats:
    """The angle from the first axis towards the second, in turns from -½ to ½, good to a thousandth.

    >>> one = np.ones(1, np.float32)
    >>> [round(float(turn(x * one, y * one)[0]), 3) for x, y in ((1, 0), (1, 1), (0, 1), (-1, 0), (0, -1))]
    [0.0, 0.125, 0.25, 0.5, -0.25]
    """
    ax, ay = np.abs(x), np.abs(y)
    t = np.minimum(ax, ay) / (np.maximum(ax, ay) + _TINY)
    angle = t * (0.158516 - t * t * (0.046518 - t * t * 0.013213))  # the arc tangent over 2π, on 0…1
    angle = np.where(ay > ax, 0.25 - angle, angle)
    return np.copysign(np.where(x < 0, 0.5 - angle, angle), y)


def direction(turns: float) -> Point:
    """The unit vector at an angle in turns, without the sines of a library.

    >>> [round(part, 6) for part in direction(0.125)]
    [0.707107, 0.707107]
    """
    quarter = int(turns * 4 // 1)
    t = (turns * 4 - quarter - 0.5) * 1.5707963267948966  # an eighth of a turn to either side
    s, c = t, 1.0
    term_s, term_c = t, 1.0
    for k in range(1, 8):
        term_c *= -t * t / ((2 * k - 1) * (2 * k))
        term_s *= -t * t / ((2 * k) * (2 * k + 1))
        c, s = c + term_c, s + term_s
    root = 0.7071067811865476
    c, s = (c - s) * root, (c + s) * root
    return ((c, s), (-s, c), (-c, -s), (s, -c))[quarter % 4]


def disc(x: Floats, y: Floats, at: Point, radius: float) -> Floats:
    """A disc."""
    return length(x - at[0], y - at[1]) - radius


def ring(x: Floats, y: Floats, at: Point, radius: float, half: float) -> Floats:
    """A circle of this radius, drawn by a pen of half this width."""
    return np.abs(disc(x, y, at, radius)) - half


def ellipse(x: Floats, y: Floats, at: Point, rx: float, ry: float) -> Floats:
    """An ellipse; the distance is exact at its border and close to it nearby."""
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
    """A line through points, thinning evenly to `end`."""
    count = len(points) - 1
    last = half if end is None else end
    widths = [half + (last - half) * k / count for k in range(count + 1)]
    result = stroke(x, y, points[0], points[1], widths[0], widths[1])
    for k in range(1, count):
        result = np.minimum(result, stroke(x, y, points[k], points[k + 1], widths[k], widths[k + 1]))
    return result


def bow(a: Point, by: Point, b: Point, pieces: int = 4) -> list[Point]:
    """Points of the curve from a to b that bends towards `by`."""
    ts = [k / pieces for k in range(pieces + 1)]
    weights = [((1 - t) * (1 - t), 2 * t * (1 - t), t * t) for t in ts]
    return [(u * a[0] + v * by[0] + w * b[0], u * a[1] + v * by[1] + w * b[1]) for u, v, w in weights]


def sway(a: Point, b: Point, width: float, waves: float, pieces: int = 9) -> list[Point]:
    """Points of a line from a to b that swings to and fro, so many times and so wide."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    points = []
    for k in range(pieces + 1):
        t = k / pieces
        off = width * min(1.0, 3 * t) * direction(waves * t)[1]
        points.append((a[0] + t * dx - off * dy, a[1] + t * dy + off * dx))
    return points


def convex(x: Floats, y: Floats, corners: Sequence[Point], rounding: float = 0.0) -> Floats:
    """A convex figure with these corners, in the order that has the inside to the right when y points down."""
    result: Floats | None = None
    for (ax, ay), (bx, by) in zip(corners, [*corners[1:], corners[0]], strict=True):
        nx, ny = by - ay, ax - bx
        norm = 1 / math.sqrt(nx * nx + ny * ny)
        side = (x - ax) * (nx * norm) + (y - ay) * (ny * norm)
        result = side if result is None else np.maximum(result, side)
    assert result is not None
    return result - rounding


def join(*figures: Floats) -> Floats:
    """All of them."""
    result = figures[0]
    for figure in figures[1:]:
        result = np.minimum(result, figure)
    return result


def blend(a: Floats, b: Floats, reach: float) -> Floats:
    """Both, with the notch between them filled to this reach."""
    near = np.maximum(reach - np.abs(a - b), 0) * (1 / reach)
    return np.minimum(a, b) - near * near * (reach / 4)


def cut(figure: Floats, away: Floats) -> Floats:
    """The first without the second."""
    return np.maximum(figure, -away)
