"""Wrong arguments of the native functions raise, whatever they are: no array is read or written past its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from densefield import LatticeFilter, _core

LABELS, POINTS, STEPS, DIMENSION = 3, 100, 2, 2
STATE = 2 * 64 * LABELS
SWAPPED = np.dtype(np.float32).newbyteorder()  # the other end first

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


def other_points() -> Any:
    ones = np.ones(50, np.float32)
    return coupling(lattice=LatticeFilter(FEATURES[:50]).native, before=ones, after=ones)


@pytest.mark.parametrize("call", [mean_field, back_track, fill_features])
def test_arguments_that_fit_are_taken(call: Callable[[], Any]) -> None:
    assert call() == (STEPS if call is mean_field else None)


@pytest.mark.parametrize(
    "changes",
    [
        {"lattice": None},
        {"lattice": 3},
        {"lattice": FEATURES},
        {"magnitude": "one"},
        {"before": zeros(POINTS - 1)},
        {"before": zeros(POINTS, 1)},
        {"before": None},
        {"after": zeros(POINTS + 1)},
        {"after": np.ones(POINTS, SWAPPED)},
        {"own": zeros(3)},
        {"mu": None},
        {"mu": zeros(3, 4)},
        {"mu": zeros(3, 3, 3)},
    ],
)
def test_a_coupling_that_does_not_fit_is_an_error(changes: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        coupling(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"couplings": None},
        {"couplings": [3]},
        {"couplings": [other_points()]},
        {"couplings": [coupling(), other_points()]},
        {"couplings": [coupling(mu=zeros(4))]},
        {"couplings": [coupling(mu=zeros(4, 4))]},
        {"couplings": [coupling(mu=zeros(0))]},
        {"scores": None},
        {"scores": [[1.0]]},
        {"scores": zeros(LABELS, POINTS + 1)},
        {"scores": zeros(LABELS, 0)},
        {"scores": zeros(0, POINTS)},
        {"scores": zeros(1, LABELS, POINTS)},
        {"scores": zeros(LABELS + 1, POINTS)},
        {"scores": np.zeros((LABELS, POINTS), SWAPPED)},
        {"start": zeros(LABELS, POINTS - 1)},
        {"start": zeros(LABELS + 1, POINTS)},
        {"start": zeros(LABELS * POINTS)},
        {"iterations": -1},
        {"iterations": STEPS + 1},
        {"iterations": 1 << 40},
        {"iterations": 1.5},
        {"marginals": zeros(LABELS, POINTS - 1)},
        {"marginals": zeros(LABELS - 1, POINTS)},
        {"marginals": zeros(POINTS, LABELS)},
        {"marginals": read_only(LABELS, POINTS)},
        {"log_marginals": zeros(LABELS, POINTS + 1)},
        {"log_marginals": zeros(LABELS * POINTS)},
        {"states": zeros(STEPS, LABELS * POINTS)},
        {"states": zeros(STEPS - 1, STATE)},
        {"states": zeros(STEPS * STATE)},
        {"residuals": zeros(STEPS - 1)},
        {"residuals": zeros(STEPS, 1)},
        {"tolerance": None},
        {"tolerance": "none"},
        {"threads": 0},
        {"threads": -1},
        {"threads": 1025},
        {"simd": "mmx"},
        {"simd": None},
    ],
)
def test_mean_field_of_what_does_not_fit_is_an_error(changes: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        mean_field(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"couplings": []},
        {"couplings": [other_points()]},
        {"couplings": [coupling(mu=zeros(4))]},
        {"cotangent": zeros(LABELS, POINTS + 1)},
        {"cotangent": zeros(LABELS + 1, POINTS)},
        {"cotangent": zeros(0, POINTS)},
        {"log_marginals": zeros(LABELS, POINTS - 1)},
        {"states": zeros(STEPS + 1, STATE)},
        {"states": zeros(STEPS, STATE - 1)},
        {"iterations": -1},
        {"iterations": STEPS + 1},
        {"scores": zeros(LABELS - 1, POINTS)},
        {"scores": read_only(LABELS, POINTS)},
        {"gradients": []},
        {"gradients": [3]},
        {"gradients": [gradients(), gradients()]},
        {"threads": 0},
        {"simd": "mmx"},
    ],
)
def test_back_tracking_of_what_does_not_fit_is_an_error(changes: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        back_track(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"mu": np.zeros(LABELS)},
        {"features": None},
        {"features": FEATURES[:50]},
        {"features": FEATURES[:, :1]},
        {"moments": np.zeros((DIMENSION, DIMENSION + 1))},
        {"sent": None},
        {"sent": zeros(3)},
        {"received": None},
        {"received": zeros(POINTS + 1)},
        {"slopes": zeros(POINTS, DIMENSION + 1)},
        {"slopes": zeros(POINTS - 1, DIMENSION)},
        {"slopes": read_only(POINTS, DIMENSION)},
    ],
)
def test_gradients_that_do_not_fit_are_an_error(changes: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        back_track(gradients=[gradients(**changes)])


@pytest.mark.parametrize("own", [None, zeros(2)])
def test_a_coupling_with_a_diagonal_asks_for_its_gradient(own: Any) -> None:
    couplings = [coupling(own=zeros(POINTS))]
    with pytest.raises(ValueError, match="own must be"):
        back_track(couplings=couplings, gradients=[gradients(own=own)])
    back_track(couplings=couplings, gradients=[gradients(own=zeros(POINTS))])


@pytest.mark.parametrize(
    "changes",
    [
        {"columns": None},
        {"columns": zeros(POINTS)},
        {"columns": zeros(POINTS, 2, 1)},
        {"columns": zeros(POINTS + 1, 2)},
        {"columns": zeros(POINTS, 3)},
        {"columns": np.zeros((POINTS, 2), np.int32)},
        {"columns": np.zeros((POINTS, 2), np.float16)},
        {"columns": np.zeros((POINTS, 2), np.complex64)},
        {"columns": np.zeros((POINTS, 2), SWAPPED)},
        {"widths": [1.0]},
        {"widths": [1.0, None]},
        {"widths": "ab"},
        {"offset": -1},
        {"offset": 2},
        {"offset": (1 << 63) - 1},
        {"out": zeros(POINTS - 1, 3)},
        {"out": zeros(POINTS * 3)},
        {"out": read_only(POINTS, 3)},
        {"threads": 0},
        {"threads": 1025},
    ],
)
def test_features_that_do_not_fit_are_an_error(changes: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        fill_features(**changes)


@pytest.mark.parametrize(
    "call",
    [
        lambda: _core.all_finite(zeros(2, 3), 1),
        lambda: _core.all_finite(None, 1),
        lambda: _core.all_finite(zeros(3), 0),
        lambda: _core.all_finite(zeros(3), 1025),
        lambda: _core.new_array(-1, 3),
        lambda: _core.new_array(1 << 62, 1 << 62),
        lambda: _core.new_array(1, 1 << 60),
    ],
)
def test_passes_over_arrays_that_do_not_fit_are_an_error(call: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, ValueError, MemoryError)):
        call()


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 300_000])
def test_passes_over_arrays_see_every_number(size: int) -> None:
    values = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    assert _core.all_finite(values, 2)
    for place in {0, size // 2, size - 1} if size else ():
        for value in (np.nan, np.inf, -np.inf):
            spoilt = values.copy()
            spoilt[place] = value
            assert not _core.all_finite(spoilt, 2)
