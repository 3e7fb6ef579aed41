"""Energies as the drop-in keeps them: in rows, less what no marginal depends on, in a pixel order."""

from __future__ import annotations

import re
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
from tests.support.misuse import WRONG_TYPE

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
        with pytest.raises(InputError, match="energ"):
            Scores(np.array([[bad, 0.0], [0.0, 1.0]], np.float32))


def zeros(*shape: int) -> Float32:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    "given, error, message",
    [
        ((None, None, 1, "auto"), *WRONG_TYPE),
        ((zeros(6), None, 1, "auto"), *WRONG_TYPE),
        ((zeros(0, 6), None, 1, "auto"), ValueError, "num_classes must be 1 to 2^20"),
        ((zeros(2, 6), _core.PixelOrder(2, 4), 1, "auto"), ValueError, "the pixel order has another number of points"),
        ((zeros(2, 6), 3, 1, "auto"), RuntimeError, "std::bad_cast"),
        ((zeros(2, 6), None, 0, "auto"), ValueError, "threads must be 1 to 1024"),
        ((zeros(2, 6), None, 1025, "auto"), ValueError, "threads must be 1 to 1024"),
        ((zeros(2, 6), None, 1, "mmx"), ValueError, "simd is 'mmx'"),
    ],
)
def test_invalid_score_rows_raise(given: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        _core.ScoreRows(*given)


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"marginals": zeros(2, 5)}, ValueError, "marginals must be (num_classes, points)"),
        ({"marginals": zeros(3, 6)}, ValueError, "marginals must be (num_classes, points)"),
        ({"marginals": zeros(12)}, *WRONG_TYPE),
        ({"marginals": None}, *WRONG_TYPE),
        ({"start": zeros(2, 5)}, ValueError, "arrays differ in shape"),
        ({"iterations": -1}, ValueError, "iterations must be"),
        ({"threads": 0}, ValueError, "threads must be"),
        ({"simd": "mmx"}, ValueError, "simd is 'mmx'"),
        ({"couplings": [3]}, *WRONG_TYPE),
    ],
)
def test_inference_with_invalid_arguments_raises(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    rows = _core.ScoreRows(zeros(2, 6), None, 1, "auto")
    given: dict[str, Any] = {"couplings": [], "start": None, "iterations": 1, "marginals": zeros(2, 6)}
    with pytest.raises(error, match=re.escape(message)):
        rows.infer(**{**given, "threads": 1, "simd": "auto", **changes})


@pytest.mark.parametrize(
    "out, threads, error, message",
    [
        (zeros(2, 5), 1, ValueError, "out must be (num_classes, points)"),
        (zeros(3, 6), 1, ValueError, "out must be (num_classes, points)"),
        (zeros(12), 1, *WRONG_TYPE),
        (None, 1, *WRONG_TYPE),
        (zeros(2, 6), 0, ValueError, "threads must be"),
    ],
)
def test_filling_scores_with_invalid_arguments_raises(
    out: Any, threads: int, error: type[Exception], message: str
) -> None:
    rows = _core.ScoreRows(zeros(2, 6), None, 1, "auto")
    with pytest.raises(error, match=re.escape(message)):
        rows.fill_scores(out, threads, "auto")
