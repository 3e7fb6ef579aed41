"""The classes of scenes: each a shape, a texture, and a hue that it leans to."""

from __future__ import annotations

from dataclasses import dataclass

from densefield.scenes import creatures, plants, textures, things
from densefield.scenes.shapes import Shape
from densefield.scenes.textures import Texture


@dataclass(frozen=True)
class SceneClass:
    """How objects of a class look; the hue, in turns from red over green, is only their most frequent one."""

    name: str
    shape: Shape
    texture: Texture
    hue: float
    tilt: float = 0.06  # the most that it leans, in turns


BACKGROUND = "background"

# Of few classes the first are taken: they differ most.
SCENE_CLASSES = (
    SceneClass("mushroom", plants.mushroom, textures.large_spots, 0.02),
    SceneClass("fish", creatures.fish, textures.plates, 0.55),
    SceneClass("tree", plants.tree, textures.foliage, 0.3),
    SceneClass("beetle", creatures.beetle, textures.seams, 0.42, tilt=0.5),
    SceneClass("cup", things.cup, textures.bands, 0.6),
    SceneClass("umbrella", things.umbrella, textures.gores, 0.92, tilt=0.12),
    SceneClass("wheel", things.wheel, textures.tread, 0.08, tilt=0.5),
    SceneClass("kite", things.kite, textures.quarters, 0.14, tilt=0.14),
    SceneClass("snail", creatures.snail, textures.coil, 0.09),
    SceneClass("chair", things.chair, textures.grain, 0.07),
    SceneClass("flower", plants.flower, textures.rays, 0.85),
    SceneClass("starfish", creatures.starfish, textures.small_spots, 0.05),
    SceneClass("bird", creatures.bird, textures.chevrons, 0.58),
    SceneClass("lamp", things.lamp, textures.pleats, 0.15),
    SceneClass("windmill", things.windmill, textures.bricks, 0.04),
    SceneClass("jellyfish", creatures.jellyfish, textures.marble, 0.78, tilt=0.14),
    SceneClass("cactus", plants.cactus, textures.ribs, 0.36),
    SceneClass("guitar", things.guitar, textures.year_rings, 0.1, tilt=0.2),
    SceneClass("balloon", things.balloon, textures.shine, 0.98, tilt=0.08),
    SceneClass("key", things.key, textures.brushed, 0.13, tilt=0.5),
)
