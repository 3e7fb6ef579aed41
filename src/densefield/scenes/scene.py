"""Synthetic scenes: images with exact labels, drawn from nothing but a seed."""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np

from densefield.datasets.sample import Sample
from densefield.errors import InputError, InputTypeError
from densefield.scenes.background import draw_clutter, draw_ground
from densefield.scenes.camera import take_photo
from densefield.scenes.classes import BACKGROUND, SCENE_CLASSES
from densefield.scenes.colours import Colour, background_colour, object_colour
from densefield.scenes.distance import direction
from densefield.scenes.objects import Light, Place, draw_object
from densefield.scenes.random import Draws

Size = tuple[int, int]

SMALLEST, LARGEST = 96, 512  # pixels of a side
FEWEST, MOST = 2, len(SCENE_CLASSES)
_SCENES = 1  # keeps the draws of scenes apart from other draws of the same seed


def draw_scene(seed: int, index: int, size: Size = (128, 128), object_classes: int = 10) -> Sample:
    """The scene of this number: an image and its labels, 0 for background and 1…object_classes for objects.

    It depends on the four arguments alone, to the last bit. Every pixel has a label; none is void.

    >>> sample = draw_scene(seed=2026, index=7, size=(96, 128), object_classes=4)
    >>> sample.image.shape, sample.label.shape, sample.id
    ((96, 128, 3), (96, 128), 'scene_000007')
    """
    seed, index = checked_whole(seed, "seed"), checked_whole(index, "index")
    size, object_classes = checked_size(size), checked_classes(object_classes)
    draws = Draws(_SCENES, seed, index)
    background = background_colour(draws)
    canvas = draw_ground(size, background, draws)
    draw_clutter(canvas, background, draws)
    label = np.zeros(size, np.uint8)
    light = Light(direction(draws.number(0.55, 0.95)), draws.number(0.12, 0.32), draws.number(0.5, 0.9))
    colours: list[Colour] = []
    for place in _places(size, draws):
        number = draws.whole(object_classes)
        kind = SCENE_CLASSES[number]
        colour = object_colour(draws, kind.hue, background, colours)
        colours.append(colour)
        draw_object(canvas, label, number + 1, kind, place, colour, light, draws)
    return Sample(take_photo(canvas, light.toward, draws), label, scene_id(index))


def scene_id(index: int) -> str:
    """The name of a scene."""
    return f"scene_{index:06d}"


def scene_classes(object_classes: int) -> tuple[str, ...]:
    """The names of the labels: the background, and the first so many classes.

    >>> scene_classes(3)
    ('background', 'mushroom', 'fish', 'tree')
    """
    return (BACKGROUND, *(kind.name for kind in SCENE_CLASSES[: checked_classes(object_classes)]))


class SceneDataset:
    """A dataset of scenes that are drawn when they are asked for: those numbered from `first` on.

    >>> scenes = SceneDataset(100, size=(96, 96), object_classes=2, seed=5)
    >>> len(scenes), scenes.classes, scenes[99].id
    (100, ('background', 'mushroom', 'fish'), 'scene_000099')
    """

    def __init__(
        self, images: int, *, size: Size = (128, 128), object_classes: int = 10, seed: int = 0, first: int = 0
    ) -> None:
        self._seed, self._first = checked_whole(seed, "seed"), checked_whole(first, "first")
        self._size, self._count = checked_size(size), checked_classes(object_classes)
        self.classes: tuple[str, ...] = scene_classes(object_classes)
        self.ids: tuple[str, ...] = tuple(scene_id(first + k) for k in range(checked_whole(images, "images", least=1)))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Sample:
        if not -len(self) <= index < len(self):
            raise IndexError(f"there is no image {index}: the dataset has {len(self)}.")
        return draw_scene(self._seed, self._first + index % len(self), self._size, self._count)


def _places(size: Size, draws: Draws) -> list[Place]:
    """Where two to five objects are, the hindmost first: some partly over others, but seldom hiding them."""
    rows, columns = size
    places: list[Place] = []
    for _ in range(2 + draws.whole(4)):
        radius = min(size) * draws.number(0.17, 0.34)
        chosen, room = Place(columns / 2, rows / 2, radius), -1.0
        for _ in range(6):
            place = Place(draws.number(0.13, 0.87) * columns, draws.number(0.13, 0.87) * rows, radius)
            gap = min((_gap(place, other) for other in places), default=1.0)
            if gap > room:
                chosen, room = place, gap
            if room > 0.5:
                break
        places.append(chosen)
    return places


def _gap(a: Place, b: Place) -> float:
    """How far two places are from each other, squared: 1 where circles around them would touch."""
    dx, dy, reach = a.x - b.x, a.y - b.y, a.radius + b.radius
    return (dx * dx + dy * dy) / (reach * reach)


def checked_whole(value: object, name: str, least: int = 0) -> int:
    """A whole number that fits into 64 bits."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise InputTypeError(f"{name} is {value!r}, expected a whole number.")
    number = value.__index__()
    if not least <= number < 2**64:
        raise InputError(f"{name} is {number}, expected {least} or more, below 2**64.")
    return number


def checked_size(size: object) -> Size:
    """Rows and columns."""
    if not isinstance(size, tuple | list) or len(size) != 2:
        raise InputTypeError(f"size is {size!r}, expected (rows, columns).")
    rows, columns = (checked_whole(side, "a side of size") for side in size)
    if not (SMALLEST <= rows <= LARGEST and SMALLEST <= columns <= LARGEST):
        raise InputError(f"size is {rows} × {columns}, expected sides from {SMALLEST} to {LARGEST} pixels.")
    return rows, columns


def checked_classes(classes: object) -> int:
    """A number of classes, the background apart."""
    count = checked_whole(classes, "object_classes")
    if not FEWEST <= count <= MOST:
        raise InputError(f"object_classes is {count}, expected {FEWEST} to {MOST}, not counting the background.")
    return count
