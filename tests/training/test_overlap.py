"""Intersection over union while training is that of evaluation."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")

import torch

from densefield.training.overlap import confusion, mean_iou


def test_it_is_what_segmentation_scores_gives():
    scores = pytest.importorskip("densefield.metrics.scores")
    generator = torch.Generator().manual_seed(20771)
    log_q = torch.randn(3, 5, 12, 9, generator=generator).log_softmax(1)
    labels = torch.randint(0, 4, (3, 12, 9), generator=generator)  # label 4 is predicted but never true
    labels[0, :4] = 255
    metric = scores.SegmentationScores(num_classes=5)
    metric.update(log_q, labels)
    result = metric.compute()
    assert confusion(log_q, labels).tolist() == result.confusion.tolist()
    assert mean_iou(confusion(log_q, labels)) == pytest.approx(result.mean_iou, rel=1e-12)


def test_without_any_pixel_it_is_not_a_number():
    assert math.isnan(mean_iou(torch.zeros(3, 3, dtype=torch.int64)))
