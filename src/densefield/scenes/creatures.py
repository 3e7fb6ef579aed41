"""Shapes of animals, with their legs, feelers and fins."""

from __future__ import annotations

import numpy as np

from densefield.scenes.distance import (
    blend,
    bow,
    convex,
    cut,
    direction,
    disc,
    ellipse,
    join,
    path,
    stroke,
    sway,
)
from densefield.scenes.random import Draws
from densefield.scenes.shapes import Part, Plane


def fish(p: Plane, draws: Draws) -> list[Part]:
    """A lens with a forked tail, fins and an eye, swimming to the right."""
    bend, tail = draws.number(-0.12, 0.12), draws.number(0.26, 0.38)
    y = p.y - bend * p.x * p.x
    body = ellipse(p.x, y, (0.12, 0.0), 0.72, draws.number(0.32, 0.42))
    fork = join(
        stroke(p.x, y, (-0.5, 0.0), (-0.92, -tail), 0.07, 0.035),
        stroke(p.x, y, (-0.5, 0.0), (-0.92, tail), 0.07, 0.035),
    )
    fins = join(
        path(p.x, y, bow((0.25, -0.3), (-0.05, -0.62), (-0.22, -0.3)), p.thin(0.035)),
        stroke(p.x, y, (0.05, 0.3), (-0.2, 0.6), 0.07, p.thin(0.02)),
    )
    eye = disc(p.x, y, (0.58, -0.08), max(0.055, p.pixel))
    return [Part(join(fork, fins), "accent"), Part(body, textured=True), Part(eye, "dark")]


def beetle(p: Plane, draws: Draws) -> list[Part]:
    """Wing cases, a head, six jointed legs and two feelers, seen from above."""
    half, x = p.thin(0.035), np.abs(p.x)  # left and right are alike
    legs = []
    for start, knee in ((-0.3, -0.5), (0.0, -0.05), (0.32, 0.42)):
        wide = draws.number(0.58, 0.7)
        foot = knee + draws.number(0.12, 0.26) * (1 if knee > -0.3 else -1)
        legs.append(path(x, p.y, [(0.3, start), (wide, knee), (wide + 0.14, foot)], half))
    spread = draws.number(0.2, 0.45)
    feelers = path(x, p.y, bow((0.07, -0.72), (0.1, -1.0), (spread, -1.02), 3), p.thin(0.028))
    head = ellipse(p.x, p.y, (0.0, -0.62), 0.24, 0.18)
    body = ellipse(p.x, p.y, (0.0, 0.08), draws.number(0.42, 0.5), 0.64)
    return [Part(join(*legs, feelers), "dark"), Part(head, "accent"), Part(body, textured=True)]


def bird(p: Plane, draws: Draws) -> list[Part]:
    """A standing bird in profile: beak, wing, long tail and thin legs."""
    lift, stride = draws.number(-0.1, 0.1), draws.number(0.05, 0.2)
    half = p.thin(0.03)
    legs = join(
        path(p.x, p.y, [(0.0, 0.3), (-stride, 0.62), (0.06 - stride, 0.95), (0.22 - stride, 0.97)], half),
        path(p.x, p.y, [(0.12, 0.3), (0.1 + stride, 0.6), (0.12 + stride, 0.95), (0.28 + stride, 0.97)], half),
    )
    tail = stroke(p.x, p.y, (-0.4, 0.0), (-0.98, 0.14 + lift), 0.12, 0.06)
    beak = convex(p.x, p.y, [(0.7, -0.62), (1.02, -0.46 + lift / 2), (0.68, -0.42)])
    body = ellipse(p.x, p.y, (0.0, 0.05), 0.56, 0.36)
    body = blend(body, disc(p.x, p.y, (0.5, -0.48), 0.26), 0.35)
    wing = ellipse(p.x + 0.3 * p.y, p.y, (-0.1, 0.02), 0.42, 0.2)
    eye = disc(p.x, p.y, (0.58, -0.54), max(0.045, 0.8 * p.pixel))
    return [
        Part(legs, "dark"),
        Part(join(tail, beak), "accent"),
        Part(body),
        Part(wing, "accent", textured=True),
        Part(eye, "dark"),
    ]


def snail(p: Plane, draws: Draws) -> list[Part]:
    """A coiled shell on a long foot, with two eye stalks."""
    reach = draws.number(0.0, 0.16)
    foot = stroke(p.x, p.y, (-0.85, 0.64), (0.5, 0.58), 0.06, 0.16)
    neck = stroke(p.x, p.y, (0.45, 0.55), (0.74, 0.14 - reach), 0.17, 0.12)
    half, top = p.thin(0.026), -0.34 - reach
    stalks = join(
        stroke(p.x, p.y, (0.72, 0.1), (0.6, top), half),
        stroke(p.x, p.y, (0.76, 0.1), (0.95, top + 0.06), half),
        disc(p.x, p.y, (0.6, top), max(0.05, p.pixel)),
        disc(p.x, p.y, (0.95, top + 0.06), max(0.05, p.pixel)),
    )
    shell = disc(p.x, p.y, (-0.12, -0.02), draws.number(0.5, 0.6))
    return [Part(join(blend(foot, neck, 0.2), stalks), "light"), Part(shell, textured=True)]


def starfish(p: Plane, draws: Draws) -> list[Part]:
    """Five bent arms."""
    arms, phase = None, draws.number()
    for k in range(5):
        dx, dy = direction(phase + k / 5)
        ex, ey = direction(phase + k / 5 + draws.number(-0.045, 0.045))
        far = draws.number(0.88, 1.02)
        arm = path(p.x, p.y, [(0.0, 0.0), (0.5 * dx, 0.5 * dy), (far * ex, far * ey)], 0.3, 0.055)
        arms = arm if arms is None else blend(arms, arm, 0.12)
    assert arms is not None
    return [Part(arms, textured=True)]


def jellyfish(p: Plane, draws: Draws) -> list[Part]:
    """A bell with wavy tentacles."""
    tentacles, waves = [], draws.number(0.7, 1.3) * (1 if draws.chance(0.5) else -1)
    for k in range(6):
        end = 0.22 * (k - 2.5) + draws.number(-0.06, 0.06), draws.number(0.7, 0.95)
        points = sway((0.184 * (k - 2.5), -0.08), end, 0.1, waves, 6)
        tentacles.append(path(p.x, p.y, points, p.thin(0.036), p.thin(0.022)))
    bell = cut(ellipse(p.x, p.y, (0.0, -0.1), 0.66, draws.number(0.68, 0.82)), -(p.y + 0.02))
    return [Part(join(*tentacles), "light"), Part(bell, textured=True)]
