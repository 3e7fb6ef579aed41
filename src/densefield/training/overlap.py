"""Intersection over union while training: counts that add up over batches and processes."""

from __future__ import annotations

import torch
from torch import Tensor

from densefield.labels import VOID


def confusion(
    log_marginals: Tensor,  # (B, L, H, W)
    labels: Tensor,  # (B, H, W), 255 is void
) -> Tensor:
    """Pixels (L, L) by true and predicted label.

    >>> confusion(torch.tensor([[[[0.0, -1.0]], [[-1.0, 0.0]]]]), torch.tensor([[[0, 0]]])).tolist()
    [[1, 1], [0, 0]]
    """
    classes, counted = log_marginals.shape[1], labels != VOID
    cells = labels[counted] * classes + log_marginals.argmax(1)[counted]
    return torch.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def mean_iou(confusion: Tensor) -> float:
    """The mean over the labels that are there; NaN where none is. SegmentationScores gives the same."""
    hits = confusion.diagonal().double()
    union = confusion.sum(0) + confusion.sum(1) - hits
    return float((hits / union)[union > 0].mean())
