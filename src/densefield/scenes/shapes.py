"""What the shapes of a scene are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from densefield.scenes.distance import Floats
from densefield.scenes.random import Draws

Tone = Literal["main", "accent", "dark", "light"]


@dataclass(frozen=True)
class Plane:
    """The pixels near an object, in its own frame: x to its right, y down, about 1 from its middle to its rim."""

    x: Floats  # (h, w)
    y: Floats  # (h, w)
    pixel: float  # the side of a pixel

    def thin(self, half: float) -> float:
        """Half the width of a thin part: this, but no less than two thirds of a pixel, so that it stays visible."""
        return max(half, 0.66 * self.pixel)


@dataclass(frozen=True)
class Part:
    """A part of an object: its signed distance (h, w), its colour, and whether it bears the texture of the class."""

    distance: Floats
    tone: Tone = "main"
    textured: bool = False


# Draws its parts, the hindmost first.
Shape = Callable[[Plane, Draws], Sequence[Part]]
