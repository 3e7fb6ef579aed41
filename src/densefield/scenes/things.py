"""Shapes of things that people make, with their handles, poles, spokes and strings."""

from __future__ import annotations

import numpy as np

from densefield.scenes.distance import (
    bow,
    box,
    convex,
    cut,
    direction,
    disc,
    ellipse,
    join,
    path,
    ring,
    stroke,
    sway,
)
from densefield.scenes.random import Draws
from densefield.scenes.shapes import Part, Plane


def cup(p: Plane, draws: Draws) -> list[Part]:
    """A mug with a handle to the right and a dark opening."""
    wide, narrow = draws.number(0.46, 0.56), draws.number(0.36, 0.46)
    handle = ring(p.x, p.y, (wide - 0.02, 0.05), draws.number(0.26, 0.34), p.thin(0.05))
    sides = [(-wide, -0.56), (wide, -0.56), (narrow, 0.66), (-narrow, 0.66)]
    body = convex(p.x, p.y, sides, 0.06)
    opening = ellipse(p.x, p.y, (0.0, -0.56), wide - 0.02, 0.14)
    rim = ellipse(p.x, p.y, (0.0, -0.57), wide + 0.06, 0.19)
    return [Part(handle), Part(body, textured=True), Part(rim, "light"), Part(opening, "dark")]


def umbrella(p: Plane, draws: Draws) -> list[Part]:
    """A scalloped canopy on a long shaft with a hook."""
    half, side = p.thin(0.032), 1 if draws.chance(0.5) else -1
    hook = bow((0.0, 0.78), (0.0, 1.04), (0.2 * side, 0.92), 3)
    shaft = join(stroke(p.x, p.y, (0.0, -0.95), (0.0, 0.78), half), path(p.x, p.y, hook, half))
    dome = cut(ellipse(p.x, p.y, (0.0, 0.05), 0.9, draws.number(0.72, 0.86)), 0.05 - p.y)
    scallops = ellipse(np.abs(np.abs(p.x) - 0.3) - 0.15, p.y, (0.15, 0.08), 0.3, 0.17)
    return [Part(shaft, "dark"), Part(cut(dome, scallops), textured=True)]


def wheel(p: Plane, draws: Draws) -> list[Part]:
    """A rim with thin spokes and a hub; one sees through it."""
    phase, count, half = draws.number(), 3 + draws.whole(3), p.thin(0.03)
    across = [direction(phase + k / count / 2) for k in range(count)]
    spokes = join(*(stroke(p.x, p.y, (-0.78 * dx, -0.78 * dy), (0.78 * dx, 0.78 * dy), half) for dx, dy in across))
    tyre = ring(p.x, p.y, (0.0, 0.0), 0.84, draws.number(0.11, 0.15))
    hub = disc(p.x, p.y, (0.0, 0.0), 0.17)
    return [Part(spokes, "light"), Part(tyre, textured=True), Part(hub, "accent")]


def chair(p: Plane, draws: Draws) -> list[Part]:
    """A seat on four thin legs, with a back of slats."""
    half, back = p.thin(0.045), draws.number(-0.98, -0.8)
    left, right, lean = -0.46, 0.42, draws.number(0.02, 0.14)
    legs = join(
        stroke(p.x, p.y, (left, 0.15), (left - 0.08, 0.98), half),
        stroke(p.x, p.y, (right, 0.15), (right + 0.08, 0.98), half),
        stroke(p.x, p.y, (left + 0.24, 0.1), (left + 0.22, 0.76), half),
        stroke(p.x, p.y, (right - 0.18, 0.1), (right - 0.16, 0.76), half),
        stroke(p.x, p.y, (left, 0.1), (left - lean, back), half),
        stroke(p.x, p.y, (right - 0.1, 0.0), (right - 0.1 - lean, back), half),
    )
    middle = (left + right - 0.1) / 2 - lean
    slats = join(
        box(p.x, p.y, (middle, back + 0.12), 0.42, 0.11, 0.04),
        box(p.x, p.y, (middle + 0.02, back + 0.46), 0.4, 0.09, 0.04),
    )
    seat = convex(p.x, p.y, [(left - 0.02, -0.06), (right, -0.06), (right + 0.14, 0.22), (left - 0.1, 0.22)], 0.03)
    return [Part(legs, "dark"), Part(join(slats, seat), textured=True)]


def kite(p: Plane, draws: Draws) -> list[Part]:
    """A kite with a long tail that bears bows."""
    waves = draws.number(0.7, 1.1) * (1 if draws.chance(0.5) else -1)
    points = sway((0.0, 0.3), (draws.number(-0.2, 0.2), 1.02), 0.28, waves, 6)
    tail = path(p.x, p.y, points, p.thin(0.026))
    bows = join(*(stroke(p.x, p.y, (x - 0.1, y + 0.03), (x + 0.1, y - 0.03), p.thin(0.045)) for x, y in points[2::2]))
    wide = draws.number(0.5, 0.64)
    sail = convex(p.x, p.y, [(0.0, -1.0), (wide, -0.42), (0.0, 0.36), (-wide, -0.42)])
    return [Part(tail, "dark"), Part(bows, "accent"), Part(sail, textured=True)]


