"""Unary scores of masks and probabilities, and invalid input."""

from __future__ import annotations

import numpy as np
import pytest

from densefield.crf.unary import LEAST_PROBABILITY, kind_of_scores, scores_from_probabilities, unary


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.uint64])
def test_labels_of_any_integer_type_are_accepted(dtype):
    mask = np.array([[0, 1, 1], [2, 0, 1]])
    assert np.array_equal(unary(labels=mask.astype(dtype)).scores, unary(labels=mask).scores)


def test_the_remaining_probability_is_shared_by_the_other_labels():
    found = unary(labels=np.array([[0, 2, 5, 255]]), num_classes=9)
    assert found.labels.tolist() == [0, 2, 5] and found.num_classes == 9
    shares = np.exp(found.scores[:, 0])
    assert np.allclose(shares.T, [[0.7, 0.15, 0.15], [0.15, 0.7, 0.15], [0.15, 0.15, 0.7], [1 / 3] * 3], atol=1e-6)


def test_the_number_of_classes_is_that_of_the_mask_but_at_least_two():
    assert unary(labels=np.array([[0, 3]])).num_classes == 4
    assert unary(labels=np.array([[0, 0]])).num_classes == 2
    assert unary(labels=np.array([[0, 3]]), num_classes=9).num_classes == 9


def test_expanded_marginals_are_at_the_indices_of_their_labels():
    found = unary(labels=np.array([[1, 3]]), num_classes=5)
    expanded = found.expand(np.array([[[0.25, 0.5]], [[0.75, 0.5]]], np.float32))
    assert expanded[:, 0].tolist() == [[0, 0], [0.25, 0.5], [0, 0], [0.75, 0.5], [0, 0]]


def test_probabilities_of_zero_are_clipped():
    scores = scores_from_probabilities(np.array([[[0.0]], [[1.0]]]))
    assert np.allclose(scores[:, 0, 0], [np.log(LEAST_PROBABILITY), 0], rtol=1e-6)


@pytest.mark.parametrize("labels", [2, 21])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_probabilities_and_energies_are_distinguished_from_scores(labels, dtype):
    scores = np.random.default_rng(51077).normal(0, 4, (labels, 40, 50))
    p = np.exp(scores) / np.exp(scores).sum(0)
    assert kind_of_scores(p.astype(dtype)) == "probabilities"
    assert kind_of_scores(-np.log(np.maximum(p, 1e-5)).astype(dtype)) == "energies"
    assert kind_of_scores(np.log(np.maximum(p, 1e-5)).astype(dtype)) == "scores"
    assert kind_of_scores(scores.astype(dtype)) == "scores"
