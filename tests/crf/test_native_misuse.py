"""Native functions raise for wrong arguments instead of accessing arrays out of bounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from densefield import _core
from densefield.filters import LatticeFilter
from tests.support.misuse import WRONG_TYPE

LABELS, POINTS, STEPS, DIMENSION = 3, 100, 2, 2
STATE = 2 * 64 * LABELS
SWAPPED = np.dtype(np.float32).newbyteorder()  # the byte order that the processor does not use

FEATURES = np.random.default_rng(515).standard_normal((POINTS, DIMENSION)).astype(np.float32)
LATTICE = LatticeFilter(FEATURES).native


def zeros(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


def read_only(*shape: int) -> Any:
    return np.broadcast_to(np.float32(0), shape)


def coupling(**changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "lattice": LATTICE,
        "magnitude": 1.0,
        "before": np.ones(POINTS, np.float32),
        "after": np.ones(POINTS, np.float32),
        "own": None,
        "mu": np.array(2, np.float32),
    }
    return _core.Coupling(**{**arguments, **changes})


def mean_field(**changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "couplings": [coupling()],
        "scores": zeros(LABELS, POINTS),
        "start": None,
        "iterations": STEPS,
        "convergent": False,
        "marginals": zeros(LABELS, POINTS),
        "log_marginals": zeros(LABELS, POINTS),
        "states": zeros(STEPS, STATE),
        "residuals": zeros(STEPS),
        "tolerance": -1.0,
        "order": None,
        "threads": 2,
        "simd": "auto",
    }
    return _core.mean_field(**{**arguments, **changes})


def gradients(**changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "mu": np.zeros(()),
        "moments": np.zeros((DIMENSION, DIMENSION)),
        "sent": zeros(POINTS),
        "received": zeros(POINTS),
        "own": None,
        "features": FEATURES,
        "slopes": zeros(POINTS, DIMENSION),
    }
    return _core.Gradients(**{**arguments, **changes})


def back_track(**changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "couplings": [coupling()],
        "cotangent": zeros(LABELS, POINTS),
        "log_marginals": zeros(LABELS, POINTS),
        "states": zeros(STEPS, STATE),
        "iterations": STEPS,
        "convergent": True,
        "scores": zeros(LABELS, POINTS),
        "gradients": [gradients()],
        "order": None,
        "threads": 2,
        "simd": "auto",
    }
    return _core.mean_field_backward(**{**arguments, **changes})


def fill_features(**changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "columns": zeros(POINTS, 2),
        "widths": [1.0, 2.0],
        "out": zeros(POINTS, 3),
        "offset": 0,
        "order": None,
        "threads": 2,
    }
    return _core.fill_features(**{**arguments, **changes})


def fill_grid(**changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "lines": [zeros(POINTS // 5), zeros(5)],
        "columns": [2, 0],
        "out": zeros(POINTS, 3),
        "order": None,
        "threads": 2,
    }
    return _core.fill_grid(**{**arguments, **changes})


def other_points() -> Any:
    ones = np.ones(50, np.float32)
    return coupling(lattice=LatticeFilter(FEATURES[:50]).native, before=ones, after=ones)


@pytest.mark.parametrize("call", [mean_field, back_track, fill_features, fill_grid])
def test_valid_arguments_are_accepted(call: Callable[[], Any]) -> None:
    assert call() == (STEPS if call is mean_field else None)


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"lattice": None}, *WRONG_TYPE),
        ({"lattice": 3}, RuntimeError, "std::bad_cast"),
        ({"lattice": FEATURES}, RuntimeError, "std::bad_cast"),
        ({"magnitude": "one"}, *WRONG_TYPE),
        ({"before": zeros(POINTS - 1)}, ValueError, "before and after must have one number per point"),
        ({"before": zeros(POINTS, 1)}, *WRONG_TYPE),
        ({"before": None}, *WRONG_TYPE),
        ({"after": zeros(POINTS + 1)}, ValueError, "before and after must have one number per point"),
        ({"after": np.ones(POINTS, SWAPPED)}, *WRONG_TYPE),
        ({"own": zeros(3)}, ValueError, "own must have one number per point"),
        ({"mu": None}, *WRONG_TYPE),
        ({"mu": zeros(3, 4)}, ValueError, "mu must be"),
        ({"mu": zeros(3, 3, 3)}, ValueError, "mu must be"),
    ],
)
def test_an_invalid_coupling_raises(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        coupling(**changes)


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"couplings": None}, *WRONG_TYPE),
        ({"couplings": [3]}, *WRONG_TYPE),
        ({"couplings": [other_points()]}, ValueError, "a lattice is for another number of points"),
        ({"couplings": [coupling(), other_points()]}, ValueError, "a lattice is for another number of points"),
        ({"couplings": [coupling(mu=zeros(4))]}, ValueError, "mu is for another number of classes"),
        ({"couplings": [coupling(mu=zeros(4, 4))]}, ValueError, "mu is for another number of classes"),
        ({"couplings": [coupling(mu=zeros(0))]}, ValueError, "mu is for another number of classes"),
        ({"scores": None}, *WRONG_TYPE),
        ({"scores": [[1.0]]}, *WRONG_TYPE),
        ({"scores": zeros(LABELS, POINTS + 1)}, ValueError, "a lattice is for another number of points"),
        ({"scores": zeros(LABELS, 0)}, ValueError, "a lattice is for another number of points"),
        ({"scores": zeros(0, POINTS)}, ValueError, "num_classes must be 1 to 2^20"),
        ({"scores": zeros(1, LABELS, POINTS)}, *WRONG_TYPE),
        ({"scores": zeros(LABELS + 1, POINTS)}, ValueError, "arrays differ in shape"),
        ({"scores": np.zeros((LABELS, POINTS), SWAPPED)}, *WRONG_TYPE),
        ({"start": zeros(LABELS, POINTS - 1)}, ValueError, "arrays differ in shape"),
        ({"start": zeros(LABELS + 1, POINTS)}, ValueError, "arrays differ in shape"),
        ({"start": zeros(LABELS * POINTS)}, *WRONG_TYPE),
        ({"iterations": -1}, ValueError, "iterations must be 0 to 2^20"),
        ({"iterations": STEPS + 1}, ValueError, "states must be"),
        ({"iterations": 1 << 40}, *WRONG_TYPE),
        ({"iterations": 1.5}, *WRONG_TYPE),
        ({"marginals": zeros(LABELS, POINTS - 1)}, ValueError, "arrays differ in shape"),
        ({"marginals": zeros(LABELS - 1, POINTS)}, ValueError, "arrays differ in shape"),
        ({"marginals": zeros(POINTS, LABELS)}, ValueError, "arrays differ in shape"),
        ({"marginals": read_only(LABELS, POINTS)}, *WRONG_TYPE),
        ({"log_marginals": zeros(LABELS, POINTS + 1)}, ValueError, "arrays differ in shape"),
        ({"log_marginals": zeros(LABELS * POINTS)}, *WRONG_TYPE),
        ({"states": zeros(STEPS, LABELS * POINTS)}, ValueError, "states must be"),
        ({"states": zeros(STEPS - 1, STATE)}, ValueError, "states must be"),
        ({"states": zeros(STEPS * STATE)}, *WRONG_TYPE),
        ({"residuals": zeros(STEPS - 1)}, ValueError, "residuals must be"),
        ({"residuals": zeros(STEPS, 1)}, *WRONG_TYPE),
        ({"tolerance": None}, *WRONG_TYPE),
        ({"tolerance": "none"}, *WRONG_TYPE),
        ({"threads": 0}, ValueError, "threads must be 1 to 1024"),
        ({"threads": -1}, ValueError, "threads must be 1 to 1024"),
        ({"threads": 1025}, ValueError, "threads must be 1 to 1024"),
        ({"simd": "mmx"}, ValueError, "simd is 'mmx'"),
        ({"simd": None}, *WRONG_TYPE),
    ],
)
def test_mean_field_with_invalid_arguments_raises(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        mean_field(**changes)


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"couplings": []}, ValueError, "one set of gradients per coupling"),
        ({"couplings": [other_points()]}, ValueError, "a lattice is for another number of points"),
        ({"couplings": [coupling(mu=zeros(4))]}, ValueError, "mu is for another number of classes"),
        ({"cotangent": zeros(LABELS, POINTS + 1)}, ValueError, "a lattice is for another number of points"),
        ({"cotangent": zeros(LABELS + 1, POINTS)}, ValueError, "arrays differ in shape"),
        ({"cotangent": zeros(0, POINTS)}, ValueError, "num_classes must be 1 to 2^20"),
        ({"log_marginals": zeros(LABELS, POINTS - 1)}, ValueError, "arrays differ in shape"),
        ({"states": zeros(STEPS + 1, STATE)}, ValueError, "states must be"),
        ({"states": zeros(STEPS, STATE - 1)}, ValueError, "states must be"),
        ({"iterations": -1}, ValueError, "iterations must be 0 to 2^20"),
        ({"iterations": STEPS + 1}, ValueError, "states must be"),
        ({"scores": zeros(LABELS - 1, POINTS)}, ValueError, "arrays differ in shape"),
        ({"scores": read_only(LABELS, POINTS)}, *WRONG_TYPE),
        ({"gradients": []}, ValueError, "one set of gradients per coupling"),
        ({"gradients": [3]}, *WRONG_TYPE),
        ({"gradients": [gradients(), gradients()]}, ValueError, "one set of gradients per coupling"),
        ({"threads": 0}, ValueError, "threads must be 1 to 1024"),
        ({"simd": "mmx"}, ValueError, "simd is 'mmx'"),
    ],
)
def test_back_track_with_invalid_arguments_raises(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        back_track(**changes)


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"mu": np.zeros(LABELS)}, ValueError, "the gradient of mu must be like mu"),
        ({"features": None}, ValueError, "features must be"),
        ({"features": FEATURES[:50]}, ValueError, "features must be"),
        ({"features": FEATURES[:, :1]}, *WRONG_TYPE),
        ({"moments": np.zeros((DIMENSION, DIMENSION + 1))}, ValueError, "moments must be"),
        ({"sent": None}, ValueError, "moments and slopes need sent and received"),
        ({"sent": zeros(3)}, ValueError, "sent and received must be"),
        ({"received": None}, ValueError, "moments and slopes need sent and received"),
        ({"received": zeros(POINTS + 1)}, ValueError, "sent and received must be"),
        ({"slopes": zeros(POINTS, DIMENSION + 1)}, ValueError, "slopes must be"),
        ({"slopes": zeros(POINTS - 1, DIMENSION)}, ValueError, "slopes must be"),
        ({"slopes": read_only(POINTS, DIMENSION)}, *WRONG_TYPE),
    ],
)
def test_invalid_gradients_raise(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        back_track(gradients=[gradients(**changes)])


@pytest.mark.parametrize("own", [None, zeros(2)])
def test_a_coupling_with_a_diagonal_needs_an_array_for_its_gradient(own: Any) -> None:
    couplings = [coupling(own=zeros(POINTS))]
    with pytest.raises(ValueError, match="own must be"):
        back_track(couplings=couplings, gradients=[gradients(own=own)])
    back_track(couplings=couplings, gradients=[gradients(own=zeros(POINTS))])


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"columns": None}, *WRONG_TYPE),
        ({"columns": zeros(POINTS)}, *WRONG_TYPE),
        ({"columns": zeros(POINTS, 2, 1)}, *WRONG_TYPE),
        ({"columns": zeros(POINTS + 1, 2)}, ValueError, "out has no room for the columns"),
        ({"columns": zeros(POINTS, 3)}, ValueError, "one width per column"),
        ({"columns": np.zeros((POINTS, 2), np.int32)}, ValueError, "columns must be uint8, float32 or float64"),
        ({"columns": np.zeros((POINTS, 2), np.float16)}, ValueError, "columns must be uint8, float32 or float64"),
        ({"columns": np.zeros((POINTS, 2), np.complex64)}, ValueError, "columns must be uint8, float32 or float64"),
        ({"columns": np.zeros((POINTS, 2), SWAPPED)}, *WRONG_TYPE),
        ({"widths": [1.0]}, ValueError, "one width per column"),
        ({"widths": [1.0, None]}, *WRONG_TYPE),
        ({"widths": "ab"}, *WRONG_TYPE),
        ({"offset": -1}, ValueError, "out has no room for the columns"),
        ({"offset": 2}, ValueError, "out has no room for the columns"),
        ({"offset": (1 << 63) - 1}, ValueError, "out has no room for the columns"),
        ({"out": zeros(POINTS - 1, 3)}, ValueError, "out has no room for the columns"),
        ({"out": zeros(POINTS * 3)}, *WRONG_TYPE),
        ({"out": read_only(POINTS, 3)}, *WRONG_TYPE),
        ({"threads": 0}, ValueError, "threads must be 1 to 1024"),
        ({"threads": 1025}, ValueError, "threads must be 1 to 1024"),
    ],
)
def test_fill_features_with_invalid_arguments_raises(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        fill_features(**changes)


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"lines": None}, *WRONG_TYPE),
        ({"lines": [zeros(POINTS // 5, 1), zeros(5)]}, *WRONG_TYPE),
        ({"lines": [], "columns": []}, ValueError, "one column per line"),
        ({"lines": [zeros(POINTS // 5), zeros(6)]}, ValueError, "out is for another number of points"),
        ({"lines": [zeros(0), zeros(5)]}, ValueError, "out is for another number of points"),
        ({"columns": [1]}, ValueError, "one column per line"),
        ({"columns": [0, 3]}, ValueError, "out has no room for the columns"),
        ({"columns": [-1, 0]}, ValueError, "out has no room for the columns"),
        ({"out": zeros(POINTS * 3)}, *WRONG_TYPE),
        ({"out": read_only(POINTS, 3)}, *WRONG_TYPE),
        ({"order": _core.PixelOrder(1, POINTS + 1)}, ValueError, "the pixel order has another number of points"),
        ({"threads": 0}, ValueError, "threads must be 1 to 1024"),
    ],
)
def test_fill_grid_with_invalid_arguments_raises(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        fill_grid(**changes)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: _core.all_finite(zeros(2, 3), 1), *WRONG_TYPE),
        (lambda: _core.all_finite(None, 1), *WRONG_TYPE),
        (lambda: _core.all_finite(zeros(3), 0), ValueError, "threads must be 1 to 1024"),
        (lambda: _core.all_finite(zeros(3), 1025), ValueError, "threads must be 1 to 1024"),
        (lambda: _core.new_array(-1, 3), *WRONG_TYPE),
        (lambda: _core.new_array(1 << 62, 1 << 62), MemoryError, "std::bad_alloc"),
        (lambda: _core.new_array(1, 1 << 60), MemoryError, "std::bad_alloc"),
    ],
)
def test_array_functions_with_invalid_arguments_raise(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 300_000])
def test_all_finite_checks_every_number(size: int) -> None:
    values = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    assert _core.all_finite(values, 2)
    for place in {0, size // 2, size - 1} if size else ():
        for value in (np.nan, np.inf, -np.inf):
            spoilt = values.copy()
            spoilt[place] = value
            assert not _core.all_finite(spoilt, 2)
