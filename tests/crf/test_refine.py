"""Masks in one line."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import CRF, Custom, InputError, InputTypeError, Spatial, refine
from densefield.crf.refine import LEAST_PROBABILITY, scores_from_labels, scores_from_probabilities, unary_scores


def two_halves() -> tuple[np.ndarray, np.ndarray]:
    """An image of two colours, and its mask with the edge two columns off."""
    image = np.zeros((12, 16, 3), np.uint8)
    image[:, 8:] = 200
    mask = np.zeros((12, 16), np.int64)
    mask[:, 10:] = 1
    return image, mask


def probabilities_of(mask: np.ndarray, confidence: float = 0.7) -> np.ndarray:
    first = np.where(mask == 0, confidence, 1 - confidence)
    return np.stack([first, 1 - first])


def test_a_mask_is_drawn_to_the_edge():
    image, mask = two_halves()
    refined = refine(image, labels=mask)
    assert refined.shape == (2, 12, 16) and refined.dtype == np.float32
    assert np.array_equal(refined.argmax(0), image[..., 0] == 200)
    assert np.allclose(refined.sum(axis=0), 1, atol=1e-6)


def test_labels_probabilities_and_logits_that_say_the_same_give_the_same():
    image, mask = two_halves()
    p = probabilities_of(mask)
    results = [
        refine(image, labels=mask),
        refine(image, p),
        refine(image, logits=np.log(p)),
        refine(image, logits=np.log(p) + 3),
    ]
    for result in results[1:]:
        assert np.allclose(result, results[0], atol=1e-5)  # logits of either kind, rounded to single precision


def test_it_is_a_crf_on_those_scores():
    image, mask = two_halves()
    kernels = [Spatial(2, weight=1.5)]
    expected = CRF(kernels, iterations=3).solve(unary_scores(labels=mask), image).marginals
    assert np.array_equal(refine(image, labels=mask, kernels=kernels, iterations=3), expected)


def test_a_grey_image_will_do():
    image, mask = two_halves()
    assert np.array_equal(refine(image[..., 0], labels=mask).argmax(0), image[..., 0] == 200)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.uint64])
def test_labels_of_any_whole_type_will_do(dtype):
    _, mask = two_halves()
    assert np.array_equal(scores_from_labels(mask.astype(dtype), None, 0.7), scores_from_labels(mask, None, 0.7))


def test_labels_share_what_confidence_leaves():
    scores = scores_from_labels(np.array([[0, 2, 255]]), 4, 0.7)
    assert np.allclose(np.exp(scores).sum(axis=0), 1, atol=1e-6)
    assert np.allclose(np.exp(scores[:, 0, 0]), [0.7, 0.1, 0.1, 0.1], atol=1e-6)
    assert np.allclose(np.exp(scores[:, 0, 1]), [0.1, 0.1, 0.7, 0.1], atol=1e-6)
    assert np.allclose(np.exp(scores[:, 0, 2]), 0.25, atol=1e-6)


def test_a_mask_of_nothing_known_is_open_everywhere():
    image, mask = two_halves()
    assert np.allclose(refine(image, labels=np.full_like(mask, 255)), 0.5, atol=1e-6)


def test_the_number_of_labels_is_that_of_the_mask_but_at_least_two():
    assert scores_from_labels(np.array([[0, 3]]), None, 0.7).shape == (4, 1, 2)
    assert scores_from_labels(np.array([[0, 0]]), None, 0.7).shape == (2, 1, 2)
    assert scores_from_labels(np.array([[0, 3]]), 9, 0.7).shape == (9, 1, 2)


def test_probabilities_of_zero_are_small_ones():
    scores = scores_from_probabilities(np.array([[[0.0]], [[1.0]]]))
    assert np.allclose(scores[:, 0, 0], [np.log(LEAST_PROBABILITY), 0], rtol=1e-6)


def test_an_empty_image_gives_an_empty_result():
    image = np.zeros((0, 5, 3), np.uint8)
    assert refine(image, labels=np.zeros((0, 5), np.uint8)).shape == (2, 0, 5)
    assert refine(image, np.zeros((3, 0, 5))).shape == (3, 0, 5)
    assert refine(image, logits=np.zeros((3, 0, 5))).shape == (3, 0, 5)


IMAGE = np.zeros((2, 3, 3), np.uint8)
HALF = np.full((2, 2, 3), 0.5)


@pytest.mark.parametrize(
    "given, error, message",
    [
        ({}, InputError, "got neither probabilities nor labels nor logits, expected exactly one"),
        ({"probabilities": HALF, "logits": HALF}, InputError, "got probabilities and logits, expected exactly one"),
        ({"probabilities": [0.5]}, InputTypeError, "probabilities are list, expected a floating point array.*labels="),
        (
            {"probabilities": HALF.astype(int)},
            InputTypeError,
            "probabilities are int64.*For a mask of labels use labels=",
        ),
        ({"probabilities": np.ones(3)}, InputError, r"probabilities have shape \(3,\), expected \(labels, rows"),
        ({"probabilities": np.ones((0, 2, 3))}, InputError, r"probabilities have shape \(0, 2, 3\), expected \(labels"),
        ({"probabilities": 4 * HALF}, InputError, "range from 2 to 2, expected 0 to 1. For raw scores use logits="),
        ({"probabilities": HALF * np.nan}, InputError, "range from nan to nan, expected 0 to 1"),
        ({"probabilities": HALF / 2}, InputError, "sum to 0.5 … 0.5 over the labels .first axis., expected 1"),
        ({"probabilities": np.full((2, 3, 4), 0.25)}, InputError, r"use numpy.moveaxis\(probabilities, -1, 0\)"),
        ({"labels": [[0, 1]]}, InputTypeError, "labels are list, expected an array of whole numbers"),
        ({"labels": np.zeros((2, 3))}, InputTypeError, "labels are float64, expected an array of whole numbers"),
        ({"labels": np.zeros((2, 3), bool)}, InputTypeError, r"labels are bool.*labels.astype\(numpy.uint8\)"),
        ({"labels": np.full((2, 3), -1)}, InputError, "labels range from -1 to -1, expected 0 to 1, or 255"),
        ({"labels": np.full((2, 3), 4), "num_labels": 3}, InputError, "labels range from 4 to 4, expected 0 to 2"),
        ({"labels": np.zeros((2, 3), int), "num_labels": 0}, InputError, "num_labels is 0, expected a whole number, 2"),
        ({"labels": np.zeros((2, 3), int), "num_labels": 1}, InputError, "num_labels is 1, expected a whole number, 2"),
        (
            {"labels": np.zeros((2, 3), int), "num_labels": 2.5},
            InputError,
            "num_labels is 2.5, expected a whole number",
        ),
        (
            {"labels": np.zeros((2, 3), int), "num_labels": True},
            InputError,
            "num_labels is True, expected a whole number",
        ),
        ({"labels": np.zeros((2, 3), int), "confidence": 1.0}, InputError, "confidence is 1.0, expected more than 0.5"),
        (
            {"labels": np.zeros((2, 3), int), "confidence": 0.5},
            InputError,
            "an even guess among 2 labels, and less than 1",
        ),
        ({"labels": np.zeros((2, 3), int), "confidence": np.nan}, InputError, "confidence is nan, expected more than"),
        (
            {"labels": np.zeros((2, 3), int), "confidence": "high"},
            InputTypeError,
            "confidence is 'high', expected a number",
        ),
        (
            {"labels": np.zeros((2, 3), int), "confidence": np.array([0.7, 0.8])},
            InputError,
            "confidence is .*expected more than 0.5",
        ),
        (
            {"labels": np.zeros((2, 3), int), "kernels": [Custom("depth")]},
            InputError,
            r"a kernel compares 'depth'.*Use CRF\(kernels\).solve\(scores, image, features={'depth': array}\)",
        ),
        ({"logits": np.zeros((2, 2, 3), int)}, InputTypeError, "scores have dtype int64.*labels=mask"),
        ({"logits": np.full((2, 2, 3), np.inf)}, InputError, "scores hold NaN or infinity at 12 of 12 places"),
    ],
)
def test_what_cannot_be_refined_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        refine(IMAGE, **given)
