"""The Lambert function W(eˣ)."""

from __future__ import annotations

import numpy as np
import pytest

from densefield.crf.convergent import lambert_of_exponential

EPS = np.finfo(np.float64).eps


def test_it_equals_w_of_exp_x_without_overflow():
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(-700, 700, 20_011), np.linspace(-3, 3, 5_003)])
    expected = special.lambertw(np.exp(x)).real
    # The rounding eps·|x| of x is at most the relative error of ω.
    assert (np.abs(lambert_of_exponential(x) - expected) <= 4 * EPS * (1 + np.abs(x)) * expected).all()


def test_it_solves_its_equation_where_exp_x_overflows():
    x = np.geomspace(700, 1e300, 4_001)
    w = lambert_of_exponential(x)
    assert (np.abs(w + np.log(w) - x) <= 4 * EPS * x).all()


def test_far_below_zero_it_is_exp_x_and_then_0():
    x = np.array([-60.0, -745.0, -1e4, -1e300, -np.inf])
    assert np.array_equal(lambert_of_exponential(x), np.exp(x))


def test_it_is_monotonic_across_its_branches():
    x = np.linspace(-45, 45, 90_001)
    w = lambert_of_exponential(x)
    # The derivative is ω/(1+ω) and the step 1e-3, with rounding eps·|x|.
    middle = lambert_of_exponential((x[1:] + x[:-1]) / 2)
    assert np.allclose(np.diff(w), 1e-3 * middle / (1 + middle), rtol=1e-6, atol=0)
