"""Errors of the CRF for invalid input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield import CRF, Bilateral, Custom, InputError, InputTypeError, Spatial

SCORES = np.zeros((2, 3, 4))
IMAGE = np.zeros((3, 4, 3), np.uint8)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"kernels": [3]}, InputError, "a kernel is 3, expected Spatial, Bilateral or Custom"),
        ({"kernels": [Spatial]}, InputError, "a kernel is .*expected Spatial, Bilateral or Custom"),
        (
            {"kernels": Spatial(3)},
            InputTypeError,
            r"kernels are of type Spatial, expected a list of them: use \[kernel\]",
        ),
        ({"kernels": None}, InputTypeError, "kernels are of type NoneType, expected a list"),
        ({"iterations": -1}, InputError, "iterations is -1, expected an integer from 0 to 1048576"),
        ({"iterations": 2.5}, InputError, "iterations is 2.5, expected an integer from 0 to 1048576"),
        ({"iterations": 3_000_000}, InputError, "iterations is 3000000, expected an integer from 0 to 1048576"),
        ({"iterations": True}, InputError, "iterations is True, expected an integer"),
        ({"method": "fast"}, InputError, "method is 'fast', expected one of lattice, exact"),
        ({"operator": "best"}, InputError, "operator is 'best', expected one of symmetric, pydensecrf"),
        ({"halo": -1}, InputError, "halo is -1, expected an integer"),
        ({"threads": 0}, InputError, "threads is 0, expected 1 to"),
        ({"threads": "all"}, InputTypeError, "threads is 'all', expected an integer or None"),
    ],
)
def test_invalid_options_are_rejected_immediately(options, error, message):
    with pytest.raises(error, match=message):
        CRF(**options)


@pytest.mark.parametrize(
    "scores, error, message",
    [
        ([[1.0]], InputTypeError, "scores are of type list, expected a numpy array"),
        (
            np.zeros((2, 3, 4), int),
            InputTypeError,
            r"dtype int64, expected floating point.*refine\(image, labels=mask\)",
        ),
        (np.zeros((2, 3, 4), complex), InputTypeError, "dtype complex128, expected floating point"),
        (np.zeros(4), InputError, r"shape \(4,\), expected \(classes, rows, columns\)"),
        (np.zeros((1, 2, 3, 4, 5)), InputError, r"shape \(1, 2, 3, 4, 5\), expected \(classes, rows, columns\)"),
        (np.zeros((0, 3, 4)), InputError, r"shape \(0, 3, 4\), expected at least one label"),
        (np.full((2, 3, 4), np.nan), InputError, r"NaN or infinity at 24 of 24 places, first at \(0, 0, 0\).*-1e4"),
        (
            np.where(np.arange(24).reshape(2, 3, 4) == 17, -np.inf, 0),
            InputError,
            r"1 of 24 places, first at \(1, 1, 1\)",
        ),
    ],
)
@pytest.mark.parametrize("method", ["lattice", "exact"])
def test_invalid_scores_are_rejected(scores, error, message, method):
    for call in ("solve", "steps", "problem"):
        with pytest.raises(error, match=message):
            getattr(CRF([Spatial(2)], method=method), call)(scores)


@pytest.mark.parametrize(
    "given, error, message",
    [
        ({}, InputError, "compares colours, but no image was given: pass image="),
        ({"image": np.zeros((4, 3, 3))}, InputError, "Rows and columns are swapped"),
        ({"image": np.zeros((3, 3, 4))}, InputError, "channels come first"),
        ({"image": [1, 2]}, InputTypeError, "the image is of type list, expected a numpy array"),
        ({"image": np.zeros((3, 4, 3), bool)}, InputTypeError, "dtype bool, expected integers or floating point"),
        ({"image": np.full((3, 4, 3), np.nan)}, InputError, "NaN or infinity"),
        ({"image": IMAGE, "spacing": 5}, InputError, "spacing is 5, expected 2 numbers above 0"),
        ({"image": IMAGE, "spacing": (1, 2, 3)}, InputError, r"spacing is \(1, 2, 3\), expected 2 numbers above 0"),
        (
            {"image": IMAGE, "ignore": np.zeros((3, 4))},
            InputError,
            r"ignore is float64 \(3, 4\), expected a boolean array",
        ),
        (
            {"image": IMAGE, "ignore": np.zeros((4, 3), bool)},
            InputError,
            r"expected a boolean array \(3, 4\), True for",
        ),
        ({"image": IMAGE, "ignore": [True]}, InputTypeError, "ignore is of type list, expected a boolean array"),
        ({"image": IMAGE, "features": {"depth": np.zeros((3, 4, 1))}}, InputError, "depth, which no kernel compares"),
    ],
)
@pytest.mark.parametrize("method", ["lattice", "exact"])
def test_arguments_that_do_not_fit_the_scores_are_rejected(given, error, message, method):
    for call in ("solve", "steps", "problem"):
        with pytest.raises(error, match=message):
            getattr(CRF([Bilateral(2, 3)], method=method), call)(SCORES, **given)


@pytest.mark.parametrize("damping", [-0.1, 1.0, 2, np.nan, np.inf, "much", None, True])
def test_damping_outside_zero_to_one_is_rejected(damping):
    for call in ("solve", "steps"):
        with pytest.raises(InputError, match=r"damping is .*expected a number from 0 \(no damping\) to below 1"):
            getattr(CRF([Spatial(2)]), call)(SCORES, damping=damping)


@pytest.mark.parametrize("tolerance", [0, -1e-3, np.nan, np.inf, "tight", True])
def test_a_tolerance_that_is_not_positive_is_rejected(tolerance):
    with pytest.raises(InputError, match=r"tolerance is .*expected a finite number above 0, or None"):
        CRF([Spatial(2)]).solve(SCORES, tolerance=tolerance)


def test_damping_and_tolerance_may_be_numbers_of_numpy():
    CRF([Spatial(2)]).solve(SCORES, damping=np.float32(0.5), tolerance=np.float64(1e-3))
    CRF([Spatial(2)]).solve(SCORES, damping=0, tolerance=1)


@pytest.mark.parametrize(
    "weight, message",
    [([1.0, 2.0, 3.0], r"shape \(3,\), which is for 3 classes, but there are 2"), (np.eye(3), "for 3 classes")],
)
def test_weights_for_another_number_of_labels_are_rejected_with_the_scores(weight, message):
    crf = CRF([Spatial(2, weight=weight)])
    with pytest.raises(InputError, match=message):
        crf.solve(SCORES)


def test_too_many_features_for_a_lattice_are_rejected():
    features: dict[str, Any] = {"many": np.zeros((3, 4, 17))}
    with pytest.raises(InputError, match="17 dimensions"):
        CRF([Custom("many")]).solve(SCORES, features=features)


def test_a_rejected_image_does_not_change_the_crf():
    crf = CRF([Spatial(2), Bilateral(2, 3)])
    before = crf.solve(SCORES, IMAGE).marginals
    with pytest.raises(InputError, match="no image was given"):
        crf.solve(SCORES)
    assert np.array_equal(crf.solve(SCORES, IMAGE).marginals, before)
