"""Weights in the format of torchvision's vgg16, with few channels."""

from __future__ import annotations

import torch

FEW = {"widths": (2, 3, 3, 3, 4), "fully_connected": 8}


def torchvision_weights() -> dict[str, torch.Tensor]:
    """A state dict with torchvision's keys."""
    generator = torch.Generator().manual_seed(70117)
    shapes = {}
    channels = 3
    for number, width in zip((0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28), (2, 2, *[3] * 8, *[4] * 3), strict=True):
        shapes |= {f"features.{number}.weight": (width, channels, 3, 3), f"features.{number}.bias": (width,)}
        channels = width
    for number, shape in {0: (8, 4 * 49), 3: (8, 8), 6: (1000, 8)}.items():
        shapes |= {f"classifier.{number}.weight": shape, f"classifier.{number}.bias": shape[:1]}
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
