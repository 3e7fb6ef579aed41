"""Bilinear upsampling of coarse scores to an image, aligned with its pixels.

The place of a coarse score on the image depends on the network. With convolutions and poolings of odd size and
symmetric padding, score i lies on pixel s·i, for the stride s. With poolings of size 2 without padding it lies in the
middle of the pixels s·i … s·i + s - 1. Upsampling by the wrong rule shifts all scores by up to half a stride.

The network may see the image at another size. Both sizes cover the same picture, so pixel y of H lies at
(y + ½)·h/H - ½ among h pixels.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor
from torch.nn.functional import interpolate

Size = tuple[int, int]  # rows, columns


def upsample_points(
    scores: Tensor,  # (B, L, h, w)
    stride: int,
    size: Size,  # H, W
    seen: Size | None = None,  # of the image that the network saw, by default H, W
) -> Tensor:
    """Scores (B, L, H, W) for a network whose score (i, j) lies on pixel (s·i, s·j); the last score is repeated.

    >>> import torch
    >>> upsample_points(torch.tensor([[[[0.0, 4.0]]]]), stride=4, size=(1, 7)).flatten().tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 4.0, 4.0]
    """
    places = [_pixels(n, m) / stride for n, m in zip(size, seen or size, strict=True)]
    return _interpolated(scores, *places)


def upsample_cells(
    scores: Tensor,  # (B, L, h, w)
    stride: int,
    size: Size,  # H, W
    seen: Size | None = None,  # of the image that the network saw, by default H, W; at most stride times h, w
) -> Tensor:
    """Scores (B, L, H, W) for a network whose score (i, j) is the centre of a square of s×s pixels.

    >>> import torch
    >>> upsample_cells(torch.tensor([[[[0.0, 4.0]]]]), stride=2, size=(1, 3)).flatten().tolist()
    [0.0, 1.0, 3.0]
    """
    places = [(_pixels(n, m) + 0.5) / stride - 0.5 for n, m in zip(size, seen or size, strict=True)]
    return _interpolated(scores, *places)


def resize(scores: Tensor, size: Size) -> Tensor:
    """Scores resized to (B, L, H, W), for networks whose alignment is unknown.

    >>> import torch
    >>> resize(torch.tensor([[[[0.0, 4.0]]]]), (1, 4)).flatten().tolist()
    [0.0, 1.0, 3.0, 4.0]
    """
    if scores.shape[-2:] == size:
        return scores
    return interpolate(scores, size=size, mode="bilinear", align_corners=False)


def _pixels(count: int, seen: int) -> Tensor:
    """The places of `count` pixels among the `seen` pixels of the same picture at another size."""
    places = torch.arange(count, dtype=torch.float64)
    return places if count == seen else (places + 0.5) * (seen / count) - 0.5


def _interpolated(scores: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Scores at fractional rows (H,) and columns (W,), beyond the ends those of the ends.

    As two products of matrices with two weights in each row: on a CPU forward and backward passes take less than half
    the time of torch's interpolate.
    """
    device = scores.device.type
    with torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext():
        f = scores if scores.dtype == torch.float64 else scores.float()
        down, across = (
            _weights(places, count).to(f.device, f.dtype)
            for places, count in zip((rows, columns), f.shape[-2:], strict=True)
        )
        return down @ (f @ across.T)


def _weights(places: Tensor, count: int) -> Tensor:
    """The matrix (n, count) that interpolates between `count` values at n places."""
    within = places.clamp(0, count - 1)
    first = within.floor().clamp(max=max(count - 2, 0))
    share = within - first
    index = first.long()[:, None]
    weights = torch.zeros(len(places), count, dtype=torch.float64)
    weights.scatter_(1, index, 1 - share[:, None])
    if count > 1:
        weights.scatter_(1, index + 1, share[:, None])
    return weights
