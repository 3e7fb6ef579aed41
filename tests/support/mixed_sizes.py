"""A folder of scenes of several sizes, and the settings to train on whole images."""

from __future__ import annotations

from pathlib import Path

from densefield.images.writing import write_png
from densefield.scenes import SceneDataset

SIZES = ((64, 80), (80, 64), (64, 80), (70, 96), (64, 64))

SETTINGS = """
[data]
kind = "folder"
root = "{root}"
network_size = {network_size}
jitter = 0.1

[network]
name = "small_network"
num_classes = 4
pretrained = false
options = {{ width = 32, norm = "group" }}

[optimizer]
lr_top = 0.02
lr_rest = 0.005

[training]
steps = 6
batch = 4
validate_every = 3
checkpoint_every = 2
seed = 3391
workers = 0

[stage2.training]
steps = 4

[stage2.optimizer]
lr_crf = 0.5
"""


def write_mixed_sizes(folder: Path, network_size: str = "48") -> Path:
    """Write 10 training and 5 validation scenes of five sizes, and settings; returns the settings."""
    names: dict[str, list[str]] = {"train": [], "val": []}
    scenes = SceneDataset(15, size=(96, 96), object_classes=3, seed=6007)
    for number in range(15):
        sample, (rows, columns) = scenes[number], SIZES[number % len(SIZES)]
        name = f"scene-{number}"
        names["train" if number < 10 else "val"].append(name)
        write_png(folder / "images" / f"{name}.png", sample.image[:rows, :columns])
        write_png(folder / "masks" / f"{name}.png", sample.labels[:rows, :columns])
    (folder / "classes.txt").write_text("\n".join(scenes.classes), encoding="utf-8")
    (folder / "splits").mkdir()
    for split, ids in names.items():
        (folder / "splits" / f"{split}.txt").write_text("\n".join(ids), encoding="utf-8")
    path = folder / "settings.toml"
    path.write_text(SETTINGS.format(root=folder.as_posix(), network_size=network_size), encoding="utf-8")
    return path
