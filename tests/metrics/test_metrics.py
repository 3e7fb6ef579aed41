"""Metrics equal hand-computed values, scikit-learn and torchmetrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from densefield.metrics.boundaries import boundary_distance
from tests.support.segmentations import random_log_marginals, random_truth

torch = pytest.importorskip("torch")
torchmetrics = pytest.importorskip("torchmetrics")
from densefield.metrics import SegmentationMetrics, SegmentationResult  # noqa: E402

CLASSES = 6


def scored(*pairs: tuple[Any, Any], classes: int = CLASSES) -> SegmentationResult:
    """The result of (prediction, truth) of each image."""
    metrics = SegmentationMetrics(classes)
    for prediction, truth in pairs:
        metrics.update(torch.as_tensor(prediction)[None], torch.as_tensor(truth)[None])
    return metrics.compute()


def some_images() -> list[tuple[Any, Any]]:
    """Log marginals and truths of five images; label 4 is predicted but never true, label 5 is absent."""
    truths = [random_truth(23 + n, 31 - n, [0, 1 + n % 3, 3], seed=997 + n) for n in range(5)]
    return [(random_log_marginals(y, CLASSES, 4021 + n, [0, 1, 2, 3, 4]), y) for n, y in enumerate(truths)]


def all_pixels(images: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Log marginals (N, L) and labels (N,) of the counted pixels."""
    rows = [(q[:, y != 255].T, y[y != 255]) for q, y in images]
    return np.concatenate([q for q, _ in rows]), np.concatenate([y for _, y in rows])


