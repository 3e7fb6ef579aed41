"""Kernels: features, widths, and checks without data."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import CRF, Bilateral, Custom, InputError, InputTypeError, Kernel, Spatial
from densefield.filters import ExactFilter

DIMENSIONS = {"position": 2, "channel": 3, "depth": 1}


@pytest.mark.parametrize(
    "kernel, name, parts",
    [
        (Spatial(4), "spatial", ["position"]),
        (Bilateral(40, 8), "bilateral", ["position", "channel"]),
        (Custom("depth", 0.5), "depth", ["depth"]),
        (Custom("depth", 0.5, sigma_xy=9), "depth", ["position", "depth"]),
    ],
)
def test_a_kernel_has_a_name_and_parts(kernel, name, parts):
    assert isinstance(kernel, Kernel)
    assert kernel.name == name
    assert list(kernel.widths_of_parts()) == parts


def test_one_width_applies_to_every_axis():
    assert Spatial(4).shape(DIMENSIONS).tolist() == [4, 4]
    assert Spatial(4).shape({"position": 3}).tolist() == [4, 4, 4]
    assert Bilateral(40, 8).shape(DIMENSIONS).tolist() == [40, 40, 8, 8, 8]
    assert Custom("depth", 0.5).shape(DIMENSIONS).tolist() == [0.5]


def test_every_axis_may_have_its_own_width():
    assert Spatial([4, 5]).shape(DIMENSIONS).tolist() == [4, 5]
    assert Bilateral((40, 50), np.array([8.0, 9.0, 10.0])).shape(DIMENSIONS).tolist() == [40, 50, 8, 9, 10]
    assert Bilateral(40, (8, 9, 10)).shape(DIMENSIONS).tolist() == [40, 40, 8, 9, 10]


def test_a_custom_kernel_with_positions_is_that_of_positions_and_feature_together():
    random = np.random.default_rng(7_919)
    scores, depth = random.normal(size=(3, 6, 7)), random.normal(size=(6, 7, 2))
    rows, columns = np.indices((6, 7))
    place = np.stack([columns, rows], axis=-1)
    both = Custom("depth", [0.5, 0.7], sigma_xy=[2, 3], weight=1.5)
    one = Custom("all", [2, 3, 0.5, 0.7], weight=1.5)
    found = CRF([both], method="exact").marginals(scores, features={"depth": depth})
    expected = CRF([one], method="exact").marginals(scores, features={"all": np.concatenate([place, depth], axis=-1)})
    assert np.allclose(found, expected, rtol=1e-12)
    assert both.describe() == "sigma_xy (2, 3), sigma (0.5, 0.7), weight 1.5, symmetric"
    with pytest.raises(InputError, match="covariance and sigma_xy are both given"):
        Custom("depth", sigma_xy=3, covariance=np.eye(3))
    with pytest.raises(InputError, match=r"sigma_xy is -3\.0"):
        Custom("depth", sigma_xy=-3)


def test_the_default_weight_is_one():
    assert Spatial().weight == 1 and Spatial().normalization == "symmetric" and Spatial().covariance is None


def test_a_covariance_whitens():
    random = np.random.default_rng(51_199)
    root = random.normal(size=(5, 5))
    covariance = root @ root.T + np.eye(5)
    w = Bilateral(covariance=covariance).shape(DIMENSIONS)
    assert np.allclose(w.T @ w, np.linalg.inv(covariance), rtol=1e-12)


def test_a_kernel_is_immutable():
    widths, weight = np.array([1.0, 1.0]), np.array([3.0, 2.0])
    crf = CRF([Spatial(widths, weight=weight)])
    scores = np.random.default_rng(5).normal(size=(2, 6, 7))
    before = crf.marginals(scores)
    widths[:] = 6
    weight[:] = 0
    assert (crf.marginals(scores) == before).all()
    assert (CRF(crf.kernels).marginals(scores) == before).all()
    with pytest.raises(ValueError, match="read-only"):
        crf.kernels[0].sigma[:] = 6


def solve(kernel: Kernel, features: np.ndarray, scores: np.ndarray) -> np.ndarray:
    return CRF([kernel], method="exact").solve(scores, features={"here": features}).marginals


def test_a_diagonal_covariance_equals_widths():
    random = np.random.default_rng(7_919)
    features, scores = random.normal(size=(30, 3)), random.normal(size=(4, 30))
    widths = np.array([0.5, 1.0, 2.0])
    found = solve(Custom("here", weight=6, covariance=np.diag(widths**2)), features, scores)
    # Whitening is a matrix product instead of a division: one more rounding.
    assert np.allclose(found, solve(Custom("here", widths, weight=6), features, scores), rtol=1e-13)


def test_a_rotated_covariance_rotates_features():
    random = np.random.default_rng(9_973)
    features, scores = random.normal(size=(30, 3)), random.normal(size=(4, 30))
    rotation = np.linalg.qr(random.normal(size=(3, 3)))[0]
    widths = np.array([0.5, 1.0, 2.0])
    covariance = rotation @ np.diag(widths**2) @ rotation.T
    found = solve(Custom("here", weight=6, covariance=covariance), features, scores)
    assert np.allclose(found, solve(Custom("here", widths, weight=6), features @ rotation, scores), rtol=1e-12)
    assert not np.allclose(found, solve(Custom("here", widths, weight=6), features, scores), atol=1e-3)


def test_a_covariance_matches_the_formula_of_the_paper():
    random = np.random.default_rng(12_347)
    image = random.random((3, 4, 3)) * 255
    root = random.normal(size=(5, 5)) * [2, 2, 50, 50, 50]
    covariance = root @ root.T + np.diag([1.0, 1.0, 100.0, 100.0, 100.0])
    crf = CRF([Bilateral(covariance=covariance, normalization="none")], method="exact")
    coupling = crf.problem(np.zeros((2, 3, 4)), image).pairwise[0]
    y, x = np.mgrid[:3, :4]
    p = np.concatenate([np.stack([x, y], axis=-1), image], axis=-1).reshape(-1, 5)
    difference = p[:, None] - p[None]
    expected = np.exp(-0.5 * np.einsum("ijk,kl,ijl->ij", difference, np.linalg.inv(covariance), difference))
    assert np.allclose(coupling.smooth(np.eye(12)), expected, rtol=1e-9, atol=1e-12)


def test_features_are_divided_by_widths():
    coupling = CRF([Spatial((2, 4), normalization="none")], method="exact").problem(np.zeros((1, 3, 5))).pairwise[0]
    y, x = np.mgrid[:3, :5]
    features = np.stack([x / 2, y / 4], axis=-1).reshape(-1, 2)
    assert np.allclose(coupling.smooth(np.eye(15)), ExactFilter(features).to_dense(), rtol=1e-14)


@pytest.mark.parametrize("sigma", [0, -1, np.inf, np.nan, [1, 0], [3, np.nan]])
def test_widths_that_are_not_positive_and_finite_are_rejected(sigma):
    for make in (Spatial, lambda s: Bilateral(s, 3), lambda s: Bilateral(3, s), lambda s: Custom("depth", s)):
        with pytest.raises(InputError, match=r"sigma(_xy|_rgb)? is .*expected finite numbers above 0"):
            make(sigma)


def test_the_error_of_a_width_has_its_name():
    with pytest.raises(InputError, match=r"sigma_xy is 0.0, expected finite numbers above 0"):
        Bilateral(0, 10)
    with pytest.raises(InputError, match="sigma_rgb is nan, expected finite numbers above 0"):
        Bilateral(60, float("nan"))


def test_widths_that_are_not_numbers_are_rejected():
    with pytest.raises(InputTypeError, match="sigma is 'wide', expected a width, or one for each axis"):
        Spatial("wide")
    with pytest.raises(InputTypeError, match="sigma is None, expected a width"):
        Spatial(None)
    with pytest.raises(InputError, match=r"sigma has shape \(2, 2\), expected a width"):
        Spatial(np.ones((2, 2)))


def test_too_many_widths_are_rejected_when_the_data_is_known():
    with pytest.raises(InputError, match="the bilateral kernel has 2 widths for channel, which has 3 numbers"):
        Bilateral(3, [4, 5]).shape(DIMENSIONS)
    with pytest.raises(InputError, match="the spatial kernel has 3 widths for position, which has 2 numbers"):
        CRF([Spatial([1, 2, 3])]).solve(np.zeros((2, 4, 5)))


def test_an_unknown_normalization_is_rejected():
    with pytest.raises(InputError, match="normalization is 'both', expected one of symmetric, after, before, none"):
        Spatial(3, normalization="both")


@pytest.mark.parametrize(
    "covariance, error, message",
    [
        ("round", InputTypeError, "covariance is 'round', expected a symmetric matrix"),
        ([[1.0, 0.0]], InputError, r"covariance has shape \(1, 2\), expected a square matrix"),
        (3.0, InputError, r"covariance has shape \(\), expected a square matrix"),
        ([[1.0, np.nan], [np.nan, 1.0]], InputError, "covariance holds NaN or infinity"),
        ([[1.0, 0.5], [0.0, 1.0]], InputError, r"covariance is not symmetric.*\(c \+ c.T\) / 2"),
        ([[1.0, 2.0], [2.0, 1.0]], InputError, "covariance is not positive definite: its least eigenvalue is -1"),
        ([[1.0, 0.0], [0.0, 0.0]], InputError, "covariance is not positive definite"),
    ],
)
def test_an_invalid_covariance_is_rejected_immediately(covariance, error, message):
    with pytest.raises(error, match=message):
        Spatial(covariance=covariance)


def test_a_covariance_of_the_wrong_size_is_rejected_when_the_data_is_known():
    with pytest.raises(InputError, match=r"covariance has shape \(2, 2\), expected \(5, 5\) for position, channel"):
        Bilateral(covariance=np.eye(2)).shape(DIMENSIONS)


@pytest.mark.parametrize("name", ["", "two words", "1st", 3, None])
def test_a_feature_needs_a_name(name):
    with pytest.raises(InputError, match="expected a name such as 'depth'"):
        Custom(name)


@pytest.mark.parametrize("name", ["position", "channel", "spatial", "bilateral"])
def test_a_name_that_is_taken_is_rejected(name):
    with pytest.raises(InputError, match="a name that is taken: choose another"):
        Custom(name)
