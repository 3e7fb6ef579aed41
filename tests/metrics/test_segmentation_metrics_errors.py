"""Errors of SegmentationMetrics say what was passed, what was expected, and what to do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from densefield import InputError, InputTypeError

torch = pytest.importorskip("torch")
from densefield.metrics import SegmentationMetrics  # noqa: E402


def even(*shape: int, labels: int = 3) -> Any:
    return torch.full(shape, -math.log(labels))


TRUTH = torch.zeros(2, 4, 5, dtype=torch.int64)
LABELS = torch.zeros(2, 4, 5, dtype=torch.int64)
SCORES = torch.tensor(np.random.default_rng(4241).standard_normal((2, 3, 4, 5)), dtype=torch.float32)


@pytest.mark.parametrize("classes", [0, -1, 256, 2.5, True, "21"])
def test_invalid_classes_raise(classes):
    with pytest.raises(InputError, match="expected an integer from 1 to 255"):
        SegmentationMetrics(classes)


@pytest.mark.parametrize(
    ("prediction", "truth", "message"),
    [
        (np.zeros((2, 4, 5)), TRUTH, "the prediction is of type ndarray.* Use torch.from_numpy"),
        (LABELS, [np.zeros((4, 5))], "the truth is of type ndarray"),
        (LABELS, TRUTH.float(), r"the truth has dtype torch.float32, expected integers. Use .long\(\)"),
        (LABELS.bool(), TRUTH, "the prediction has dtype torch.bool"),
    ],
)
def test_wrong_types_are_an_error(prediction, truth, message):
    with pytest.raises(InputTypeError, match=message):
        SegmentationMetrics(3).update(prediction, truth)


@pytest.mark.parametrize(
    ("prediction", "truth", "message"),
    [
        (LABELS[:1], TRUTH, "the prediction has 1 images and the truth 2"),
        (LABELS, TRUTH[..., None], r"the truth of an image has shape \(4, 5, 1\), expected \(rows, columns\)"),
        (LABELS[0], TRUTH[0], r"the truth of an image has shape \(5,\)"),
        (torch.tensor(0), torch.tensor(0), r"the truth of an image has shape \(\)"),
        (LABELS[:, :2], TRUTH, r"shape \(2, 5\) and its truth \(4, 5\), expected the same. Resize"),
        (even(2, 3, 2, 3), TRUTH, r"shape \(3, 2, 3\), expected \(3, 4, 5\). Resize the prediction"),
        (even(2, 4, 4, 5, labels=4), TRUTH, "Use SegmentationMetrics with 4 classes"),
        (even(2, 4, 5, 3), TRUTH, r"classes are the last axis: use movedim\(-1, 1\)"),
        (LABELS + 3, TRUTH, r"the prediction holds label 3, expected 0 to 2 at every pixel.* scores.argmax\(1\)"),
        (LABELS + 255, TRUTH + 255, "the prediction holds label 255"),
        (LABELS - 1, TRUTH, "the prediction holds label -1"),
        (LABELS, TRUTH + 3, "the truth holds label 3, expected 0 to 2, or 255 for void. Map .* or use Segmentation"),
        (LABELS, TRUTH - 1, "the truth holds label -1"),
        (SCORES, TRUTH, r"sum to .* over the labels, expected 1. For scores use torch.log_softmax"),
        (SCORES + 200, TRUTH, "sum to inf … inf over the labels"),
        (SCORES.softmax(1), TRUTH, r"holds probabilities, expected their logarithms. Use probabilities.log\(\)"),
        (SCORES.log_softmax(1) + 0.01, TRUTH, "sum to 1.01 … 1.01"),
        (torch.full_like(SCORES, math.nan), TRUTH, "hold NaN"),
        (torch.full_like(SCORES, -math.inf), TRUTH, "sum to 0 … 0"),
    ],
)
def test_wrong_values_are_an_error(prediction, truth, message):
    with pytest.raises(InputError, match=message):
        SegmentationMetrics(3).update(prediction, truth)


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ("ab", InputTypeError, "names are 'ab', expected a list"),
        (["a"], InputError, "there are 1 names for 2 images"),
        ([1, 2], InputTypeError, r"the name of an image is 1, expected a str. Use str\(name\)"),
    ],
)
def test_wrong_names_are_an_error(names, error, message):
    with pytest.raises(error, match=message):
        SegmentationMetrics(3).update(LABELS, TRUTH, names)


def test_a_batch_with_an_error_is_not_counted():
    metrics = SegmentationMetrics(3)
    metrics.update(LABELS, TRUTH)
    with pytest.raises(InputError, match="the truth holds label 7"):
        metrics.update(LABELS, torch.stack([TRUTH[0], TRUTH[1] + 7]))
    assert metrics.compute().images == 2
