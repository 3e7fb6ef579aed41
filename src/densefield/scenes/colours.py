"""Random colours 0…255 of a scene, with moderate contrast."""

from __future__ import annotations

import math
from collections.abc import Sequence

from numpy.random import Generator

Colour = tuple[float, float, float]

MIN_CONTRAST, MAX_CONTRAST = 46.0, 105.0  # distance of an object's colour from that of the background
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
    """The Euclidean distance of two colours."""
    return math.sqrt(sum((p - q) * (p - q) for p, q in zip(a, b, strict=True)))


def towards(a: Colour, b: Colour, share: float) -> Colour:
    """Interpolate between a (share 0) and b (share 1), or extrapolate."""
    red, green, blue = (p + (q - p) * share for p, q in zip(a, b, strict=True))
    return red, green, blue


def any_colour(rng: Generator, hue: float | None = None) -> Colour:
    """A colour of any hue, or near this one, of medium saturation."""
    at = rng.random() if hue is None else hue + rng.uniform(-0.1, 0.1) + rng.uniform(-0.1, 0.1)
    return mixed_colour(at % 1.0, rng.uniform(0.15, 0.7), rng.uniform(0.35, 0.9))


def background_colour(rng: Generator) -> Colour:
    """A colour of any hue, mostly paler than those of objects."""
    return mixed_colour(rng.random(), rng.uniform(0.08, 0.5), rng.uniform(0.35, 0.85))


def object_colour(rng: Generator, hue: float, background: Colour, others: Sequence[Colour]) -> Colour:
    """A colour near the hue with probability ½, of moderate contrast to the background, different from the others."""
    best, gap = background, -1.0
    for _ in range(_TRIES):
        colour = any_colour(rng, hue if rng.random() < 0.5 else None)
        reach, limit = distance(colour, background), rng.uniform(MIN_CONTRAST, MAX_CONTRAST)
        if reach > limit:
            colour = towards(background, colour, limit / reach)
        to_others = (distance(colour, other) / (0.6 * MIN_CONTRAST) for other in others)
        apart = min([min(reach, limit) / MIN_CONTRAST, *to_others])
        if apart > gap:
            best, gap = colour, apart
        if gap >= 1:
            break
    return best
