"""Bilinear upsampling of coarse scores to the image's size, aligned with its pixels.

The place of a coarse score on the image depends on the network. With convolutions and poolings of odd size and
symmetric padding, score i lies on pixel s·i, for the stride s. With poolings of size 2 without padding it lies in the
middle of the pixels s·i … s·i + s - 1. Upsampling by the wrong rule shifts all scores by up to half a stride.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import interpolate, pad

Size = tuple[int, int]  # rows, columns


def upsample_points(
    scores: Tensor,  # (B, L, h, w)
    stride: int,
    size: Size,  # H, W
) -> Tensor:
    """Scores (B, L, H, W) of an image whose pixel (s·i, s·j) has the score (i, j); the last score is repeated.

    >>> import torch
    >>> upsample_points(torch.tensor([[[[0.0, 4.0]]]]), stride=4, size=(1, 7)).flatten().tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 4.0, 4.0]
    """
    rows, columns = (-(-n // stride) + 1 for n in size)  # so that the last pixel lies between two scores
    h, w = scores.shape[-2:]
    wider = pad(scores, (0, max(columns - w, 0), 0, max(rows - h, 0)), mode="replicate")
    h, w = wider.shape[-2:]
    fine = interpolate(wider, size=((h - 1) * stride + 1, (w - 1) * stride + 1), mode="bilinear", align_corners=True)
    return fine[..., : size[0], : size[1]]


def upsample_cells(
    scores: Tensor,  # (B, L, h, w)
    stride: int,
    size: Size,  # H, W, at most stride times h, w
) -> Tensor:
    """Scores (B, L, H, W) of an image in which the score (i, j) is the centre of a square of s×s pixels.

    >>> import torch
    >>> upsample_cells(torch.tensor([[[[0.0, 4.0]]]]), stride=2, size=(1, 3)).flatten().tolist()
    [0.0, 1.0, 3.0]
    """
    h, w = scores.shape[-2:]
    fine = interpolate(scores, size=(h * stride, w * stride), mode="bilinear", align_corners=False)
    return fine[..., : size[0], : size[1]]


def resize(scores: Tensor, size: Size) -> Tensor:
    """Scores resized to (B, L, H, W), for networks whose alignment is unknown.

    >>> import torch
    >>> resize(torch.tensor([[[[0.0, 4.0]]]]), (1, 4)).flatten().tolist()
    [0.0, 1.0, 3.0, 4.0]
    """
    if scores.shape[-2:] == size:
        return scores
    return interpolate(scores, size=size, mode="bilinear", align_corners=False)
