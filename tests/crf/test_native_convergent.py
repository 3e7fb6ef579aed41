"""Native convergent inference equals its NumPy twin."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest

from densefield import CRF, Bilateral, InputError, Spatial, _core
from densefield.crf.convergent import convergent_steps
from densefield.crf.native import native_mean_field, native_term, state_floats
from densefield.crf.pairwise import Pairwise
from tests.support.random_terms import Array, bind_random, random

# Float32 sums in another order, through up to five iterations. Measured: 1.5e-6.
ROUNDING = 6e-6


def semidefinite(bounds: list[Pairwise[Any]]) -> list[Pairwise[Any]]:
    """The same terms with M Mᵀ for matrices."""
    return [replace(b, mu=np.ascontiguousarray(b.mu @ b.mu.T)) if b.mu.ndim == 2 else b for b in bounds]


def infer(bounds: list[Any], scores: Array, iterations: int) -> tuple[Array, Array, Array, Array]:
    q, log_q = np.full_like(scores, np.nan), np.full_like(scores, np.nan)
    residuals = np.empty(iterations, np.float32)
    states = np.empty((iterations, state_floats(scores.shape[1], len(scores))), np.float32)
    outputs = {"marginals": q, "log_marginals": log_q, "states": states, "residuals": residuals}
    native_mean_field(bounds, scores, iterations, 2, convergent=True, **outputs)
    return q, log_q, residuals, states


@pytest.mark.parametrize("kinds", [["potts"], ["per label"], ["potts", "per label"], ["matrix"], ["potts", "matrix"]])
@pytest.mark.parametrize("labels", [1, 2, 5, 21])
@pytest.mark.parametrize("strength", [0.1, 1.0, 30.0])
def test_every_compatibility_equals_the_reference(strength: float, labels: int, kinds: list[str]) -> None:
    bounds = semidefinite(bind_random(200, labels, kinds=kinds, exclude_self=True, strength=strength))
    scores = 2 * random(labels, 200, seed=61)
    q, log_q, residuals, _ = infer(bounds, scores, 4)
    steps = list(islice(convergent_steps(np.ascontiguousarray(scores.T), bounds), 5))
    slack = ROUNDING * max(1.0, *(float(np.abs(bound.mu).max()) for bound in bounds))  # as messages are rounded
    assert np.abs(q - steps[-1].q.T).max() <= slack
    likely = steps[-1].q.T > 1e-3
    assert np.abs(log_q - steps[-1].log_q.T)[likely].max() <= 40 * slack
    assert np.abs(residuals - [step.residual for step in steps[1:]]).max() <= 2 * slack


@pytest.mark.parametrize("points", [1, 63, 64, 65, 1000])
def test_states_are_the_marginals_of_each_iteration(points: int) -> None:
    bounds, scores = bind_random(points, 3, kinds=["potts"], exclude_self=True), random(3, points, seed=62)
    *_, states = infer(bounds, scores, 3)
    for state, step in zip(states, convergent_steps(np.ascontiguousarray(scores.T), bounds), strict=False):
        planes = state.reshape(-1, 3, 64).transpose(1, 0, 2).reshape(3, -1)[:, :points]
        assert np.abs(planes - step.q.T).max() <= ROUNDING


def test_without_an_excluded_diagonal_it_is_the_ordinary_update() -> None:
    bounds, scores = bind_random(300, 4, kinds=["potts"]), random(4, 300, seed=63)
    q, *_ = infer(bounds, scores, 3)
    ordinary = np.empty_like(scores)
    native_mean_field(bounds, scores, 3, 2, marginals=ordinary)
    assert np.array_equal(q, ordinary)


@pytest.mark.parametrize("weight", [3.0, 400.0])
@pytest.mark.parametrize("normalization", ["symmetric", "none"])
def test_the_free_energy_falls_on_the_lattice(normalization: Any, weight: float) -> None:
    rng = np.random.default_rng(64)
    image = np.kron(rng.integers(0, 255, (4, 5, 3)), np.ones((8, 8, 1))).astype(np.uint8)
    scores = 3 * rng.standard_normal((5, 32, 40)).astype(np.float32)
    kernels = [
        Spatial(2, weight=weight, normalization=normalization),
        Bilateral(15, 20, weight=weight, normalization=normalization),
    ]
    crf = CRF(kernels, exclude_self=True, inference="convergent")
    levels = crf.solve(scores, image, energies=True).energies
    assert levels is not None
    # Sums of 6400 terms in float32; the large weight makes them large.
    assert all(after <= before + 2e-6 * abs(before) for before, after in pairwise(levels))
    # The same marginals from native code.
    reference, native = crf.solve(scores, image, energies=True), crf.solve(scores, image)
    assert np.abs(reference.marginals - native.marginals).max() <= ROUNDING * weight
    assert np.array_equal(crf.marginals(scores, image), native.marginals)


@pytest.mark.parametrize("simd", _core.available_simd())
@pytest.mark.parametrize("kinds", [["potts"], ["per label"], ["matrix"]])
def test_it_equals_the_reference_on_every_instruction_set(kinds: list[str], simd: str) -> None:
    bounds = semidefinite(bind_random(300, 5, kinds=kinds, exclude_self=True))
    scores = 2 * random(5, 300, seed=66)
    q = np.empty_like(scores)
    terms = [native_term(bound) for bound in bounds]
    _core.mean_field(terms, scores, None, 3, True, q, None, None, None, -1.0, None, 2, simd)
    step = list(islice(convergent_steps(np.ascontiguousarray(scores.T), bounds), 4))[-1]
    assert np.abs(q - step.q.T).max() <= ROUNDING * max(1.0, *(float(np.abs(bound.mu).max()) for bound in bounds))


def test_large_scores_and_weights_take_the_exact_solver() -> None:
    # Newton's method in float32 does not converge within its steps for some of these.
    bounds = bind_random(400, 6, kinds=["potts"], exclude_self=True, strength=200.0, normalization="none")
    scores = 1000 * random(6, 400, seed=65)
    q, log_q, *_ = infer(bounds, scores, 1)
    step = list(islice(convergent_steps(np.ascontiguousarray(scores.T), bounds), 2))[-1]
    assert np.isfinite(log_q).all()
    # c is rounded to float32: 1e-7 of sums of thousands.
    assert np.abs(q - step.q.T).max() <= 2e-3


def test_weights_that_repel_are_refused_with_a_cure() -> None:
    crf = CRF([Spatial(2, weight=-1)], exclude_self=True, inference="convergent")
    with pytest.raises(InputError, match=r"positive semi-definite.*or parallel inference"):
        crf.marginals(np.zeros((2, 4, 4), np.float32))
    with pytest.raises(InputError, match=r"positive semi-definite.*or parallel inference"):
        crf.solve(np.zeros((2, 4, 4), np.float32))


def test_one_sided_normalisations_are_refused() -> None:
    crf = CRF([Spatial(2)], inference="convergent")
    crf.kernels = (Spatial(2, normalization="after"),)
    with pytest.raises(InputError, match="one side"):
        crf.marginals(np.zeros((2, 4, 4), np.float32))


def test_a_lattice_that_is_not_symmetric_is_refused() -> None:
    with pytest.raises(InputError, match="operator='symmetric' or method='exact'"):
        CRF(inference="convergent", operator="pydensecrf")
