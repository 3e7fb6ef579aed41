"""Label compatibility: Potts, one weight per label, or a symmetric matrix."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import InputError, InputTypeError, Spatial
from densefield.crf.compatibility import checked_weight, is_positive_semidefinite, mix


def test_all_three_forms_of_a_weight_equal_their_matrix():
    values = np.random.default_rng(4_099).normal(size=(7, 3))
    assert np.allclose(mix(values, np.array(2.0)), values @ (2 * np.eye(3)))
    assert np.allclose(mix(values, np.array([1.0, 2.0, 3.0])), values @ np.diag([1.0, 2.0, 3.0]))


def test_a_matrix_mixes_the_messages_of_all_labels():
    mu = np.array([[0.0, 1.0], [2.0, 3.0]])
    assert mix(np.array([[10.0, 1.0]]), mu).tolist() == [[1.0, 23.0]]


def test_the_weight_is_a_copy_in_double_precision():
    given = np.ones(3, np.float32)
    weight = checked_weight(given)
    given[:] = 7
    assert weight.dtype == np.float64 and weight.tolist() == [1, 1, 1]
    assert checked_weight(2).shape == ()


def test_a_matrix_that_is_symmetric_up_to_rounding_is_made_symmetric():
    random = np.random.default_rng(20_011)
    w = random.normal(size=(5, 5)).astype(np.float32)
    rounded = (w @ w.T) * (1 + 1e-7 * random.normal(size=(5, 5)))
    assert not np.array_equal(rounded, rounded.T)
    weight = checked_weight(rounded)
    assert np.array_equal(weight, weight.T)
    assert np.allclose(weight, rounded, rtol=1e-6)


@pytest.mark.parametrize(
    "weight, labels, error, message",
    [
        ("strong", None, InputTypeError, "weight is 'strong', expected a number, one per label"),
        (None, None, InputTypeError, "weight is None, expected a number"),
        ([[1.0], [2.0, 3.0]], None, InputTypeError, r"one per label \(L,\), or a symmetric matrix"),
        (np.ones((2, 3)), None, InputError, r"shape \(2, 3\), expected \(\), \(L,\) or \(L, L\)"),
        (np.ones((2, 2, 2)), None, InputError, r"shape \(2, 2, 2\), expected"),
        ([1.0, 2.0], 3, InputError, r"shape \(2,\), which is for 2 classes, but there are 3"),
        (np.eye(4), 3, InputError, r"shape \(4, 4\), which is for 4 classes, but there are 3"),
        (np.nan, None, InputError, "NaN or infinity, expected finite numbers"),
        ([1.0, np.inf], None, InputError, "NaN or infinity, expected finite numbers"),
        (1e39, None, InputError, r"the weight holds 1e\+39, expected no number beyond 1e\+12"),
        ([[0.0, 1.0], [2.0, 0.0]], None, InputError, r"not symmetric.*Use \(w \+ w.T\) / 2"),
    ],
)
def test_an_invalid_weight_is_rejected(weight, labels, error, message):
    with pytest.raises(error, match=message):
        checked_weight(weight, labels)
    if labels is None:
        with pytest.raises(error, match=message):
            Spatial(3, weight=weight)


@pytest.mark.parametrize(
    "mu, expected",
    [
        (2.0, True),
        (0.0, True),
        (-1e-12, False),
        ([1.0, 0.0], True),
        ([1.0, -1e-12], False),
        ([[2.0, 1.0], [1.0, 2.0]], True),
        ([[1.0, -1.0], [-1.0, 1.0]], True),
        ([[1.0, 2.0], [2.0, 1.0]], False),
        ([[1e-12, 2e-12], [2e-12, 1e-12]], False),  # small is not zero
        (np.zeros((3, 3)), True),
        (-np.eye(2), False),
    ],
)
def test_semidefinite_means_no_negative_quadratic_form(mu, expected):
    assert is_positive_semidefinite(np.array(mu)) is expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_does_not_make_a_singular_matrix_indefinite(dtype):
    random = np.random.default_rng(33_391)
    for labels in (2, 5, 21):
        w = random.normal(size=(labels, 1))
        matrix = (w @ w.T).astype(dtype)
        assert is_positive_semidefinite(matrix)
        assert not is_positive_semidefinite((matrix - 1e-4 * matrix.max() * np.eye(labels)).astype(dtype))
