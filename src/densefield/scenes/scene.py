"""Drawing a scene: background, objects, and the photo of them."""

from __future__ import annotations

import math
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from densefield.datasets.sample import Sample
from densefield.datasets.sampling import SCENES, random_generator, random_integer
from densefield.errors import InputError, InputTypeError
from densefield.scenes.background import draw_clutter, draw_ground, frame
from densefield.scenes.colours import Colour, background_colour, object_colour
from densefield.scenes.geometry import Floats, Point, direction
from densefield.scenes.objects import BACKGROUND, SCENE_CLASSES, Light, Place, draw_object

Size = tuple[int, int]

MIN_SIDE, MAX_SIDE = 96, 512  # pixels
MIN_CLASSES, MAX_CLASSES = 2, len(SCENE_CLASSES)


def draw_scene(seed: int, index: int, size: Size = (128, 128), object_classes: int = 10) -> Sample:
    """Draw a scene: an image and its labels, 0 for background and 1…object_classes for objects, none void.

    A scene depends only on the four arguments.

    Parameters
    ----------
    seed
        The random seed.
    index
        The number of the scene, from 0.
    size
        Rows and columns, each from 96 to 512.
    object_classes
        The number of classes without the background, from 2 to 20.

    >>> sample = draw_scene(seed=2026, index=7, size=(96, 128), object_classes=4)
    >>> sample.image.shape, sample.labels.shape, sample.id
    ((96, 128, 3), (96, 128), 'scene_000007')
    """
    seed, index = checked_integer(seed, "seed"), checked_integer(index, "index")
    size, object_classes = checked_size(size), checked_classes(object_classes)
    rng = random_generator(SCENES, seed, index)
    background = background_colour(rng)
    canvas = draw_ground(size, background, rng)
    draw_clutter(canvas, background, rng)
    labels = np.zeros(size, np.uint8)
    light = Light(direction(rng.uniform(0.55, 0.95)), rng.uniform(0.12, 0.32), rng.uniform(0.5, 0.9))
    colours: list[Colour] = []
    for place in _random_places(size, rng):
        number = random_integer(rng, object_classes)
        kind = SCENE_CLASSES[number]
        colour = object_colour(rng, kind.hue, background, colours)
        colours.append(colour)
        draw_object(canvas, labels, number + 1, kind, place, colour, light, rng)
    return Sample(_take_photo(canvas, light.toward, rng), labels, scene_id(index))


def scene_id(index: int) -> str:
    """The name of a scene."""
    return f"scene_{index:06d}"


def scene_classes(object_classes: int) -> tuple[str, ...]:
    """The class names: the background, and the first classes of objects.

    Parameters
    ----------
    object_classes
        The number of classes without the background.

    >>> scene_classes(3)
    ('background', 'mushroom', 'fish', 'tree')
    """
    return (BACKGROUND, *(kind.name for kind in SCENE_CLASSES[: checked_classes(object_classes)]))


class SceneDataset:
    """A dataset of scenes that are drawn on demand.

    Parameters
    ----------
    images
        The number of scenes.
    size, object_classes, seed
        Those of `draw_scene`.
    first
        The number of the first scene.

    >>> scenes = SceneDataset(100, size=(96, 96), object_classes=2, seed=5)
    >>> len(scenes), scenes.classes, scenes[99].id
    (100, ('background', 'mushroom', 'fish'), 'scene_000099')
    """

    def __init__(
        self, images: int, *, size: Size = (128, 128), object_classes: int = 10, seed: int = 0, first: int = 0
    ) -> None:
        self._seed, self._first = checked_integer(seed, "seed"), checked_integer(first, "first")
        self._size, self._object_classes = checked_size(size), checked_classes(object_classes)
        self.classes: tuple[str, ...] = scene_classes(object_classes)
        count = checked_integer(images, "images", least=1)
        self.ids: tuple[str, ...] = tuple(scene_id(first + k) for k in range(count))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Sample:
        if not -len(self) <= index < len(self):
            raise IndexError(f"there is no image {index}: the dataset has {len(self)}.")
        return draw_scene(self._seed, self._first + index % len(self), self._size, self._object_classes)


def _random_places(size: Size, rng: Generator) -> list[Place]:
    """Places of two to five objects, from back to front: some overlap, but few are hidden."""
    rows, columns = size
    places: list[Place] = []
    for _ in range(2 + random_integer(rng, 4)):
        radius = min(size) * rng.uniform(0.17, 0.34)
        chosen, room = Place(columns / 2, rows / 2, radius), -1.0
        for _ in range(6):
            place = Place(rng.uniform(0.13, 0.87) * columns, rng.uniform(0.13, 0.87) * rows, radius)
            gap = min((_gap(place, other) for other in places), default=1.0)
            if gap > room:
                chosen, room = place, gap
            if room > 0.5:
                break
        places.append(chosen)
    return places


