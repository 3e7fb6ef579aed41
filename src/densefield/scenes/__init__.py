"""Synthetic scenes: images with exact labels, drawn from a seed."""

from densefield.scenes.files import write_scenes as write_scenes
from densefield.scenes.scene import SceneDataset as SceneDataset
from densefield.scenes.scene import draw_scene as draw_scene
from densefield.scenes.scene import scene_classes as scene_classes
