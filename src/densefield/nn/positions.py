"""Positions of the pixels of a grid as tensors, and those of the last size kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from densefield.crf.features import AxisOrder, checked_spacing


def grid_positions(
    shape: Sequence[int], spacing: Sequence[float] | None = None, axis_order: AxisOrder = "xy"
) -> Tensor:
    """Where each pixel of a grid is, (1, N, axes), in the order x, y(, z) or its reverse: see sites.grid_positions.

    >>> grid_positions((2, 2))[0].tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    """
    steps = checked_spacing(spacing, len(shape))
    dtype = torch.float32 if spacing is None else torch.float64
    lines = [
        (torch.arange(count, dtype=torch.float64) * step).to(dtype)
        for count, step in zip(reversed(tuple(shape)), steps, strict=True)
    ]
    grids = torch.meshgrid(lines[::-1], indexing="ij")  # z, y, x: as the axes of the grid
    return torch.stack(grids if axis_order == "yx" else grids[::-1], dim=-1).reshape(1, -1, len(shape))


class GridPositions:
    """grid_positions() on the device and in the dtype of scores; those of the last size are kept."""

    def __init__(self, axis_order: AxisOrder) -> None:
        self._axis_order: AxisOrder = axis_order
        self._kept: dict[tuple[object, ...], Tensor] = {}

    def __call__(self, scores: Tensor, dtype: torch.dtype, spacing: Sequence[float] | None) -> Tensor:
        """Positions (1, N, axes) of the pixels of scores (B, L, …)."""
        shape = tuple(scores.shape[2:])
        if torch.compiler.is_compiling():  # which makes constants of its own
            return grid_positions(shape, spacing, self._axis_order).to(scores.device, dtype)
        key = (shape, checked_spacing(spacing, len(shape)), scores.device, dtype)
        positions = self._kept.get(key)
        if positions is None:
            with torch.inference_mode(False):  # what is kept may be needed for training later
                positions = grid_positions(shape, spacing, self._axis_order).to(scores.device, dtype)
            self._kept = {key: positions}
        return positions

    def __getstate__(self) -> dict[str, Any]:
        """Without the positions, which are made again where they are needed."""
        return {**self.__dict__, "_kept": {}}