def _gap(a: Place, b: Place) -> float:
    """Squared distance of two places, 1 if the circles around them touch."""
    dx, dy, reach = a.x - b.x, a.y - b.y, a.radius + b.radius
    return (dx * dx + dy * dy) / (reach * reach)


def _take_photo(canvas: Floats, light: Point, rng: Generator) -> npt.NDArray[np.uint8]:
    """Colours 0…255 (H, W, 3) of a canvas (3, H, W), which is overwritten: uneven light, slight blur, sensor noise."""
    _illuminate(canvas, light, rng)
    share = rng.uniform(0.05, 0.16)
    _blur(canvas[:, :-2], canvas[:, 1:-1], canvas[:, 2:], share)
    _blur(canvas[:, :, :-2], canvas[:, :, 1:-1], canvas[:, :, 2:], share)
    canvas += _sensor_noise(canvas, rng)
    canvas += 0.5  # the conversion to integers rounds down
    np.clip(canvas, 0, 255, out=canvas)
    image = np.empty((*canvas.shape[1:], 3), np.uint8)
    for channel in range(3):
        image[..., channel] = canvas[channel]
    return image


def _illuminate(canvas: Floats, light: Point, rng: Generator) -> None:
    """Make the canvas brighter towards the light, and darker in the corners."""
    x, y = frame((canvas.shape[1], canvas.shape[2]))
    slope, corners = rng.uniform(0.04, 0.2), rng.uniform(0.0, 0.1)
    across = x * (slope * light[0]) - corners * x * x
    down = y * (slope * light[1]) - corners * y * y
    canvas *= 1 + across + down


def _blur(before: Floats, middle: Floats, after: Floats, share: float) -> None:
    """Mix a share of both neighbours into the pixels of the middle."""
    around = before + after
    around *= share
    middle *= 1 - 2 * share
    middle += around


def _sensor_noise(canvas: Floats, rng: Generator) -> Floats:
    """Noise of variance a + b·v at the value v."""
    read, shot = rng.uniform(1.5, 4.0), rng.uniform(0.02, 0.1)
    noise = np.maximum(canvas, 0)
    noise *= shot
    noise += read * read
    np.sqrt(noise, out=noise)
    noise *= nearly_normal(rng, canvas.shape)
    return noise


def nearly_normal(rng: Generator, shape: tuple[int, ...]) -> Floats:
    """Nearly normal numbers of mean 0 and deviation 1: sums of four random bytes, exact on every machine."""
    values = np.frombuffer(rng.bytes(4 * math.prod(shape)), np.uint8).reshape(*shape, 4)
    sums = values[..., 0].astype(np.float32)
    for k in (1, 2, 3):
        sums += values[..., k]
    noise: Floats = (sums - 510.0) * (1 / 147.80054)  # mean and deviation of the sum
    return noise


def checked_integer(value: object, name: str, least: int = 0) -> int:
    """The value as an int; raises unless it is an integer from `least` that fits into 64 bits."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise InputTypeError(f"{name} is {value!r}, expected an integer.")
    number = value.__index__()
    if not least <= number < 2**64:
        raise InputError(f"{name} is {number}, expected {least} or more, below 2**64.")
    return number


def checked_size(size: object) -> Size:
    """Rows and columns; raises unless they are within the limits."""
    if not isinstance(size, tuple | list) or len(size) != 2:
        raise InputTypeError(f"size is {size!r}, expected (rows, columns).")
    rows, columns = (checked_integer(side, "a side of size") for side in size)
    if not (MIN_SIDE <= rows <= MAX_SIDE and MIN_SIDE <= columns <= MAX_SIDE):
        raise InputError(f"size is {rows} × {columns}, expected sides from {MIN_SIDE} to {MAX_SIDE} pixels.")
    return rows, columns


def checked_classes(object_classes: object) -> int:
    """The number of classes without the background; raises unless it is within the limits."""
    count = checked_integer(object_classes, "object_classes")
    if not MIN_CLASSES <= count <= MAX_CLASSES:
        raise InputError(
            f"object_classes is {count}, expected {MIN_CLASSES} to {MAX_CLASSES}, not counting the background."
        )
    return count
