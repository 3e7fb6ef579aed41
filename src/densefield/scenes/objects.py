"""Objects upon a scene: placed, shaded, with a shadow, and labelled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densefield.scenes.classes import SceneClass
from densefield.scenes.colours import Colour, towards
from densefield.scenes.distance import Floats, direction, join, ramp
from densefield.scenes.random import Draws
from densefield.scenes.shapes import Part, Plane, Tone

REACH = 1.2  # no shape is larger, in its own frame
DARK, LIGHT = (38.0, 34.0, 40.0), (236.0, 232.0, 222.0)


@dataclass(frozen=True)
class Light:
    """Where light comes from (a unit vector of x and y), how deep shadows are and how soft borders, in pixels."""

    toward: tuple[float, float]
    shadow: float
    softness: float


@dataclass(frozen=True)
class Place:
    """Where an object is, in pixels, and its radius."""

    x: float
    y: float
    radius: float


def draw_object(
    canvas: Floats,  # (3, H, W)
    label: npt.NDArray[np.uint8],  # (H, W)
    number: int,
    kind: SceneClass,
    place: Place,
    colour: Colour,
    light: Light,
    draws: Draws,
) -> None:
    """Draws an object, its shadow and its label over what is there."""
    rows, columns = window(place, (label.shape[0], label.shape[1]), light)
    plane = _plane(place, rows, columns, kind.tilt, draws)
    parts = kind.shape(plane, draws)
    pattern = kind.texture(plane.x, plane.y, draws) * draws.number(11.0, 19.0)
    colours = _tones(colour, draws)
    whole = join(*(part.distance for part in parts)) * place.radius  # in pixels from here on
    spot = canvas[:, rows, columns]
    _cast_shadow(spot, whole, place.radius, light)
    for part in parts:
        _paint(spot, part, colours[part.tone], pattern if part.textured else None, place.radius, light)
    label[rows, columns][whole < 0] = number


def window(place: Place, size: tuple[int, int], light: Light) -> tuple[slice, slice]:
    """The rows and columns that an object, its shadow and its soft border may touch."""
    reach = (REACH + 0.32) * place.radius + 2 * light.softness  # a shadow falls 0.32 radii beyond
    sides = []
    for middle, count in ((place.y, size[0]), (place.x, size[1])):
        sides.append(slice(min(max(int(middle - reach), 0), count), min(max(int(middle + reach) + 2, 0), count)))
    return sides[0], sides[1]


def _plane(place: Place, rows: slice, columns: slice, tilt: float, draws: Draws) -> Plane:
    """The object's own frame: leaning at random, and mirrored in half of the cases."""
    c, s = direction(draws.number(-tilt, tilt))
    c, s = c / place.radius, s / place.radius
    side = -1.0 if draws.chance(0.5) else 1.0
    x = np.arange(columns.start, columns.stop, dtype=np.float32) + (0.5 - place.x)
    y = (np.arange(rows.start, rows.stop, dtype=np.float32) + (0.5 - place.y))[:, None]
    return Plane(x * (c * side) + y * (s * side), y * c - x * s, 1 / place.radius)


def _tones(colour: Colour, draws: Draws) -> dict[Tone, Colour]:
    """The colours of the parts: the main one, and others related to it."""
    accent = towards(colour, (colour[1], colour[2], colour[0]), draws.number(0.15, 0.4))
    return {
        "main": colour,
        "accent": accent,
        "dark": towards(colour, DARK, draws.number(0.35, 0.55)),
        "light": towards(colour, LIGHT, draws.number(0.35, 0.55)),
    }


def _cast_shadow(spot: Floats, whole: Floats, radius: float, light: Light) -> None:
    """Darkens what lies on the side away from the light."""
    right, down = (round(-0.16 * radius * part) for part in light.toward)
    to, come = _shift(whole.shape, down, right)
    spot[:, to[0], to[1]] *= 1 - light.shadow * ramp(whole[come], 0.16 * radius, -0.1 * radius)


def _paint(spot: Floats, part: Part, colour: Colour, pattern: Floats | None, radius: float, light: Light) -> None:
    """Lays one part over the canvas: its colour, texture, and shading as if it were raised in its middle."""
    cover = np.clip(0.5 - part.distance * (radius / (2 * light.softness)), 0, 1)
    height = ramp(part.distance, 0.02, -0.22)
    shade = 6.0 * height if pattern is None else 6.0 * height + pattern
    right, down = (round(max(1.0, 0.05 * radius) * part) for part in light.toward)
    to, come = _shift(height.shape, down, right)
    shade[come] += 24.0 * (height[come] - height[to])  # slopes that face the light are brighter
    for channel in range(3):
        spot[channel] += (colour[channel] + shade - spot[channel]) * cover


def _shift(shape: tuple[int, ...], down: int, right: int) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """Where pixels of an array go to, and where they come from, when it is moved."""
    rows, columns = shape
    to = slice(max(down, 0), rows + min(down, 0)), slice(max(right, 0), columns + min(right, 0))
    come = slice(max(-down, 0), rows + min(-down, 0)), slice(max(-right, 0), columns + min(-right, 0))
    return to, come
