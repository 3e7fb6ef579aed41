"""The exact sum compared with its definition, its gradient with finite differences, and its memory with a limit."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from densefield import InputError, InputTypeError
from densefield.filters import ExactFilter


def random(*shape: int, seed: int = 3001) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("dimension", [1, 3, 16])
def test_the_filter_equals_its_definition(dimension: int) -> None:
    x, v = random(60, dimension), random(60, 4, seed=1)
    expected = np.array([sum(np.exp(-0.5 * ((a - b) ** 2).sum()) * w for b, w in zip(x, v, strict=True)) for a in x])
    np.testing.assert_allclose(ExactFilter(x).apply(v), expected, rtol=1e-13)  # 60 terms of rounding 1e-16
    single = ExactFilter(x.astype(np.float32)).apply(v.astype(np.float32))
    np.testing.assert_allclose(single, expected, atol=1e-5)  # the same in float32


def test_the_result_does_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, v = random(50, 2), random(2, 50, 3)
    whole = ExactFilter(x).apply(v), *ExactFilter(x).gradients(v, v[::-1].copy())
    monkeypatch.setattr("densefield.filters.exact._BLOCK_BYTES", 8 * 50 * 7)
    for a, b in zip((ExactFilter(x).apply(v), *ExactFilter(x).gradients(v, v[::-1].copy())), whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_gradients_by_features_equal_finite_differences() -> None:
    x, v, g = random(12, 3), random(2, 12, 4, seed=1), random(2, 12, 4, seed=2)
    slope = ExactFilter(x).gradients(g, v)[1]
    step = 1e-6
    for point in range(12):
        for axis in range(3):
            nudge = np.zeros_like(x)
            nudge[point, axis] = step
            rise = (g * (ExactFilter(x + nudge).apply(v) - ExactFilter(x - nudge).apply(v))).sum() / (2 * step)
            # Differences lose 1e-16/1e-6 of sums of size 10; the third derivative adds 1e-12.
            assert rise == pytest.approx(slope[point, axis], rel=1e-7, abs=1e-8)


def test_gradients_by_features_do_not_depend_on_the_origin() -> None:
    """Quarters are exact in float32, near the origin and 2¹² away from it."""
    x = np.round(4 * random(200, 2)).astype(np.float32) / 4
    v, g = random(200, 3, seed=1).astype(np.float32), random(200, 3, seed=2).astype(np.float32)
    truth = ExactFilter(x.astype(np.float64)).gradients(g.astype(np.float64), v.astype(np.float64))[1]
    for far in (0, 4096):
        slope = ExactFilter(x + np.float32(far)).gradients(g, v)[1]
        assert np.abs(slope - truth).max() < 5e-6 * np.abs(truth).max()  # rounding of 200 terms in float32


def test_arrays_of_different_libraries_raise() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(InputTypeError, match="both"):
        ExactFilter(random(5, 2)).apply(torch.zeros(5, 1))
    with pytest.raises(InputTypeError, match="float32"):
        ExactFilter(random(5, 2)).apply(np.zeros((5, 1), np.float32))


def test_the_derivative_of_a_lattice_raises() -> None:
    with pytest.raises(InputError, match="gaussian"):
        ExactFilter(random(5, 2)).gradients(random(5, 1), random(5, 1), "lattice")


@pytest.mark.slow  # half a minute: 4e8 exponentials in float64
def test_twenty_thousand_points_stay_within_1_gb() -> None:
    if sys.platform != "linux":
        pytest.skip("peak memory is in other units here")
    code = (
        "import resource, numpy as np, densefield\n"
        "x = np.random.default_rng(1).standard_normal((20000, 5))\n"
        "assert (densefield.filters.ExactFilter(x).apply(np.ones((20000, 21))) >= 1).all()\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=600)
    assert int(answer.stdout) < 2**20  # kilobytes
