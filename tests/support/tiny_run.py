"""An untrained run on disk: a small network, and optionally a CRF."""

from __future__ import annotations

from pathlib import Path

import torch

from densefield.runs.build import build_segmenter
from densefield.runs.checkpoint import TrainingState, write_checkpoint
from densefield.runs.run_folder import BEST
from densefield.runs.settings import config_from


def write_tiny_run(folder: Path, stage: int) -> Path:
    tables = {
        "data": {"kind": "scenes", "scenes": {"images": 2, "val_images": 4, "size": [96, 96], "object_classes": 2}},
        "network": {"name": "small_network", "num_classes": 3, "pretrained": False, "options": {"width": 32}},
        "training": {"stage": stage},
    }
    config = config_from(tables)
    torch.manual_seed(1812)
    write_checkpoint(folder / BEST, config, build_segmenter(config), {}, TrainingState(), [])
    return folder
