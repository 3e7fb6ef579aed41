"""Summaries, and verdicts of comparisons."""

from __future__ import annotations

import math

import numpy as np
import pytest

from densefield.errors import InputError
from densefield.metrics.counts import count_pixels, image_counts_to_bytes, read_image_counts
from densefield.metrics.metrics import combine_images
from densefield.metrics.summary import HEADLINES, summarise, summarise_comparison, verdict


def gain(difference, low, high):
    return {"difference": difference, "low": low, "high": high}


def images(wrong: int, count: int = 6, classes: int = 2):
    """Labels and marginals of images with increasingly many wrong pixels."""
    truth = np.zeros((4, 8), int)
    truth[2:] = 1
    found = {}
    for number in range(count):
        predicted = truth.copy()
        predicted.ravel()[: wrong + number] = 1
        confidence = np.full(truth.shape, 0.8)
        log_marginal = np.log(np.where(predicted == truth, 0.8, 0.2))
        found[f"image {number}"] = count_pixels(
            predicted, truth, classes, true_log_marginal=log_marginal, confidence=confidence
        )
    return found


@pytest.mark.parametrize(
    "comparison, words",
    [
        ({"mean_iou": gain(0.01, 0.005, 0.02)}, "The CRF helps in mean IoU (+1.00 points, 0.50 … 2.00)."),
        ({"mean_iou": gain(-0.01, -0.02, -0.005)}, "The CRF does not help; it harms mean IoU (-1.00 points, "),
        ({"mean_iou": gain(0.01, -0.02, 0.03)}, "The CRF does not help; no clear difference in mean IoU"),
        ({"mean_iou": gain(1e-5, 1e-6, 2e-5)}, "The CRF does not help; no clear difference"),
        ({"negative_log_likelihood": gain(-0.02, -0.03, -0.01)}, "The CRF helps in NLL (-0.0200, -0.0300 … -0.0100)."),
        ({"negative_log_likelihood": gain(0.02, 0.01, 0.03)}, "The CRF does not help; it harms NLL"),
        ({"negative_log_likelihood": gain(None, None, None)}, "Nothing could be compared."),
    ],
)
def test_the_verdict_follows_the_interval(comparison, words):
    assert verdict(comparison).startswith(words)


def test_all_metrics_of_a_summary_are_json_numbers():
    summary = summarise(combine_images(images(2, classes=3).items(), num_classes=3))
    assert summary["images"] == 6 and summary["iou"]["value"][2] is None  # label 2 is absent
    for name in HEADLINES:
        assert summary[name]["low"] <= summary[name]["value"] <= summary[name]["high"]
    right = 1 - sum(range(2, 8)) / (6 * 32)
    assert summary["pixel_accuracy"]["value"] == pytest.approx(right, rel=1e-12)
    log_loss = -(right * math.log(0.8) + (1 - right) * math.log(0.2))
    assert summary["negative_log_likelihood"]["value"] == pytest.approx(log_loss, rel=1e-12)
    assert len(summary["trimap_iou"]) == 20 and summary["trimap_iou"][2] == summary["trimap_iou_3px"]["value"]


def test_a_comparison_has_every_headline():
    better, worse = (combine_images(images(wrong).items(), num_classes=2) for wrong in (1, 3))
    comparison = summarise_comparison(better, worse)
    assert list(comparison) == list(HEADLINES)
    assert comparison["pixel_accuracy"]["difference"] == pytest.approx(2 / 32, rel=1e-12)
    assert comparison["mean_iou"]["wins"] == 1.0 and comparison["negative_log_likelihood"]["high"] < 0


def test_one_image_cannot_be_compared():
    one = combine_images(images(1, count=1).items(), num_classes=2)
    with pytest.raises(InputError, match="comparing methods needs 2 or more"):
        summarise_comparison(one, one)
    assert summarise(one)["mean_iou"]["low"] == one.mean_iou


def test_saved_counts_are_loaded_unchanged(tmp_path):
    both = {"network": images(1)["image 0"], "crf": images(3)["image 0"]}
    path = tmp_path / "a.npz"
    path.write_bytes(image_counts_to_bytes(both))
    again = read_image_counts(path, ["network", "crf"])
    for method, counts in both.items():
        assert again[method].log_loss == counts.log_loss
        for part in ("cells", "counts", "bins"):
            np.testing.assert_array_equal(getattr(again[method], part), getattr(counts, part))
    assert read_image_counts(path, ["other"]) is None and read_image_counts(tmp_path / "none.npz", ["crf"]) is None


def test_without_images_merging_raises():
    with pytest.raises(InputError, match="no image was counted"):
        combine_images([], num_classes=2)