def key(p: Plane, draws: Draws) -> list[Part]:
    """A round bow with a hole, a long shaft and some teeth."""
    shaft = stroke(p.x, p.y, (0.0, -0.3), (0.0, 0.98), p.thin(0.075))
    teeth = [box(p.x, p.y, (0.15, at), draws.number(0.13, 0.24), p.thin(0.055), 0.01) for at in (0.5, 0.7, 0.9)]
    grip = cut(disc(p.x, p.y, (0.0, -0.55), 0.44), disc(p.x, p.y, (0.0, -0.62), draws.number(0.16, 0.26)))
    return [Part(join(shaft, *teeth, grip), textured=True)]


def balloon(p: Plane, draws: Draws) -> list[Part]:
    """A balloon with its knot and a curling string."""
    waves = draws.number(0.8, 1.5) * (1 if draws.chance(0.5) else -1)
    string = path(p.x, p.y, sway((0.0, 0.28), (0.0, 1.06), 0.2, waves, 7), p.thin(0.024))
    knot = convex(p.x, p.y, [(0.0, 0.2), (0.1, 0.36), (-0.1, 0.36)])
    skin = ellipse(p.x, p.y - 0.12 * p.x * p.x, (0.0, -0.38), draws.number(0.5, 0.58), 0.64)
    return [Part(string, "dark"), Part(knot, "accent"), Part(skin, textured=True)]


def guitar(p: Plane, draws: Draws) -> list[Part]:
    """A waisted body with a sound hole, and a long neck with pegs."""
    neck = box(p.x, p.y, (0.0, -0.4), 0.065, 0.52, 0.02)
    pegs = join(*(stroke(p.x, p.y, (-0.17, at), (0.17, at), p.thin(0.03)) for at in (-0.96, -0.84)))
    head = box(p.x, p.y, (0.0, -0.9), 0.1, 0.13, 0.03)
    low = ellipse(p.x, p.y, (0.0, 0.58), draws.number(0.46, 0.54), 0.4)
    high = ellipse(p.x, p.y, (0.0, 0.1), draws.number(0.32, 0.4), 0.3)
    hole = disc(p.x, p.y, (0.0, 0.22), 0.13)
    return [
        Part(join(low, high), textured=True),
        Part(hole, "dark"),
        Part(join(neck, head), "dark"),
        Part(pegs, "light"),
    ]


def lamp(p: Plane, draws: Draws) -> list[Part]:
    """A wide shade on a thin pole with a foot, and a chain to pull."""
    pole = stroke(p.x, p.y, (0.0, -0.1), (0.0, 0.92), p.thin(0.038))
    foot = cut(ellipse(p.x, p.y, (0.0, 0.98), draws.number(0.34, 0.46), 0.14), 0.98 - p.y)
    chain = join(
        stroke(p.x, p.y, (0.24, -0.1), (0.24, 0.24), p.thin(0.02)), disc(p.x, p.y, (0.24, 0.26), p.thin(0.045))
    )
    top, wide = draws.number(0.22, 0.36), draws.number(0.62, 0.74)
    shade = convex(p.x, p.y, [(-top, -0.9), (top, -0.9), (wide, -0.12), (-wide, -0.12)], 0.02)
    return [Part(join(pole, foot, chain), "dark"), Part(shade, textured=True)]


def windmill(p: Plane, draws: Draws) -> list[Part]:
    """A tapered tower with a cap and four latticed sails."""
    tower = convex(p.x, p.y, [(-0.22, -0.28), (0.22, -0.28), (draws.number(0.36, 0.44), 0.98), (-0.4, 0.98)])
    door = cut(box(p.x, p.y, (0.0, 0.86), 0.1, 0.2, 0.08), 0.96 - p.y)
    cap = cut(disc(p.x, p.y, (0.0, -0.28), 0.27), -0.24 - p.y)
    phase, sails = draws.number(0.03, 0.22), []
    for k in range(4):
        dx, dy = direction(phase + k / 4)
        far, side = (0.78 * dx, 0.78 * dy - 0.3), (-0.14 * dy, 0.14 * dx)
        sails.append(stroke(p.x, p.y, (0.0, -0.3), far, p.thin(0.032)))
        near = (0.25 * dx + side[0], 0.25 * dy - 0.3 + side[1])
        sails.append(stroke(p.x, p.y, near, (far[0] + side[0], far[1] + side[1]), p.thin(0.045)))
    return [Part(tower, textured=True), Part(door, "dark"), Part(cap, "accent"), Part(join(*sails), "light")]
