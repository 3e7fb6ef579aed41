"""Unary energies of the drop-in, without kernels."""

from __future__ import annotations

import numpy as np
import pytest

import densefield.pydensecrf.densecrf as dcrf
from densefield.crf.mean_field import log_softmax
from densefield.errors import InputError


def infer(energies: np.ndarray, iterations: int = 1) -> np.ndarray:
    labels, points = energies.shape
    crf = dcrf.DenseCRF(points, labels)
    crf.setUnaryEnergy(energies)
    return np.array(crf.inference(iterations))


@pytest.mark.parametrize("points", [0, 1, 63, 64, 65, 3000])
@pytest.mark.parametrize("labels", [1, 2, 3, 4, 5, 21, 33, 70])
def test_without_kernels_marginals_are_the_softmax_of_minus_energies(labels: int, points: int) -> None:
    energies = (3 * np.random.default_rng(labels * points).normal(size=(labels, points))).astype(np.float32)
    expected = np.exp(log_softmax(-energies.T.astype(np.float64))).T
    assert np.abs(infer(energies, 2) - expected).max(initial=0) <= 1e-6  # float32


def test_extreme_energies_give_no_nan() -> None:
    huge = np.float32(3.4e38)
    energies = np.array([[-huge, 0, huge], [huge, 0, huge]], np.float32)
    assert infer(energies).tolist() == [[1, 0.5, 0.5], [0, 0.5, 0.5]]
    crf = dcrf.DenseCRF(3, 2)
    crf.setUnaryEnergy(energies)
    assert not np.isnan(crf.klDivergence(crf.inference(1)))


def test_infinite_energies_exclude_labels() -> None:
    q = infer(np.array([[np.inf, 0.0], [0.0, np.inf], [0.0, 0.0]], np.float32))
    assert q.tolist() == [[0, 0.5], [0.5, 0], [0.5, 0.5]]


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_nan_and_minus_infinity_are_rejected(bad: float) -> None:
    with pytest.raises(InputError, match="hold NaN or minus infinity"):
        infer(np.array([[bad, 0.0], [0.0, 1.0]], np.float32))


def test_energies_are_copied() -> None:
    energies = np.zeros((2, 3), np.float32)
    crf = dcrf.DenseCRF(3, 2)
    crf.setUnaryEnergy(energies)
    energies[0] = 9
    assert np.array(crf.inference(0)).tolist() == [[0.5] * 3] * 2
