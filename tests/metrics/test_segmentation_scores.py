"""SegmentationScores: batches, lists, names, precision, and what torchmetrics expects of a metric."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from densefield import InputError
from tests.support.segmentations import random_log_marginals, random_truth

torch = pytest.importorskip("torch")
torchmetrics = pytest.importorskip("torchmetrics")
from densefield import SegmentationResult, SegmentationScores  # noqa: E402

CLASSES = 4
SIZES = [(20, 30), (20, 30), (9, 41), (1, 1)]


def image(n: int) -> tuple[Any, Any]:
    truth = random_truth(*SIZES[n], [0, 1 + n % 3], seed=6007 + n)
    return torch.tensor(random_log_marginals(truth, CLASSES, seed=353 + n)), torch.tensor(truth)


IMAGES = [image(n) for n in range(len(SIZES))]


def equal(a: SegmentationResult, b: SegmentationResult) -> bool:
    """Whether all that was counted is the same, to the last bit."""
    names = ("overlap", "truth", "predicted", "log_loss", "bins")
    return np.array_equal(a.confusion, b.confusion) and all(
        np.array_equal(getattr(a.per_image, name), getattr(b.per_image, name)) for name in names
    )


def one_by_one(numbers: list[int]) -> SegmentationResult:
    scores = SegmentationScores(CLASSES)
    for n in numbers:
        scores.update(IMAGES[n][0][None], IMAGES[n][1][None])
    return scores.compute()


def test_a_batch_is_its_images_one_by_one():
    scores = SegmentationScores(CLASSES)
    scores.update(torch.stack([IMAGES[0][0], IMAGES[1][0]]), torch.stack([IMAGES[0][1], IMAGES[1][1]]))
    assert equal(scores.compute(), one_by_one([0, 1]))


def test_a_list_may_hold_images_of_different_sizes():
    scores = SegmentationScores(CLASSES)
    scores.update([q for q, _ in IMAGES], [y for _, y in IMAGES])
    assert equal(scores.compute(), one_by_one([0, 1, 2, 3]))


def test_the_total_is_that_of_one_large_image_but_for_the_boundaries():
    result = one_by_one([0, 1])
    scores = SegmentationScores(CLASSES)
    scores.update(torch.cat([IMAGES[0][0], IMAGES[1][0]], 2)[None], torch.cat([IMAGES[0][1], IMAGES[1][1]], 1)[None])
    large = scores.compute()
    assert np.array_equal(result.confusion, large.confusion)
    assert result.mean_iou == large.mean_iou
    # The same numbers added up in another order.
    assert result.negative_log_likelihood == pytest.approx(large.negative_log_likelihood, rel=1e-14)


def test_labels_give_the_same_counts_as_the_marginals_they_are_best_in():
    scores = SegmentationScores(CLASSES)
    scores.update([q.argmax(0) for q, _ in IMAGES], [y for _, y in IMAGES])
    assert np.array_equal(scores.compute().per_image.overlap, one_by_one([0, 1, 2, 3]).per_image.overlap)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32"])
def test_labels_may_be_any_whole_numbers(dtype):
    kind = getattr(torch, dtype)
    scores = SegmentationScores(CLASSES)
    scores.update([q.argmax(0).to(kind) for q, _ in IMAGES], [y.to(kind) for _, y in IMAGES])
    assert np.array_equal(scores.compute().confusion, one_by_one([0, 1, 2, 3]).confusion)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float16", 2e-3), ("bfloat16", 2e-2)])
def test_marginals_may_have_less_precision(dtype, tolerance):
    scores = SegmentationScores(CLASSES)
    scores.update(IMAGES[0][0][None].to(getattr(torch, dtype)), IMAGES[0][1][None])
    precise = one_by_one([0])
    # Half a unit in the last place of each log marginal.
    assert scores.compute().negative_log_likelihood == pytest.approx(precise.negative_log_likelihood, rel=tolerance)


def test_marginals_in_a_graph_are_counted_without_it():
    q = IMAGES[0][0][None].clone().requires_grad_()
    scores = SegmentationScores(CLASSES)
    scores.update(q, IMAGES[0][1][None])
    assert equal(scores.compute(), one_by_one([0]))


def test_an_image_whose_name_comes_again_counts_once():
    scores = SegmentationScores(CLASSES)
    for n in (0, 2, 0, 1, 2):
        scores.update(IMAGES[n][0][None], IMAGES[n][1][None], [f"image {n}"])
    assert equal(scores.compute(), one_by_one([0, 2, 1]))


def test_images_without_names_all_count():
    assert one_by_one([0, 0, 0]).images == 3
    assert one_by_one([0, 0, 0]).pixels == 3 * one_by_one([0]).pixels


def test_one_name_for_two_images_is_an_error():
    scores = SegmentationScores(CLASSES)
    scores.update([q for q, _ in IMAGES[:2]], [y for _, y in IMAGES[:2]], ["same", "same"])
    with pytest.raises(InputError, match="different true labels came under one name"):
        scores.compute()


def test_a_batch_of_no_images_changes_nothing():
    scores = SegmentationScores(CLASSES)
    scores.update(IMAGES[0][0][None], IMAGES[0][1][None])
    scores.update(torch.zeros(0, CLASSES, 5, 5), torch.zeros(0, 5, 5).long())
    scores.update([], [])
    assert equal(scores.compute(), one_by_one([0]))


def test_images_without_pixels_count_as_images_alone():
    scores = SegmentationScores(CLASSES)
    scores.update(torch.zeros(1, CLASSES, 0, 5), torch.zeros(1, 0, 5).long())
    scores.update(IMAGES[0][0][None], IMAGES[0][1][None])
    result = scores.compute()
    assert (result.images, result.mean_iou) == (2, one_by_one([0]).mean_iou)


def test_counting_goes_on_after_a_result_and_starts_again_after_a_reset():
    scores = SegmentationScores(CLASSES)
    scores.update(IMAGES[0][0][None], IMAGES[0][1][None])
    assert equal(scores.compute(), one_by_one([0]))
    scores.update(IMAGES[2][0][None], IMAGES[2][1][None])
    assert equal(scores.compute(), one_by_one([0, 2]))
    scores.reset()
    scores.update(IMAGES[3][0][None], IMAGES[3][1][None])
    assert equal(scores.compute(), one_by_one([3]))


def test_called_it_gives_the_result_of_the_batch_and_counts_it():
    scores = SegmentationScores(CLASSES)
    for n in (0, 2):
        assert equal(scores(IMAGES[n][0][None], IMAGES[n][1][None]), one_by_one([n]))
    assert equal(scores.compute(), one_by_one([0, 2]))


def test_it_and_its_result_can_be_pickled():
    scores = SegmentationScores(CLASSES)
    scores.update(IMAGES[0][0][None], IMAGES[0][1][None])
    assert equal(pickle.loads(pickle.dumps(scores)).compute(), one_by_one([0]))
    assert equal(pickle.loads(pickle.dumps(scores.compute())), one_by_one([0]))


def test_without_images_there_is_no_result():
    scores = SegmentationScores(CLASSES)
    with (
        pytest.warns(UserWarning, match="before the ``update``"),
        pytest.raises(InputError, match="no image was count"),
    ):
        scores.compute()


def test_printed_it_tells_the_measures():
    text = repr(one_by_one([0, 1]))
    assert text.startswith("SegmentationResult(images=2, pixels=") and "mean_iou=0." in text
