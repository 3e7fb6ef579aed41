"""Shapes of the classes: plants, animals and things, with their thin parts."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from densefield.datasets.sampling import random_integer
from densefield.scenes.geometry import (
    Part,
    Plane,
    blend,
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
    wavy,
)


def mushroom(p: Plane, rng: Generator) -> list[Part]:
    """A domed cap on a slender stem with a ring."""
    lean, half = rng.uniform(-0.12, 0.12), rng.uniform(0.1, 0.16)
    stem = path(p.x, p.y, bow((lean, 0.92), (-lean, 0.4), (0.0, -0.1), 3), half + 0.04, half)
    skirt = stroke(p.x, p.y, (-half - 0.1, 0.28), (half + 0.1, 0.28), p.thin(0.035))
    cap = cut(ellipse(p.x, p.y, (0.0, 0.0), rng.uniform(0.72, 0.88), rng.uniform(0.7, 0.85)), 0.02 - p.y)
    return [Part(join(stem, skirt), "light"), Part(cap, textured=True)]


def tree(p: Plane, rng: Generator) -> list[Part]:
    """A crown of round tufts on a trunk with bare lower branches."""
    sway = rng.uniform(-0.1, 0.1)
    trunk = path(p.x, p.y, bow((sway, 0.98), (0.0, 0.4), (0.0, -0.1), 3), 0.13, 0.07)
    half = p.thin(0.035)
    branches = join(
        path(p.x, p.y, [(0.0, 0.45), (-0.3, 0.22), (-0.42, 0.0)], half),
        path(p.x, p.y, [(0.0, 0.36), (0.3, 0.16), (0.45, -0.02)], half),
    )
    tufts = [disc(p.x, p.y, (0.0, -0.4), 0.42)]
    for k in range(6):
        dx, dy = direction(k / 6 + rng.uniform(-0.04, 0.04))
        tufts.append(disc(p.x, p.y, (0.46 * dx, -0.38 + 0.34 * dy), rng.uniform(0.2, 0.32)))
    return [Part(join(trunk, branches), "dark"), Part(join(*tufts), textured=True)]


def flower(p: Plane, rng: Generator) -> list[Part]:
    """Round petals about a heart, on a thin bent stem with a leaf."""
    bend = rng.uniform(-0.3, 0.3)
    stem = path(p.x, p.y, bow((bend, 1.0), (-bend / 2, 0.5), (0.0, -0.3)), p.thin(0.035))
    leaf = ellipse(p.x - 0.5 * p.y, p.y, (-0.1, 0.62), 0.26, 0.1)
    phase, count = rng.random(), 5 + random_integer(rng, 3)
    around = [direction(phase + k / count) for k in range(count)]
    petals = join(
        *(stroke(p.x, p.y, (0.14 * dx, 0.14 * dy - 0.4), (0.42 * dx, 0.42 * dy - 0.4), 0.08, 0.16) for dx, dy in around)
    )
    heart = disc(p.x, p.y, (0.0, -0.4), 0.17)
    return [Part(join(stem, leaf), "dark"), Part(petals, textured=True), Part(heart, "accent")]


def cactus(p: Plane, rng: Generator) -> list[Part]:
    """A column with two raised arms, and spines all around."""
    spines = []
    for k in range(9):
        at, side = 0.85 - 0.19 * k, 1 if k % 2 else -1
        spines.append(stroke(p.x, p.y, (0.15 * side, at), (0.36 * side, at - rng.uniform(0.02, 0.12)), p.thin(0.018)))
    low, high = rng.uniform(0.1, 0.35), rng.uniform(-0.2, 0.1)
    column = stroke(p.x, p.y, (0.0, 0.8), (0.0, -0.72), 0.22)
    arms = join(
        path(p.x, p.y, [(0.0, low), (-0.52, low), (-0.58, low - 0.5)], 0.13),
        path(p.x, p.y, [(0.0, high), (0.48, high), (0.55, high - 0.45)], 0.12),
    )
    return [Part(join(*spines), "light"), Part(join(column, arms), textured=True)]


def fish(p: Plane, rng: Generator) -> list[Part]:
    """A lens with a forked tail, fins and an eye, swimming to the right."""
    bend, tail = rng.uniform(-0.12, 0.12), rng.uniform(0.26, 0.38)
    y = p.y - bend * p.x * p.x
    body = ellipse(p.x, y, (0.12, 0.0), 0.72, rng.uniform(0.32, 0.42))
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


def beetle(p: Plane, rng: Generator) -> list[Part]:
    """Wing cases, a head, six jointed legs and two feelers, seen from above."""
    half, x = p.thin(0.035), np.abs(p.x)  # left and right are alike
    legs = []
    for start, knee in ((-0.3, -0.5), (0.0, -0.05), (0.32, 0.42)):
        wide = rng.uniform(0.58, 0.7)
        foot = knee + rng.uniform(0.12, 0.26) * (1 if knee > -0.3 else -1)
        legs.append(path(x, p.y, [(0.3, start), (wide, knee), (wide + 0.14, foot)], half))
    spread = rng.uniform(0.2, 0.45)
    feelers = path(x, p.y, bow((0.07, -0.72), (0.1, -1.0), (spread, -1.02), 3), p.thin(0.028))
    head = ellipse(p.x, p.y, (0.0, -0.62), 0.24, 0.18)
    body = ellipse(p.x, p.y, (0.0, 0.08), rng.uniform(0.42, 0.5), 0.64)
    return [Part(join(*legs, feelers), "dark"), Part(head, "accent"), Part(body, textured=True)]


def bird(p: Plane, rng: Generator) -> list[Part]:
    """A standing bird in profile: beak, wing, long tail and thin legs."""
    lift, stride = rng.uniform(-0.1, 0.1), rng.uniform(0.05, 0.2)
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


def snail(p: Plane, rng: Generator) -> list[Part]:
    """A coiled shell on a long foot, with two eye stalks."""
    reach = rng.uniform(0.0, 0.16)
    foot = stroke(p.x, p.y, (-0.85, 0.64), (0.5, 0.58), 0.06, 0.16)
    neck = stroke(p.x, p.y, (0.45, 0.55), (0.74, 0.14 - reach), 0.17, 0.12)
    half, top = p.thin(0.026), -0.34 - reach
    stalks = join(
        stroke(p.x, p.y, (0.72, 0.1), (0.6, top), half),
        stroke(p.x, p.y, (0.76, 0.1), (0.95, top + 0.06), half),
        disc(p.x, p.y, (0.6, top), max(0.05, p.pixel)),
        disc(p.x, p.y, (0.95, top + 0.06), max(0.05, p.pixel)),
    )
    shell = disc(p.x, p.y, (-0.12, -0.02), rng.uniform(0.5, 0.6))
    return [Part(join(blend(foot, neck, 0.2), stalks), "light"), Part(shell, textured=True)]


def starfish(p: Plane, rng: Generator) -> list[Part]:
    """Five bent arms."""
    arms, phase = None, rng.random()
    for k in range(5):
        dx, dy = direction(phase + k / 5)
        ex, ey = direction(phase + k / 5 + rng.uniform(-0.045, 0.045))
        far = rng.uniform(0.88, 1.02)
        arm = path(p.x, p.y, [(0.0, 0.0), (0.5 * dx, 0.5 * dy), (far * ex, far * ey)], 0.3, 0.055)
        arms = arm if arms is None else blend(arms, arm, 0.12)
    assert arms is not None
    return [Part(arms, textured=True)]


def jellyfish(p: Plane, rng: Generator) -> list[Part]:
    """A bell with wavy tentacles."""
    tentacles, waves = [], rng.uniform(0.7, 1.3) * (1 if rng.random() < 0.5 else -1)
    for k in range(6):
        end = 0.22 * (k - 2.5) + rng.uniform(-0.06, 0.06), rng.uniform(0.7, 0.95)
        points = wavy((0.184 * (k - 2.5), -0.08), end, 0.1, waves, 6)
        tentacles.append(path(p.x, p.y, points, p.thin(0.036), p.thin(0.022)))
    bell = cut(ellipse(p.x, p.y, (0.0, -0.1), 0.66, rng.uniform(0.68, 0.82)), -(p.y + 0.02))
    return [Part(join(*tentacles), "light"), Part(bell, textured=True)]


def cup(p: Plane, rng: Generator) -> list[Part]:
    """A mug with a handle to the right and a dark opening."""
    wide, narrow = rng.uniform(0.46, 0.56), rng.uniform(0.36, 0.46)
    handle = ring(p.x, p.y, (wide - 0.02, 0.05), rng.uniform(0.26, 0.34), p.thin(0.05))
    sides = [(-wide, -0.56), (wide, -0.56), (narrow, 0.66), (-narrow, 0.66)]
    body = convex(p.x, p.y, sides, 0.06)
    opening = ellipse(p.x, p.y, (0.0, -0.56), wide - 0.02, 0.14)
    rim = ellipse(p.x, p.y, (0.0, -0.57), wide + 0.06, 0.19)
    return [Part(handle), Part(body, textured=True), Part(rim, "light"), Part(opening, "dark")]


def umbrella(p: Plane, rng: Generator) -> list[Part]:
    """A scalloped canopy on a long shaft with a hook."""
    half, side = p.thin(0.032), 1 if rng.random() < 0.5 else -1
    hook = bow((0.0, 0.78), (0.0, 1.04), (0.2 * side, 0.92), 3)
    shaft = join(stroke(p.x, p.y, (0.0, -0.95), (0.0, 0.78), half), path(p.x, p.y, hook, half))
    dome = cut(ellipse(p.x, p.y, (0.0, 0.05), 0.9, rng.uniform(0.72, 0.86)), 0.05 - p.y)
    scallops = ellipse(np.abs(np.abs(p.x) - 0.3) - 0.15, p.y, (0.15, 0.08), 0.3, 0.17)
    return [Part(shaft, "dark"), Part(cut(dome, scallops), textured=True)]


def wheel(p: Plane, rng: Generator) -> list[Part]:
    """A rim with thin spokes and a hub; one sees through it."""
    phase, count, half = rng.random(), 3 + random_integer(rng, 3), p.thin(0.03)
    across = [direction(phase + k / count / 2) for k in range(count)]
    spokes = join(*(stroke(p.x, p.y, (-0.78 * dx, -0.78 * dy), (0.78 * dx, 0.78 * dy), half) for dx, dy in across))
    tyre = ring(p.x, p.y, (0.0, 0.0), 0.84, rng.uniform(0.11, 0.15))
    hub = disc(p.x, p.y, (0.0, 0.0), 0.17)
    return [Part(spokes, "light"), Part(tyre, textured=True), Part(hub, "accent")]


def chair(p: Plane, rng: Generator) -> list[Part]:
    """A seat on four thin legs, with a back of slats."""
    half, back = p.thin(0.045), rng.uniform(-0.98, -0.8)
    left, right, lean = -0.46, 0.42, rng.uniform(0.02, 0.14)
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


def kite(p: Plane, rng: Generator) -> list[Part]:
    """A kite with a long tail that bears bows."""
    waves = rng.uniform(0.7, 1.1) * (1 if rng.random() < 0.5 else -1)
    points = wavy((0.0, 0.3), (rng.uniform(-0.2, 0.2), 1.02), 0.28, waves, 6)
    tail = path(p.x, p.y, points, p.thin(0.026))
    bows = join(*(stroke(p.x, p.y, (x - 0.1, y + 0.03), (x + 0.1, y - 0.03), p.thin(0.045)) for x, y in points[2::2]))
    wide = rng.uniform(0.5, 0.64)
    sail = convex(p.x, p.y, [(0.0, -1.0), (wide, -0.42), (0.0, 0.36), (-wide, -0.42)])
    return [Part(tail, "dark"), Part(bows, "accent"), Part(sail, textured=True)]


def key(p: Plane, rng: Generator) -> list[Part]:
    """A round bow with a hole, a long shaft and some teeth."""
    shaft = stroke(p.x, p.y, (0.0, -0.3), (0.0, 0.98), p.thin(0.075))
    teeth = [box(p.x, p.y, (0.15, at), rng.uniform(0.13, 0.24), p.thin(0.055), 0.01) for at in (0.5, 0.7, 0.9)]
    grip = cut(disc(p.x, p.y, (0.0, -0.55), 0.44), disc(p.x, p.y, (0.0, -0.62), rng.uniform(0.16, 0.26)))
    return [Part(join(shaft, *teeth, grip), textured=True)]


def balloon(p: Plane, rng: Generator) -> list[Part]:
    """A balloon with its knot and a curling string."""
    waves = rng.uniform(0.8, 1.5) * (1 if rng.random() < 0.5 else -1)
    string = path(p.x, p.y, wavy((0.0, 0.28), (0.0, 1.06), 0.2, waves, 7), p.thin(0.024))
    knot = convex(p.x, p.y, [(0.0, 0.2), (0.1, 0.36), (-0.1, 0.36)])
    skin = ellipse(p.x, p.y - 0.12 * p.x * p.x, (0.0, -0.38), rng.uniform(0.5, 0.58), 0.64)
    return [Part(string, "dark"), Part(knot, "accent"), Part(skin, textured=True)]


def guitar(p: Plane, rng: Generator) -> list[Part]:
    """A waisted body with a sound hole, and a long neck with pegs."""
    neck = box(p.x, p.y, (0.0, -0.4), 0.065, 0.52, 0.02)
    pegs = join(*(stroke(p.x, p.y, (-0.17, at), (0.17, at), p.thin(0.03)) for at in (-0.96, -0.84)))
    head = box(p.x, p.y, (0.0, -0.9), 0.1, 0.13, 0.03)
    low = ellipse(p.x, p.y, (0.0, 0.58), rng.uniform(0.46, 0.54), 0.4)
    high = ellipse(p.x, p.y, (0.0, 0.1), rng.uniform(0.32, 0.4), 0.3)
    hole = disc(p.x, p.y, (0.0, 0.22), 0.13)
    return [
        Part(join(low, high), textured=True),
        Part(hole, "dark"),
        Part(join(neck, head), "dark"),
        Part(pegs, "light"),
    ]


def lamp(p: Plane, rng: Generator) -> list[Part]:
    """A wide shade on a thin pole with a foot, and a chain to pull."""
    pole = stroke(p.x, p.y, (0.0, -0.1), (0.0, 0.92), p.thin(0.038))
    foot = cut(ellipse(p.x, p.y, (0.0, 0.98), rng.uniform(0.34, 0.46), 0.14), 0.98 - p.y)
    chain = join(
        stroke(p.x, p.y, (0.24, -0.1), (0.24, 0.24), p.thin(0.02)), disc(p.x, p.y, (0.24, 0.26), p.thin(0.045))
    )
    top, wide = rng.uniform(0.22, 0.36), rng.uniform(0.62, 0.74)
    shade = convex(p.x, p.y, [(-top, -0.9), (top, -0.9), (wide, -0.12), (-wide, -0.12)], 0.02)
    return [Part(join(pole, foot, chain), "dark"), Part(shade, textured=True)]


def windmill(p: Plane, rng: Generator) -> list[Part]:
    """A tapered tower with a cap and four latticed sails."""
    tower = convex(p.x, p.y, [(-0.22, -0.28), (0.22, -0.28), (rng.uniform(0.36, 0.44), 0.98), (-0.4, 0.98)])
    door = cut(box(p.x, p.y, (0.0, 0.86), 0.1, 0.2, 0.08), 0.96 - p.y)
    cap = cut(disc(p.x, p.y, (0.0, -0.28), 0.27), -0.24 - p.y)
    phase, sails = rng.uniform(0.03, 0.22), []
    for k in range(4):
        dx, dy = direction(phase + k / 4)
        far, side = (0.78 * dx, 0.78 * dy - 0.3), (-0.14 * dy, 0.14 * dx)
        sails.append(stroke(p.x, p.y, (0.0, -0.3), far, p.thin(0.032)))
        near = (0.25 * dx + side[0], 0.25 * dy - 0.3 + side[1])
        sails.append(stroke(p.x, p.y, near, (far[0] + side[0], far[1] + side[1]), p.thin(0.045)))
    return [Part(tower, textured=True), Part(door, "dark"), Part(cap, "accent"), Part(join(*sails), "light")]