def test_a_case_worked_by_hand():
    truth = [[0, 0, 1, 1], [0, 0, 1, 255]]
    predicted = [[0, 1, 1, 1], [0, 0, 0, 0]]
    result = scored((predicted, truth), classes=4)
    # 0: 3 right, 4 true, 4 predicted; 1: 2 right, 3 true, 3 predicted; 2 and 3 are absent. One pixel is void.
    assert result.confusion.tolist() == [[3, 1, 0, 0], [1, 2, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert result.iou.tolist() == pytest.approx([3 / 5, 2 / 4, np.nan, np.nan], nan_ok=True)
    assert result.mean_iou == pytest.approx((3 / 5 + 2 / 4) / 2)
    assert result.pixel_accuracy == pytest.approx(5 / 7)
    assert result.frequency_weighted_iou == pytest.approx(4 / 7 * 3 / 5 + 3 / 7 * 2 / 4)
    # The left column is two pixels from the boundary, the others one.
    assert result.trimap_accuracy[:3].tolist() == pytest.approx([3 / 5, 5 / 7, 5 / 7])
    assert result.trimap_iou[:2].tolist() == pytest.approx([(1 / 3 + 2 / 4) / 2, (3 / 5 + 2 / 4) / 2])
    assert (result.images, result.pixels) == (1, 7)


def test_a_label_that_is_predicted_but_never_true_counts_as_0():
    result = scored(([[0, 2]], [[0, 0]]), classes=4)
    assert result.iou.tolist() == pytest.approx([0.5, np.nan, 0.0, np.nan], nan_ok=True)
    assert result.mean_iou == 0.25


def test_a_label_that_is_true_but_never_predicted_counts_as_0():
    assert scored(([[0, 0]], [[0, 2]]), classes=4).mean_iou == 0.25


def test_confidence_and_likelihood_worked_by_hand():
    q = np.array([[[0.5, 0.9, 0.8, 0.3]], [[0.5, 0.1, 0.2, 0.7]]])
    result = scored((np.log(q), [[0, 0, 1, 255]]), classes=2)
    assert result.negative_log_likelihood == pytest.approx(-(np.log(0.5) + np.log(0.9) + np.log(0.2)) / 3)
    # Three bins of one pixel each: right at 0.5, right at 0.9, wrong at 0.8.
    assert result.calibration_error == pytest.approx((0.5 + 0.1 + 0.8) / 3)
    diagram = result.reliability
    assert diagram.edges[[0, 7, 15]].tolist() == pytest.approx([0, 7 / 15, 1])
    assert diagram.pixels.tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0]
    assert diagram.confidence[[7, 12, 13]].tolist() == pytest.approx([0.5, 0.8, 0.9])
    assert diagram.accuracy[[7, 12, 13]].tolist() == [1, 0, 1]
    assert np.isnan(diagram.accuracy[0]) and np.isnan(diagram.confidence[0])


def test_a_confidence_of_1_belongs_to_the_last_bin():
    result = scored((np.array([[[0.0]], [[-np.inf]]]), [[0]]), classes=2)
    assert result.reliability.pixels[-1] == 1
    assert (result.calibration_error, result.negative_log_likelihood) == (0, 0)


def test_an_impossible_true_label_has_an_infinite_log_loss():
    assert scored((np.array([[[0.0]], [[-np.inf]]]), [[1]]), classes=2).negative_log_likelihood == np.inf


def test_labels_alone_have_no_likelihood_and_no_calibration():
    result = scored(([[0, 1]], [[0, 0]]), classes=2)
    assert np.isnan([result.negative_log_likelihood, result.calibration_error]).all()
    assert result.pixel_accuracy == 0.5


def test_metrics_equal_those_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    images = some_images()
    result = scored(*images)
    log_q, truth = all_pixels(images)
    predicted, labels = log_q.argmax(1), list(range(CLASSES))
    confusion = metrics.confusion_matrix(truth, predicted, labels=labels)
    assert confusion[:, 4].any() and not confusion[4].any()  # the data include the hard case
    there = confusion.any(axis=0) | confusion.any(axis=1)
    each = metrics.jaccard_score(truth, predicted, labels=labels, average=None, zero_division=0)
    weighted = metrics.jaccard_score(truth, predicted, labels=labels, average="weighted", zero_division=0)
    assert there.tolist() == [True, True, True, True, True, False]
    assert np.array_equal(result.confusion, confusion)
    assert np.array_equal(np.isnan(result.iou), ~there)
    # The same ratios of integers; means are summed in other orders.
    assert result.iou[there] == pytest.approx(each[there], rel=1e-15)
    assert result.mean_iou == pytest.approx(each[there].mean(), rel=1e-14)
    assert result.frequency_weighted_iou == pytest.approx(weighted, rel=1e-14)
    assert result.pixel_accuracy == metrics.accuracy_score(truth, predicted)
    assert result.negative_log_likelihood == pytest.approx(
        metrics.log_loss(truth, np.exp(log_q), labels=labels), rel=1e-12
    )


def test_metrics_equal_those_of_torchmetrics():
    classification = torchmetrics.classification
    images = some_images()
    result = scored(*images)
    options = {"num_classes": CLASSES, "ignore_index": 255}
    confusion = classification.MulticlassConfusionMatrix(**options)
    accuracy = classification.MulticlassAccuracy(average="micro", **options)
    iou = classification.MulticlassJaccardIndex(average="none", **options)
    calibration = classification.MulticlassCalibrationError(n_bins=15, **options)
    for log_q, truth in images:
        q, y = torch.tensor(np.exp(log_q))[None], torch.tensor(truth)[None]
        for peer in (confusion, accuracy, iou, calibration):
            peer.update(q, y)
    there = ~np.isnan(result.iou)
    assert np.array_equal(result.confusion, confusion.compute().numpy())
    # The peers compute in float32.
    assert result.pixel_accuracy == pytest.approx(float(accuracy.compute()), rel=1e-6)
    assert result.iou[there] == pytest.approx(iou.compute().numpy()[there], rel=1e-6)
    assert result.calibration_error == pytest.approx(float(calibration.compute()), rel=1e-5)


@pytest.mark.parametrize("width", [1, 2, 5, 20])
def test_trimap_metrics_use_only_pixels_of_the_trimap(width):
    images = some_images()
    result = scored(*images)
    alone = scored(*((q, np.where(boundary_distance(y) <= width, y, 255)) for q, y in images))
    assert alone.pixels < result.pixels or width == 20
    assert result.trimap_iou[width - 1] == pytest.approx(alone.mean_iou, rel=1e-14)
    assert result.trimap_accuracy[width - 1] == pytest.approx(alone.pixel_accuracy, rel=1e-14)


def test_an_image_of_one_label_has_no_trimap():
    result = scored((np.zeros((30, 30), int), np.zeros((30, 30), int)), classes=2)
    assert np.isnan(result.trimap_iou).all() and np.isnan(result.trimap_accuracy).all()
    assert result.mean_iou == 1


@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (1, 1)])
def test_without_counts_metrics_are_nan(shape):
    classes = 3
    result = scored((np.full((classes, *shape), -np.log(classes)), np.full(shape, 255)), classes=classes)
    assert (result.images, result.pixels) == (1, 0)
    assert np.isnan(result.iou).all() and np.isnan(result.trimap_iou).all()
    for name in (
        "mean_iou",
        "pixel_accuracy",
        "frequency_weighted_iou",
        "negative_log_likelihood",
        "calibration_error",
    ):
        assert np.isnan(getattr(result, name)), name


def test_there_may_be_one_class():
    result = scored((np.zeros((1, 2, 3)), [[0, 0, 255], [0, 0, 0]]), classes=1)
    assert (result.mean_iou, result.pixel_accuracy, result.negative_log_likelihood, result.pixels) == (1, 1, 0, 5)


@pytest.mark.slow
def test_metrics_of_real_scores_match_other_implementations(shared: Path):
    """The network has a mean IoU of 57.9 on the first hundred images."""
    image = pytest.importorskip("PIL.Image")
    files = sorted((shared / "data/logits").glob("*.npz"))[:100]
    if len(files) < 100:
        pytest.skip("the scores of a network are not in the folder")
    metrics = SegmentationMetrics(21)
    for path in files:
        mask = shared / "data/VOCdevkit/VOC2012/SegmentationClass" / f"{path.stem}.png"
        truth = torch.from_numpy(np.array(image.open(mask)))
        logits = torch.from_numpy(np.load(path)["logits"]).float()[None]
        full = torch.nn.functional.interpolate(logits, truth.shape, mode="bilinear", align_corners=False)
        metrics.update(torch.log_softmax(full, dim=1), truth[None], [path.stem])
    result = metrics.compute()
    assert round(100 * result.mean_iou, 1) == 57.9
    assert (np.diff(result.trimap_accuracy) > 0).all()  # accuracy is lower near boundaries
