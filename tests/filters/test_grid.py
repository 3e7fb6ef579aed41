"""The Gaussian on a pixel grid against the sum that defines it.

Float32 rounds each product and sum by 6e-8, so values that are all positive come out within a few times 1e-7
times the square root of the number of taps; the window of the coarser grid adds 4e-8 of the peak, and
keeping the filter positive 1e-7.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

from densefield import _core
from densefield.filters.grid import GridFilter
from densefield.filters.grid_axis import plan_axis

CASES = {
    "1-D, all taps": ((150,), (2.0,)),
    "1-D, coarser grid": ((150,), (11.0,)),
    "2-D, narrow": ((31, 47), (1.0, 0.7)),
    "2-D, last of all taps": ((64, 71), (4.4, 4.5)),
    "2-D, first of the coarser grid": ((128, 131), (4.8, 5.0)),
    "2-D, wide": ((90, 75), (30.0, 12.0)),
    "2-D, wide and narrow": ((75, 90), (40.0, 1.5)),
    "2-D, narrow and wide": ((75, 90), (1.5, 40.0)),
    "2-D, one channel wide": ((1, 200), (3.0, 25.0)),
    "2-D, wider than the image": ((40, 50), (300.0, 1e4)),
    "2-D, more rows than one item": ((1100, 3), (3.0, 1.0)),
    "2-D, more pixels than one item": ((3, 2300), (1.0, 6.0)),
    "3-D": ((11, 23, 33), (1.5, 9.0, 2.5)),
    "3-D, wide": ((40, 34, 45), (12.0, 9.0, 20.0)),
}
cases = pytest.mark.parametrize("shape, sigma", CASES.values(), ids=CASES.keys())


def axis_kernel(n: int, sigma: float) -> np.ndarray:
    """exp(-½ (i-j)²/sigma²), (n, n)."""
    i = np.arange(n)
    return np.exp(-0.5 * ((i[:, None] - i) / sigma) ** 2)


def grid_filter_reference(shape, sigma, values):
    """The sum over all pixels in float64, axis by axis."""
    result = values.astype(np.float64).reshape(*values.shape[:-2], *shape, values.shape[-1])
    for axis, (n, s) in enumerate(zip(shape, sigma, strict=True)):
        kernel = axis_kernel(n, s)
        at = axis - len(shape) - 1
        result = np.moveaxis(np.tensordot(kernel, result, (1, at)), 0, at)
    return result.reshape(values.shape)


def random_values(*shape: int, seed: int = 20117) -> np.ndarray:
    return np.random.default_rng(seed).random(shape, np.float32)


def relative_error(result: np.ndarray, truth: np.ndarray) -> float:
    return float(np.abs(result - truth).max() / np.abs(truth).max())


def dense_from_tables(n: int, sigma: float) -> np.ndarray:
    """The matrix that the numbers given to the native filter stand for, without rounding on the way."""
    plan = plan_axis(n, sigma)
    size = int(plan.cells[-1]) + _core.GRID_SUPPORT if plan.has_nodes else n
    taps = np.zeros(max(size, len(plan.taps)))
    taps[: len(plan.taps)] = plan.taps
    blur = taps[np.abs(np.arange(size)[:, None] - np.arange(size))]
    if not plan.has_nodes:
        return blur
    splat = np.zeros((n, size))
    for k in range(_core.GRID_SUPPORT):
        splat[np.arange(n), plan.cells + k] = plan.weights[:, k]
    return splat @ blur @ splat.T


def test_the_reference_is_the_sum_over_all_pairs_of_pixels():
    shape, sigma = (4, 5, 6), (1.5, 0.8, 3.0)
    positions = np.indices(shape).reshape(3, -1).T / sigma
    squares = ((positions[:, None] - positions) ** 2).sum(-1)
    values = random_values(120, 2)
    assert np.allclose(grid_filter_reference(shape, sigma, values), np.exp(-0.5 * squares) @ values, rtol=1e-13)


@cases
def test_result_is_the_exact_sum(shape, sigma):
    values = random_values(int(np.prod(shape)), 5)
    result = GridFilter(shape, sigma).apply(values)
    # Rounding of up to fifty taps and six passes; 8.4e-7 was the largest measured.
    assert relative_error(result, grid_filter_reference(shape, sigma, values)) < 1.5e-6


@cases
def test_one_axis_is_within_its_stated_error_of_the_gaussian(shape, sigma):
    for n, s in zip(shape, sigma, strict=True):
        # Of the peak, before any rounding of sums: window, float32 tables, and what keeps them positive.
        error = np.abs(dense_from_tables(n, s) - axis_kernel(n, s)).max()
        assert error < (2e-7 if plan_axis(n, s).has_nodes else 5e-7)


def test_both_ways_are_in_use():
    assert not plan_axis(500, 3.0).has_nodes
    assert plan_axis(500, 6.0).has_nodes


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 7, 16, 21, 64, 129, 300])
def test_any_number_of_channels_is_filtered(channels):
    for sigma in (1.3, 8.0):
        values = random_values(41 * 37, channels)
        result = GridFilter((41, 37), sigma).apply(values)
        assert relative_error(result, grid_filter_reference((41, 37), (sigma, sigma), values)) < 2e-6


def test_signed_values_are_exact_to_the_rounding_of_their_size():
    values = random_values(60 * 70, 3) - 0.5
    for sigma in (3.0, 20.0):
        result = GridFilter((60, 70), sigma).apply(values)
        truth = grid_filter_reference((60, 70), (sigma, sigma), values)
        size = grid_filter_reference((60, 70), (sigma, sigma), np.abs(values))
        assert np.abs((result - truth) / size).max() < 2e-6


def test_filter_is_linear():
    blur = GridFilter((50, 60), (2.0, 9.0))
    a, b = random_values(3000, 4), random_values(3000, 4, seed=733)
    together = blur.apply(2 * a + 3 * b)
    assert relative_error(together, 2 * blur.apply(a) + 3 * blur.apply(b)) < 2e-6  # float32 on both sides


@cases
def test_adjoint_is_the_transpose(shape, sigma):
    blur = GridFilter(shape, sigma)
    a, b = random_values(blur.num_points, 2), random_values(blur.num_points, 2, seed=91)
    left = np.vdot(a.astype(np.float64), blur.apply(b))
    right = np.vdot(blur.apply_adjoint(a).astype(np.float64), b)
    assert left == pytest.approx(right, rel=1e-6)  # exact but for the rounding of the two filterings


@pytest.mark.parametrize("sigma", [(1.0, 2.0), (8.0, 2.5), (15.0, 40.0)])
def test_dense_matrix_is_symmetric_and_positive_up_to_rounding(sigma):
    dense = GridFilter((30, 33), sigma).to_dense().astype(np.float64)
    assert np.abs(dense - dense.T).max() < 6e-7  # the two triangles round in different orders
    smallest, *_, largest = np.linalg.eigvalsh((dense + dense.T) / 2)
    assert smallest > -1e-7 * largest  # -1e-8 measured


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.0, 2.7, 3.3, 4.5, 5.0, 8.1, 15.0, 60.0, 1e3, 1e6])
@pytest.mark.parametrize("n", [7, 12, 30, 250])
def test_operator_before_rounding_is_positive_semi_definite(n, sigma):
    smallest, *_, largest = np.linalg.eigvalsh(dense_from_tables(n, sigma))
    assert smallest > -1e-14 * n * largest  # what float64 eigenvalues of a singular matrix scatter by


@cases
def test_diagonal_is_that_of_the_operator(shape, sigma):
    blur = GridFilter(shape, sigma)
    diagonal = blur.diagonal()
    assert diagonal.shape == (blur.num_points,) and diagonal.dtype == np.float32
    assert np.abs(diagonal - 1).max() < 2e-7 * len(shape)
    some = np.random.default_rng(5).choice(blur.num_points, 10)
    for i in some:
        assert blur.apply(blur.identity(i, i + 1))[i, 0] == pytest.approx(diagonal[i], abs=5e-7)


@cases
@pytest.mark.parametrize("simd", _core.available_simd())
def test_batch_equals_single_calls_bit_for_bit(simd, shape, sigma):
    blur = GridFilter(shape, sigma, simd=simd)
    batch = random_values(3, blur.num_points, 5)
    together = blur.apply(batch)
    for one, result in zip(batch, together, strict=True):
        assert np.array_equal(blur.apply(one), result)


@cases
def test_any_number_of_threads_and_any_repetition_give_the_same_bits(shape, sigma):
    values = random_values(int(np.prod(shape)), 21)
    cotangent = random_values(int(np.prod(shape)), 21, seed=8)
    first = GridFilter(shape, sigma, threads=1)
    result, gradient = first.apply(values), first.sigma_gradient(cotangent, values)
    for threads in (1, 2, 3):
        blur = GridFilter(shape, sigma, threads=threads)
        for _ in range(3):
            assert np.array_equal(blur.apply(values), result)
            assert np.array_equal(blur.sigma_gradient(cotangent, values), gradient)


@cases
@pytest.mark.parametrize("simd", _core.available_simd())
def test_every_instruction_set_agrees(simd, shape, sigma):
    values = random_values(int(np.prod(shape)), 21)
    result = GridFilter(shape, sigma, simd=simd).apply(values)
    # Fused multiply-adds round once where the baseline rounds twice.
    assert relative_error(result, GridFilter(shape, sigma).apply(values)) < 2e-6


def test_several_python_threads_may_use_one_filter():
    blur = GridFilter((80, 90), (3.0, 14.0), threads=2)
    inputs = [random_values(7200, 6, seed=seed) for seed in range(6)]
    expected = [blur.apply(values) for values in inputs]
    wrong = []

    def work(index: int) -> None:
        for _ in range(20):
            if not np.array_equal(blur.apply(inputs[index]), expected[index]):
                wrong.append(index)

    workers = [threading.Thread(target=work, args=(index,)) for index in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_an_enormous_sigma_sums_and_a_tiny_one_does_nothing():
    values = random_values(64 * 80, 3)
    for sigma in (1e6, 1e30, 1e300):
        # 1e6 px is 2e-9 from the sum over these 80; what is seen is float32.
        assert relative_error(GridFilter((64, 80), sigma).apply(values), values.sum(0, np.float64)) < 1e-6
    for sigma in (1e-3, 1e-30, 5e-324):
        assert np.array_equal(GridFilter((64, 80), sigma).apply(values), values)


def test_sums_over_very_many_pixels_do_not_drift():
    n = 300_000
    for sigma in (900.0, 20_000.0, 1e6):
        result = GridFilter((n,), sigma).apply(np.full((n, 1), 0.1, np.float32))[:, 0]
        kernel = np.exp(-0.5 * (np.arange(-n + 1, n) / sigma) ** 2)
        cumulative = np.concatenate([[0.0], np.cumsum(kernel)])  # of float64: sums over any window
        i = np.arange(n)
        truth = np.float64(np.float32(0.1)) * (cumulative[2 * n - 1 - i] - cumulative[n - 1 - i])
        # A running sum in float32 would be off by 1e-3 here.
        assert relative_error(result, truth) < 1e-5


@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 1, 1), (1, 6), (6, 1), (2, 1, 3)])
def test_axes_of_one_pixel_are_filtered(shape):
    for sigma in (0.5, 2.0, 1e3):
        values = random_values(int(np.prod(shape)), 2)
        truth = grid_filter_reference(shape, (sigma,) * len(shape), values)
        assert relative_error(GridFilter(shape, sigma).apply(values), truth) < 1e-6


@cases
def test_sigma_gradient_is_that_of_the_exact_sum(shape, sigma):
    blur = GridFilter(shape, sigma)
    values = random_values(2, blur.num_points, 3)
    cotangent = random_values(2, blur.num_points, 3, seed=424)
    gradient = blur.sigma_gradient(cotangent, values)
    assert gradient.shape == (len(shape),) and gradient.dtype == np.float64
    for axis, width in enumerate(sigma):
        step = 1e-4 * width
        ends = []
        for sign in (1, -1):
            moved = [s + sign * step * (a == axis) for a, s in enumerate(sigma)]
            ends.append(np.vdot(cotangent.astype(np.float64), grid_filter_reference(shape, moved, values)))
        difference = (ends[0] - ends[1]) / (2 * step)
        # Central differences are off by 1e-8; where sigma dwarfs the image the derivative is smaller than
        # what rounds in the sum itself, 1e-6 of which is allowed for (per unit of log sigma).
        slack = 1e-6 * ends[0] / width
        assert gradient[axis] == pytest.approx(difference, rel=2e-6, abs=slack)


def test_sigma_gradient_of_signed_values_is_exact_to_the_rounding_of_their_size():
    shape, sigma = (70, 80), np.array([3.0, 20.0])
    values = random_values(5600, 4) - 0.5
    cotangent = random_values(5600, 4, seed=11) - 0.5
    blur = GridFilter(shape, sigma)
    gradient = blur.sigma_gradient(cotangent, values)
    size = blur.sigma_gradient(np.abs(cotangent), np.abs(values))
    for axis in range(2):
        step = 1e-4 * sigma[axis] * np.eye(2)[axis]
        ends = [
            np.vdot(cotangent.astype(np.float64), grid_filter_reference(shape, moved, values))
            for moved in (sigma + step, sigma - step)
        ]
        assert abs(gradient[axis] - (ends[0] - ends[1]) / (2 * step[axis])) < 1e-6 * size[axis]
