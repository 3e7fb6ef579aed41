"""Colours of a scene: 0…255, near enough to each other to be soft, far enough to be told apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

from densefield.scenes.random import Draws

Colour = tuple[float, float, float]

LEAST, MOST = 46.0, 105.0  # how far an object's colour is from that of the background
_TRIES = 12


def mixed_colour(hue: float, saturation: float, value: float) -> Colour:
    """A colour of this hue (in turns, red is 0 and green ⅓), saturation and value, both 0…1.

    >>> mixed_colour(1 / 3, 1.0, 1.0)
    (0.0, 255.0, 0.0)
    """

    def channel(shift: float) -> float:
        k = (shift + hue * 6) % 6
        return 255 * value * (1 - saturation * max(0.0, min(k, 4 - k, 1.0)))

    return channel(5), channel(3), channel(1)


def distance(a: Colour, b: Colour) -> float:
    """How far two colours are from each other."""
    return math.sqrt(sum((p - q) * (p - q) for p, q in zip(a, b, strict=True)))


def towards(a: Colour, b: Colour, share: float) -> Colour:
    """A colour between a (at 0) and b (at 1), or beyond."""
    red, green, blue = (p + (q - p) * share for p, q in zip(a, b, strict=True))
    return red, green, blue


def any_colour(draws: Draws, hue: float | None = None) -> Colour:
    """A colour of any hue, or near this one; neither glaring nor grey."""
    at = draws.number() if hue is None else hue + draws.number(-0.1, 0.1) + draws.number(-0.1, 0.1)
    return mixed_colour(at % 1.0, draws.number(0.15, 0.7), draws.number(0.35, 0.9))


def background_colour(draws: Draws) -> Colour:
    """A colour of any hue, paler than those of objects for the most part."""
    return mixed_colour(draws.number(), draws.number(0.08, 0.5), draws.number(0.35, 0.85))


def object_colour(draws: Draws, hue: float, background: Colour, others: Sequence[Colour]) -> Colour:
    """A colour for an object: near its hue in half of the cases, soft against the background, unlike the others."""
    best, gap = background, -1.0
    for _ in range(_TRIES):
        colour = any_colour(draws, hue if draws.chance(0.5) else None)
        reach, limit = distance(colour, background), draws.number(LEAST, MOST)
        if reach > limit:
            colour = towards(background, colour, limit / reach)
        apart = min([min(reach, limit) / LEAST, *(distance(colour, other) / (0.6 * LEAST) for other in others)])
        if apart > gap:
            best, gap = colour, apart
        if gap >= 1:
            break
    return best
