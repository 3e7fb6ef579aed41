"""The classes of objects, and drawing objects with shading, shadow and label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from densefield.scenes import shapes, textures
from densefield.scenes.colours import Colour, towards
from densefield.scenes.geometry import Floats, Part, Plane, Shape, Tone, direction, join, ramp
from densefield.scenes.textures import Texture

REACH = 1.2  # no shape is larger, in its own frame
DARK, LIGHT = (38.0, 34.0, 40.0), (236.0, 232.0, 222.0)


@dataclass(frozen=True)
class SceneClass:
    """The shape, texture and most frequent hue (in turns, red is 0 and green ⅓) of a class."""

    name: str
    shape: Shape
    texture: Texture
    hue: float
    tilt: float = 0.06  # maximum rotation, in turns


BACKGROUND = "background"

# Datasets with fewer classes use the first ones, which differ most.
SCENE_CLASSES = (
    SceneClass("mushroom", shapes.mushroom, textures.large_spots, 0.02),
    SceneClass("fish", shapes.fish, textures.plates, 0.55),
    SceneClass("tree", shapes.tree, textures.foliage, 0.3),
    SceneClass("beetle", shapes.beetle, textures.seams, 0.42, tilt=0.5),
    SceneClass("cup", shapes.cup, textures.bands, 0.6),
    SceneClass("umbrella", shapes.umbrella, textures.gores, 0.92, tilt=0.12),
    SceneClass("wheel", shapes.wheel, textures.tread, 0.08, tilt=0.5),
    SceneClass("kite", shapes.kite, textures.quarters, 0.14, tilt=0.14),
    SceneClass("snail", shapes.snail, textures.coil, 0.09),
    SceneClass("chair", shapes.chair, textures.grain, 0.07),
    SceneClass("flower", shapes.flower, textures.rays, 0.85),
    SceneClass("starfish", shapes.starfish, textures.small_spots, 0.05),
    SceneClass("bird", shapes.bird, textures.chevrons, 0.58),
    SceneClass("lamp", shapes.lamp, textures.pleats, 0.15),
    SceneClass("windmill", shapes.windmill, textures.bricks, 0.04),
    SceneClass("jellyfish", shapes.jellyfish, textures.marble, 0.78, tilt=0.14),
    SceneClass("cactus", shapes.cactus, textures.ribs, 0.36),
    SceneClass("guitar", shapes.guitar, textures.year_rings, 0.1, tilt=0.2),
    SceneClass("balloon", shapes.balloon, textures.shine, 0.98, tilt=0.08),
    SceneClass("key", shapes.key, textures.brushed, 0.13, tilt=0.5),
)


@dataclass(frozen=True)
class Light:
    """The direction of the light (a unit vector), the strength of shadows, and the softness of borders in pixels."""

    toward: tuple[float, float]
    shadow: float
    softness: float


@dataclass(frozen=True)
class Place:
    """The centre and radius of an object, in pixels."""

    x: float
    y: float
    radius: float


def draw_object(
    canvas: Floats,  # (3, H, W)
    labels: npt.NDArray[np.uint8],  # (H, W)
    number: int,
    kind: SceneClass,
    place: Place,
    colour: Colour,
    light: Light,
    rng: Generator,
) -> None:
    """Draw an object, its shadow and its label over the canvas."""
    rows, columns = window(place, (labels.shape[0], labels.shape[1]), light)
    plane = _plane(place, rows, columns, kind.tilt, rng)
    parts = kind.shape(plane, rng)
    pattern = kind.texture(plane.x, plane.y, rng) * rng.uniform(11.0, 19.0)
    colours = _tones(colour, rng)
    figure = join(*(part.distance for part in parts)) * place.radius  # in pixels from here on
    spot = canvas[:, rows, columns]
    _cast_shadow(spot, figure, place.radius, light)
    for part in parts:
        _paint(spot, part, colours[part.tone], pattern if part.textured else None, place.radius, light)
    labels[rows, columns][figure < 0] = number


def window(place: Place, size: tuple[int, int], light: Light) -> tuple[slice, slice]:
    """The rows and columns that an object, its shadow and its soft border may cover."""
    reach = (REACH + 0.32) * place.radius + 2 * light.softness  # a shadow falls 0.32 radii beyond
    sides = []
    for middle, count in ((place.y, size[0]), (place.x, size[1])):
        sides.append(slice(min(max(int(middle - reach), 0), count), min(max(int(middle + reach) + 2, 0), count)))
    return sides[0], sides[1]


def _plane(place: Place, rows: slice, columns: slice, tilt: float, rng: Generator) -> Plane:
    """The object's own frame: rotated at random, and mirrored with probability ½."""
    c, s = direction(rng.uniform(-tilt, tilt))
    c, s = c / place.radius, s / place.radius
    side = -1.0 if rng.random() < 0.5 else 1.0
    x = np.arange(columns.start, columns.stop, dtype=np.float32) + (0.5 - place.x)
    y = (np.arange(rows.start, rows.stop, dtype=np.float32) + (0.5 - place.y))[:, None]
    return Plane(x * (c * side) + y * (s * side), y * c - x * s, 1 / place.radius)


def _tones(colour: Colour, rng: Generator) -> dict[Tone, Colour]:
    """The colours of the parts: the main colour, and others derived from it."""
    accent = towards(colour, (colour[1], colour[2], colour[0]), rng.uniform(0.15, 0.4))
    return {
        "main": colour,
        "accent": accent,
        "dark": towards(colour, DARK, rng.uniform(0.35, 0.55)),
        "light": towards(colour, LIGHT, rng.uniform(0.35, 0.55)),
    }


def _cast_shadow(spot: Floats, figure: Floats, radius: float, light: Light) -> None:
    """Darken the side away from the light."""
    right, down = (round(-0.16 * radius * part) for part in light.toward)
    to, source = _shift(figure.shape, down, right)
    spot[:, to[0], to[1]] *= 1 - light.shadow * ramp(figure[source], 0.16 * radius, -0.1 * radius)


def _paint(spot: Floats, part: Part, colour: Colour, pattern: Floats | None, radius: float, light: Light) -> None:
    """Draw one part over the canvas: colour, texture, and shading as if its middle were raised."""
    cover = np.clip(0.5 - part.distance * (radius / (2 * light.softness)), 0, 1)
    height = ramp(part.distance, 0.02, -0.22)
    shade = 6.0 * height if pattern is None else 6.0 * height + pattern
    right, down = (round(max(1.0, 0.05 * radius) * part) for part in light.toward)
    to, source = _shift(height.shape, down, right)
    shade[source] += 24.0 * (height[source] - height[to])  # slopes that face the light are brighter
    for channel in range(3):
        spot[channel] += (colour[channel] + shade - spot[channel]) * cover


def _shift(shape: tuple[int, ...], down: int, right: int) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """Slices of the target and of the source when an array is shifted."""
    rows, columns = shape
    to = slice(max(down, 0), rows + min(down, 0)), slice(max(right, 0), columns + min(right, 0))
    source = slice(max(-down, 0), rows + min(-down, 0)), slice(max(-right, 0), columns + min(-right, 0))
    return to, source
