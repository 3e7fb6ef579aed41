"""Shapes of plants, with their stems, twigs and spines."""

from __future__ import annotations

from densefield.scenes.distance import (
    bow,
    cut,
    direction,
    disc,
    ellipse,
    join,
    path,
    stroke,
)
from densefield.scenes.random import Draws
from densefield.scenes.shapes import Part, Plane


def mushroom(p: Plane, draws: Draws) -> list[Part]:
    """A domed cap on a slender stem with a ring."""
    lean, half = draws.number(-0.12, 0.12), draws.number(0.1, 0.16)
    stem = path(p.x, p.y, bow((lean, 0.92), (-lean, 0.4), (0.0, -0.1), 3), half + 0.04, half)
    skirt = stroke(p.x, p.y, (-half - 0.1, 0.28), (half + 0.1, 0.28), p.thin(0.035))
    cap = cut(ellipse(p.x, p.y, (0.0, 0.0), draws.number(0.72, 0.88), draws.number(0.7, 0.85)), 0.02 - p.y)
    return [Part(join(stem, skirt), "light"), Part(cap, textured=True)]


def tree(p: Plane, draws: Draws) -> list[Part]:
    """A crown of round tufts on a trunk with bare lower branches."""
    sway = draws.number(-0.1, 0.1)
    trunk = path(p.x, p.y, bow((sway, 0.98), (0.0, 0.4), (0.0, -0.1), 3), 0.13, 0.07)
    half = p.thin(0.035)
    branches = join(
        path(p.x, p.y, [(0.0, 0.45), (-0.3, 0.22), (-0.42, 0.0)], half),
        path(p.x, p.y, [(0.0, 0.36), (0.3, 0.16), (0.45, -0.02)], half),
    )
    tufts = [disc(p.x, p.y, (0.0, -0.4), 0.42)]
    for k in range(6):
        dx, dy = direction(k / 6 + draws.number(-0.04, 0.04))
        tufts.append(disc(p.x, p.y, (0.46 * dx, -0.38 + 0.34 * dy), draws.number(0.2, 0.32)))
    return [Part(join(trunk, branches), "dark"), Part(join(*tufts), textured=True)]


def flower(p: Plane, draws: Draws) -> list[Part]:
    """Round petals about a heart, on a thin bent stem with a leaf."""
    bend = draws.number(-0.3, 0.3)
    stem = path(p.x, p.y, bow((bend, 1.0), (-bend / 2, 0.5), (0.0, -0.3)), p.thin(0.035))
    leaf = ellipse(p.x - 0.5 * p.y, p.y, (-0.1, 0.62), 0.26, 0.1)
    phase, count = draws.number(), 5 + draws.whole(3)
    around = [direction(phase + k / count) for k in range(count)]
    petals = join(
        *(stroke(p.x, p.y, (0.14 * dx, 0.14 * dy - 0.4), (0.42 * dx, 0.42 * dy - 0.4), 0.08, 0.16) for dx, dy in around)
    )
    heart = disc(p.x, p.y, (0.0, -0.4), 0.17)
    return [Part(join(stem, leaf), "dark"), Part(petals, textured=True), Part(heart, "accent")]


def cactus(p: Plane, draws: Draws) -> list[Part]:
    """A column with two raised arms, and spines all around."""
    spines = []
    for k in range(9):
        at, side = 0.85 - 0.19 * k, 1 if k % 2 else -1
        spines.append(stroke(p.x, p.y, (0.15 * side, at), (0.36 * side, at - draws.number(0.02, 0.12)), p.thin(0.018)))
    low, high = draws.number(0.1, 0.35), draws.number(-0.2, 0.1)
    column = stroke(p.x, p.y, (0.0, 0.8), (0.0, -0.72), 0.22)
    arms = join(
        path(p.x, p.y, [(0.0, low), (-0.52, low), (-0.58, low - 0.5)], 0.13),
        path(p.x, p.y, [(0.0, high), (0.48, high), (0.55, high - 0.45)], 0.12),
    )
    return [Part(join(*spines), "light"), Part(join(column, arms), textured=True)]
