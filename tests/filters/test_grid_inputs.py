"""What GridFilter accepts, and what it says to what it does not."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import _core
from densefield.errors import InputError, InputTypeError
from densefield.filters.grid import GridFilter
from densefield.filters.threads import check_threads, default_threads


def random_values(*shape: int, seed: int = 20117) -> np.ndarray:
    return np.random.default_rng(seed).random(shape, np.float32)


@pytest.mark.parametrize("shape", [(0,), (0, 5), (4, 0), (3, 0, 2), (0, 0, 0)])
def test_empty_grids_give_empty_results(shape):
    for sigma in (1.0, 50.0):
        blur = GridFilter(shape, sigma)
        assert blur.num_points == 0
        assert blur.apply(np.empty((0, 3), np.float32)).shape == (0, 3)
        assert blur.apply(np.empty((2, 0, 3), np.float32)).shape == (2, 0, 3)
        assert blur.diagonal().shape == (0,)
        empty = np.empty((0, 3), np.float32)
        assert np.array_equal(blur.sigma_gradient(empty, empty), np.zeros(len(shape)))


def test_an_empty_batch_gives_an_empty_result():
    assert GridFilter((4, 5), 2.0).apply(np.empty((0, 20, 3), np.float32)).shape == (0, 20, 3)


def test_out_is_filled_and_returned():
    blur = GridFilter((20, 30), 2.0)
    values = random_values(600, 4)
    out = np.empty_like(values)
    assert blur.apply(values, out) is out
    assert np.array_equal(out, blur.apply(values))


def test_input_in_any_memory_order_is_filtered():
    blur = GridFilter((20, 30), 2.0)
    values = random_values(600, 8)
    assert np.array_equal(blur.apply(values[:, ::2]), blur.apply(values[:, ::2].copy()))
    assert np.array_equal(blur.apply(np.asfortranarray(values)), blur.apply(values))
    assert np.array_equal(blur.apply(values[::-1]), blur.apply(values[::-1].copy()))


def test_identity_gives_the_columns_asked_for():
    blur = GridFilter((3, 4), 1.0)
    assert np.array_equal(blur.identity(2, 5), np.eye(12, dtype=np.float32)[:, 2:5])
    with pytest.raises(InputError, match="columns 5 to 13"):
        blur.identity(5, 13)


@pytest.mark.parametrize(
    "shape, sigma, error, message",
    [
        ((), 1.0, InputError, "0 axes, expected 1 to 3"),
        ((2, 2, 2, 2), 1.0, InputError, "4 axes"),
        ((3, -1), 1.0, InputError, "extents of 0 or more"),
        ((2**40, 2**40), 1.0, InputError, "at most 2\\*\\*60"),
        ((3.5, 2), 1.0, InputTypeError, "whole numbers"),
        (7, 1.0, InputTypeError, "whole numbers"),
        ((3, 4), (1.0, 2.0, 3.0), InputError, "one number, or 2"),
        ((3, 4), "wide", InputTypeError, "a number of pixels"),
        ((3, 4), None, InputError, "finite numbers above 0"),
        ((3, 4), 0.0, InputError, "above 0"),
        ((3, 4), (1.0, -1.0), InputError, "above 0"),
        ((3, 4), np.nan, InputError, "finite"),
        ((3, 4), np.inf, InputError, "finite"),
    ],
)
def test_unusable_grids_are_refused(shape, sigma, error, message):
    with pytest.raises(error, match=message):
        GridFilter(shape, sigma)


def test_unusable_values_are_refused():
    blur = GridFilter((3, 4), 1.0)
    with pytest.raises(InputTypeError, match="float64, expected float32"):
        blur.apply(np.zeros((12, 2)))
    with pytest.raises(InputTypeError, match="a list, expected a numpy array"):
        blur.apply([[1.0]] * 12)
    for shape in ((12,), (11, 2), (2, 13, 2), (1, 1, 12, 2)):
        with pytest.raises(InputError, match=r"expected \(12, C\) or \(B, 12, C\)"):
            blur.apply(np.zeros(shape, np.float32))
    with pytest.raises(InputError, match="cotangent has shape"):
        blur.sigma_gradient(np.zeros((12, 1), np.float32), np.zeros((12, 2), np.float32))


def test_unusable_outputs_are_refused():
    blur = GridFilter((3, 4), 1.0)
    values = np.zeros((12, 2), np.float32)
    frozen = np.empty_like(values)
    frozen.flags.writeable = False
    with pytest.raises(InputTypeError, match="out is float64"):
        blur.apply(values, np.empty((12, 2)))
    with pytest.raises(InputTypeError, match="out is list"):
        blur.apply(values, [])
    with pytest.raises(InputError, match="shape"):
        blur.apply(values, np.empty((1, 12, 2), np.float32))
    with pytest.raises(InputError, match="contiguous"):
        blur.apply(values, np.empty((12, 4), np.float32)[:, ::2])
    with pytest.raises(InputError, match="writable"):
        blur.apply(values, frozen)
    with pytest.raises(InputError, match="shares memory"):
        blur.apply(values, values)


def test_unusable_threads_and_instruction_sets_are_refused():
    assert check_threads(None) == default_threads() >= 1
    assert check_threads(np.int64(3)) == 3
    for threads in (0, -1, 10_000):
        with pytest.raises(InputError, match="expected 1 to"):
            GridFilter((3, 4), 1.0, threads=threads)
    for threads in (1.5, "two", True):
        with pytest.raises(InputTypeError, match="expected an integer"):
            GridFilter((3, 4), 1.0, threads=threads)
    with pytest.raises(InputError, match="this processor runs: auto, baseline"):
        GridFilter((3, 4), 1.0, simd="mmx")


def test_native_code_checks_sizes_itself():
    def axis(pixels, taps=1, cells=(), weights=None):
        weights = np.zeros((len(cells), _core.GRID_SUPPORT), np.float32) if weights is None else weights
        tap_array = np.ones(taps, np.float32)
        return _core.GridAxis(pixels, tap_array, tap_array, np.array(cells, np.int64), weights)

    for wrong in (
        lambda: axis(-1),
        lambda: axis(4, taps=0),
        lambda: axis(20, cells=[0] * 19),
        lambda: axis(20, cells=[0] * 20, weights=np.zeros((19, _core.GRID_SUPPORT), np.float32)),
        lambda: axis(20, cells=[1] * 20),
        lambda: axis(20, cells=[0, 2, 1] + [3] * 17),
        lambda: axis(20, cells=[0] * 19 + [14]),
        lambda: axis(20, cells=[0] * 18 + [-5, 0]),
        lambda: axis(20, cells=[0] * 19 + [2**62]),
        lambda: axis(20, cells=[0] * 19 + [2**63 - 1]),
        lambda: _core.GridFilter([axis(2**40), axis(2**40)], "auto"),
        lambda: _core.GridFilter([axis(4)], "mmx"),
    ):
        with pytest.raises(ValueError, match=r"."):
            wrong()
    native = _core.GridFilter([axis(4)], "auto")
    four, five = np.zeros((1, 4, 1), np.float32), np.zeros((1, 5, 1), np.float32)
    for values, out, threads in ((four, five, 1), (five, five, 1), (four, four.copy(), 0)):
        with pytest.raises(ValueError, match=r"."):
            native.apply(values, out, threads)
