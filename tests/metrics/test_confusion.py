"""The mean IoU of a confusion matrix, as in training, equals SegmentationMetrics."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from densefield.metrics import Counts, SegmentationMetrics  # noqa: E402
from densefield.metrics.metrics import mean_iou  # noqa: E402
from densefield.metrics.segmentation_metrics import confusion_matrix  # noqa: E402


def test_it_equals_segmentation_metrics():
    generator = torch.Generator().manual_seed(20771)
    log_q = torch.randn(3, 5, 12, 9, generator=generator).log_softmax(1)
    labels = torch.randint(0, 4, (3, 12, 9), generator=generator)  # label 4 is predicted but never true
    labels[0, :4] = 255
    metrics = SegmentationMetrics(num_classes=5)
    metrics.update(log_q, labels)
    result = metrics.compute()
    confusion = confusion_matrix(log_q, labels)
    assert confusion.tolist() == result.confusion.tolist()
    assert float(mean_iou(Counts.from_confusion(confusion.numpy()))) == pytest.approx(result.mean_iou, rel=1e-12)


def test_without_any_pixel_it_is_nan():
    assert np.isnan(mean_iou(Counts.from_confusion(np.zeros((3, 3), int))))
