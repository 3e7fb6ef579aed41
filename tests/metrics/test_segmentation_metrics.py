"""SegmentationMetrics: batches, lists, names, and precision."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from densefield import InputError
from tests.support.segmentations import random_log_marginals, random_truth

torch = pytest.importorskip("torch")
from densefield.metrics import SegmentationMetrics, SegmentationResult  # noqa: E402

CLASSES = 4
SIZES = [(20, 30), (20, 30), (9, 41), (1, 1)]


def image(n: int) -> tuple[Any, Any]:
    truth = random_truth(*SIZES[n], [0, 1 + n % 3], seed=6007 + n)
    return torch.tensor(random_log_marginals(truth, CLASSES, seed=353 + n)), torch.tensor(truth)


IMAGES = [image(n) for n in range(len(SIZES))]


def equal(a: SegmentationResult, b: SegmentationResult) -> bool:
    """Whether all counts are bitwise equal."""
    names = ("overlap", "truth", "predicted", "log_loss", "bins")
    return np.array_equal(a.confusion, b.confusion) and all(
        np.array_equal(getattr(a.per_image, name), getattr(b.per_image, name)) for name in names
    )


def one_by_one(numbers: list[int]) -> SegmentationResult:
    metrics = SegmentationMetrics(CLASSES)
    for n in numbers:
        metrics.update(IMAGES[n][0][None], IMAGES[n][1][None])
    return metrics.compute()


def test_a_batch_equals_its_images_one_by_one():
    metrics = SegmentationMetrics(CLASSES)
    metrics.update(torch.stack([IMAGES[0][0], IMAGES[1][0]]), torch.stack([IMAGES[0][1], IMAGES[1][1]]))
    assert equal(metrics.compute(), one_by_one([0, 1]))


def test_a_list_may_hold_images_of_different_sizes():
    metrics = SegmentationMetrics(CLASSES)
    metrics.update([q for q, _ in IMAGES], [y for _, y in IMAGES])
    assert equal(metrics.compute(), one_by_one([0, 1, 2, 3]))


def test_the_total_equals_one_large_image_except_at_boundaries():
    result = one_by_one([0, 1])
    metrics = SegmentationMetrics(CLASSES)
    metrics.update(torch.cat([IMAGES[0][0], IMAGES[1][0]], 2)[None], torch.cat([IMAGES[0][1], IMAGES[1][1]], 1)[None])
    large = metrics.compute()
    assert np.array_equal(result.confusion, large.confusion)
    assert result.mean_iou == large.mean_iou
    # The same numbers summed in another order.
    assert result.negative_log_likelihood == pytest.approx(large.negative_log_likelihood, rel=1e-14)


def test_labels_give_the_same_counts_as_their_marginals():
    metrics = SegmentationMetrics(CLASSES)
    metrics.update([q.argmax(0) for q, _ in IMAGES], [y for _, y in IMAGES])
    assert np.array_equal(metrics.compute().per_image.overlap, one_by_one([0, 1, 2, 3]).per_image.overlap)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32"])
def test_labels_may_be_any_integers(dtype):
    kind = getattr(torch, dtype)
    metrics = SegmentationMetrics(CLASSES)
    metrics.update([q.argmax(0).to(kind) for q, _ in IMAGES], [y.to(kind) for _, y in IMAGES])
    assert np.array_equal(metrics.compute().confusion, one_by_one([0, 1, 2, 3]).confusion)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float16", 2e-3), ("bfloat16", 2e-2)])
def test_marginals_may_have_less_precision(dtype, tolerance):
    metrics = SegmentationMetrics(CLASSES)
    metrics.update(IMAGES[0][0][None].to(getattr(torch, dtype)), IMAGES[0][1][None])
    precise = one_by_one([0])
    # Half a unit in the last place of each log marginal.
    assert metrics.compute().negative_log_likelihood == pytest.approx(precise.negative_log_likelihood, rel=tolerance)


def test_marginals_with_gradients_are_detached():
    q = IMAGES[0][0][None].clone().requires_grad_()
    metrics = SegmentationMetrics(CLASSES)
    metrics.update(q, IMAGES[0][1][None])
    assert equal(metrics.compute(), one_by_one([0]))


def test_an_image_with_a_repeated_name_counts_once():
    metrics = SegmentationMetrics(CLASSES)
    for n in (0, 2, 0, 1, 2):
        metrics.update(IMAGES[n][0][None], IMAGES[n][1][None], [f"image {n}"])
    assert equal(metrics.compute(), one_by_one([0, 2, 1]))


def test_images_without_names_all_count():
    assert one_by_one([0, 0, 0]).images == 3
    assert one_by_one([0, 0, 0]).pixels == 3 * one_by_one([0]).pixels


def test_one_name_for_two_images_is_an_error():
    metrics = SegmentationMetrics(CLASSES)
    metrics.update([q for q, _ in IMAGES[:2]], [y for _, y in IMAGES[:2]], ["same", "same"])
    with pytest.raises(InputError, match="different true labels have the name 'same'"):
        metrics.compute()


def test_a_batch_of_no_images_changes_nothing():
    metrics = SegmentationMetrics(CLASSES)
    metrics.update(IMAGES[0][0][None], IMAGES[0][1][None])
    metrics.update(torch.zeros(0, CLASSES, 5, 5), torch.zeros(0, 5, 5).long())
    metrics.update([], [])
    assert equal(metrics.compute(), one_by_one([0]))


def test_images_without_pixels_count_as_images_only():
    metrics = SegmentationMetrics(CLASSES)
    metrics.update(torch.zeros(1, CLASSES, 0, 5), torch.zeros(1, 0, 5).long())
    metrics.update(IMAGES[0][0][None], IMAGES[0][1][None])
    result = metrics.compute()
    assert (result.images, result.mean_iou) == (2, one_by_one([0]).mean_iou)


def test_counting_continues_after_a_result_and_restarts_after_a_reset():
    metrics = SegmentationMetrics(CLASSES)
    metrics.update(IMAGES[0][0][None], IMAGES[0][1][None])
    assert equal(metrics.compute(), one_by_one([0]))
    metrics.update(IMAGES[2][0][None], IMAGES[2][1][None])
    assert equal(metrics.compute(), one_by_one([0, 2]))
    metrics.reset()
    metrics.update(IMAGES[3][0][None], IMAGES[3][1][None])
    assert equal(metrics.compute(), one_by_one([3]))


def test_it_and_its_result_can_be_pickled():
    metrics = SegmentationMetrics(CLASSES)
    metrics.update(IMAGES[0][0][None], IMAGES[0][1][None])
    assert equal(pickle.loads(pickle.dumps(metrics)).compute(), one_by_one([0]))
    assert equal(pickle.loads(pickle.dumps(metrics.compute())), one_by_one([0]))


def test_without_images_there_is_no_result():
    with pytest.raises(InputError, match="no image was counted"):
        SegmentationMetrics(CLASSES).compute()


def test_its_repr_has_the_main_metrics():
    text = repr(one_by_one([0, 1]))
    assert text.startswith("SegmentationResult(images=2, pixels=") and "mean_iou=0." in text
