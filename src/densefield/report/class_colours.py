"""Colours of classes for light and dark pages: equally light, and neighbours far apart in hue."""

from __future__ import annotations

import math

HUE, STEP = 25.0, 137.5  # degrees: of the first class, and between classes (the golden angle)
LIGHTNESS, CHROMA = (0.72, 0.62, 0.80), 0.15  # of OKLCH


def class_colours(count: int) -> list[list[int]]:
    """The red, green and blue of each class.

    >>> class_colours(2)
    [[244, 123, 116], [0, 161, 106]]
    """
    return [_rgb(LIGHTNESS[n % len(LIGHTNESS)], CHROMA, math.radians(HUE + n * STEP)) for n in range(count)]


def _rgb(lightness: float, chroma: float, hue: float) -> list[int]:
    """OKLCH to sRGB, clipped (Ottosson, 2020)."""
    a, b = chroma * math.cos(hue), chroma * math.sin(hue)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )
    return [round(255 * _gamma(min(max(value, 0.0), 1.0))) for value in linear]


def _gamma(value: float) -> float:
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
