"""The native core at the limits of its arguments."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import CRF, Bilateral, InputError, Spatial, _core
from densefield.crf.native import native_term
from densefield.filters import LatticeFilter


def test_output_arrays_of_another_type_or_layout_raise():
    k = LatticeFilter(np.random.default_rng(91).normal(size=(30, 2)), threads=1)
    values = np.ones((1, 30, 4), np.float32)
    for out in (
        np.empty((1, 30, 4)),  # float64: the result would go to a converted copy
        np.empty((1, 30, 4), np.float16),
        np.empty((1, 4, 30), np.float32).swapaxes(1, 2),
        np.empty((1, 30, 8), np.float32)[..., ::2],
    ):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            k.native.apply(values, out, False, 1.0, 1)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        k.native.diagonal(np.empty(30), 1.0, 1)


def test_mean_field_writes_to_its_output_arrays_or_raises():
    scores = np.zeros((3, 4, 5), np.float32)
    problem = CRF([Spatial(2)]).problem(scores)
    couplings = [native_term(term) for term in problem.pairwise]
    for name, wrong in (("marginals", np.empty((3, 20))), ("residuals", np.empty(2))):
        arguments = {"marginals": None, "log_marginals": None, "states": None, "residuals": None, name: wrong}
        with pytest.raises(TypeError, match="incompatible function arguments"):
            _core.mean_field(
                couplings,
                problem.scores,
                None,
                2,
                False,
                *arguments.values(),
                tolerance=-1.0,
                order=None,
                threads=1,
                simd="auto",
            )


@pytest.mark.parametrize("weight", [1.0, [1.0, 2.0], [[1.0, 0.5], [0.5, 1.0]]])
@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("convergent", [False, True])
def test_nan_does_not_count_as_converged(convergent, weight, labels):
    # Python rejects NaN, so the core is called directly.
    weight = weight if labels == 2 or np.ndim(weight) == 0 else np.eye(3)
    scores = np.zeros((labels, 8, 8), np.float32)
    problem = CRF([Spatial(2, weight=weight)], exclude_self=convergent).problem(scores)
    couplings = [native_term(term) for term in problem.pairwise]
    bad = problem.scores.copy()
    bad[0, 5] = np.nan
    q, residuals = np.empty_like(bad), np.zeros(4, np.float32)
    steps = _core.mean_field(couplings, bad, None, 4, convergent, q, None, None, residuals, 1e-3, None, 1, "auto")
    assert steps == 4 and np.isnan(residuals).all()


@pytest.mark.slow
def test_a_compatibility_of_more_than_32_bits_is_indexed_correctly():
    labels = 46_400  # its square exceeds 2³¹
    scores = np.zeros((labels, 2), np.float32)
    scores[-1] = 9.0
    k = LatticeFilter(np.zeros((2, 1)), threads=1)
    mu = np.zeros((labels, labels), np.float32)  # 8.6 GB of virtual memory, of which one row is used
    mu[-1, -1] = 3.0
    ones = np.ones(2, np.float32)
    coupling = _core.Coupling(k.native, 0.5, ones, ones, None, mu)
    q = np.empty_like(scores)
    _core.mean_field([coupling], scores, None, 1, False, q, None, None, None, -1.0, None, 1, "auto")
    other = q[-2, 0]
    assert np.isfinite(q).all() and np.log(q[-1, 0] / other) > 9.0  # the last label got its message


@pytest.mark.parametrize("weight", [1e15, -1e15, np.full(2, 1e13)])
def test_weights_beyond_the_range_of_gradients_raise(weight):
    with pytest.raises(InputError, match=r"the weight holds 1e\+1[35], expected no number beyond 1e\+12"):
        Spatial(3, weight=weight)


def test_widths_beyond_single_precision_raise():
    with pytest.raises(InputError, match=r"sigma_rgb is 1e\+300, expected no number beyond 1e\+15"):
        Bilateral(60, 1e300)
