"""Energies as the drop-in keeps them: in rows, less what no marginal depends on, in a pixel order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield import _core
from densefield.crf.native import native_mean_field
from densefield.crf.softmax import log_softmax
from densefield.errors import InputError
from densefield.filters.pixel_order import PixelOrder
from densefield.pydensecrf.buffers import Float32
from densefield.pydensecrf.inference import Scores

LABELS = [1, 2, 3, 4, 5, 21, 32, 33, 70]


def energies_of(labels: int, points: int, scale: float = 3.0) -> Float32:
    return (scale * np.random.default_rng(labels * points).normal(size=(labels, points))).astype(np.float32)


@pytest.mark.parametrize("order", [None, PixelOrder(30, 100), PixelOrder(100, 30), PixelOrder(3000, 1)])
@pytest.mark.parametrize("labels", LABELS)
def test_rows_give_the_scores_back(labels: int, order: PixelOrder | None) -> None:
    energies = energies_of(labels, 3000)
    scores = Scores(energies, order)
    # The largest is taken away and put back: one rounding each of numbers up to 30.
    assert np.abs(scores.planes() + energies).max() <= 4e-6


@pytest.mark.parametrize("order", [None, PixelOrder(30, 100)])
@pytest.mark.parametrize("labels", LABELS)
def test_without_kernels_marginals_are_the_softmax(labels: int, order: PixelOrder | None) -> None:
    energies = energies_of(labels, 3000)
    expected = np.exp(log_softmax(-energies.T.astype(np.float64))).T
    assert np.abs(Scores(energies, order).infer([], 2) - expected).max() <= 1e-6  # float32
    start = np.exp(log_softmax(energies_of(labels, 3000, 1.0).T)).T.copy()
    assert np.abs(Scores(energies, order).infer([], 2, start) - expected).max() <= 1e-6


@pytest.mark.parametrize("points", [0, 1, 63, 64, 65, 10_000])
def test_any_number_of_points_does(points: int) -> None:
    energies = energies_of(3, points)
    q = Scores(energies).infer([], 1)
    expected = np.empty_like(energies)
    native_mean_field([], -energies, 1, 2, marginals=expected)
    assert np.array_equal(q, expected)


def test_energies_beyond_each_others_range_are_no_nan() -> None:
    huge = np.float32(3.4e38)
    scores = Scores(np.array([[-huge, 0, huge], [huge, 0, huge]], np.float32))
    assert np.isfinite(scores.planes()).all()
    assert scores.infer([], 1).tolist() == [[1, 0.5, 0.5], [0, 0.5, 0.5]]
    q = np.array([[1, 0.5, 0.5], [0, 0.5, 0.5]], np.float32)
    assert not np.isnan(scores.kl_divergence([], q))


def test_infinite_energies_rule_labels_out() -> None:
    q = Scores(np.array([[np.inf, 0.0], [0.0, np.inf], [0.0, 0.0]], np.float32)).infer([], 1)
    assert q.tolist() == [[0, 0.5], [0.5, 0], [0.5, 0.5]]
    for bad in (np.nan, -np.inf):
        with pytest.raises(InputError):
            Scores(np.array([[bad, 0.0], [0.0, 1.0]], np.float32))


def zeros(*shape: int) -> Float32:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    "given",
    [
        (None, None, 1, "auto"),
        (zeros(6), None, 1, "auto"),
        (zeros(0, 6), None, 1, "auto"),
        (zeros(2, 6), _core.PixelOrder(2, 4), 1, "auto"),
        (zeros(2, 6), 3, 1, "auto"),
        (zeros(2, 6), None, 0, "auto"),
        (zeros(2, 6), None, 1025, "auto"),
        (zeros(2, 6), None, 1, "mmx"),
    ],
)
def test_rows_of_what_does_not_fit_are_an_error(given: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        _core.ScoreRows(*given)


def test_arrays_that_do_not_fit_the_rows_are_an_error() -> None:
    rows = _core.ScoreRows(zeros(2, 6), None, 1, "auto")
    for out in (zeros(2, 5), zeros(3, 6), zeros(12), None):
        with pytest.raises((TypeError, ValueError)):
            rows.fill_scores(out, 1, "auto")  # type: ignore[arg-type]
        with pytest.raises((TypeError, ValueError)):
            rows.infer([], None, 1, out, 1, "auto")  # type: ignore[arg-type]
    for changes in ({"start": zeros(2, 5)}, {"iterations": -1}, {"threads": 0}, {"simd": "mmx"}, {"couplings": [3]}):
        given: dict[str, Any] = {"couplings": [], "start": None, "iterations": 1, "marginals": zeros(2, 6)}
        with pytest.raises((TypeError, ValueError)):
            rows.infer(**{**given, "threads": 1, "simd": "auto", **changes})
    with pytest.raises(ValueError, match="threads"):
        rows.fill_scores(zeros(2, 6), 0, "auto")
