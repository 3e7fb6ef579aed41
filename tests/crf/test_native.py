"""Native mean field equals the reference up to rounding, on any number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, get_args

import numpy as np
import pytest

from densefield import _core
from densefield.crf.kernels import Normalization
from densefield.crf.mean_field import Step, log_softmax, mean_field, mean_field_steps, update
from densefield.crf.native import native_mean_field, native_term, state_floats
from densefield.crf.pairwise import Pairwise
from tests.support.random_terms import Array, bind_random, random

# Float32 sums in another order: errors of 6e-8 in some tens of operations, relative to the largest log
# marginal. Measured: at most 5e-7 for log marginals, and 8e-7 without normalisation, where they reach hundreds.
ROUNDING = 2e-6
# A marginal changes as much as its logarithm, at most 20 here. Measured: at most 1e-6.
MARGINAL_ROUNDING = 4e-6

NORMALIZATIONS = get_args(Normalization)


def scores_of(labels: int, points: int, scale: float = 2.0) -> Array:
    return np.float32(scale) * random(labels, points, seed=4421)


def reference(bounds: Sequence[Pairwise], scores: Array, iterations: int) -> Array:
    rows: Any = mean_field(np.ascontiguousarray(scores.T), bounds, iterations)
    return rows.T  # type: ignore[no-any-return]


def reference_steps(bounds: Sequence[Pairwise], scores: Array, iterations: int) -> list[Step[Any]]:
    steps = mean_field_steps(np.ascontiguousarray(scores.T), bounds)
    return list(islice(steps, iterations + 1))


def solve(bounds: Sequence[Pairwise], scores: Array, iterations: int = 4, threads: int = 2) -> tuple[Array, Array]:
    q, log_q = np.full_like(scores, np.nan), np.full_like(scores, np.nan)
    assert native_mean_field(bounds, scores, iterations, threads, marginals=q, log_marginals=log_q) == iterations
    return q, log_q


def check(bounds: Sequence[Pairwise], scores: Array, iterations: int = 4) -> None:
    q, log_q = solve(bounds, scores, iterations)
    expected = reference(bounds, scores, iterations)
    assert np.abs(log_q - expected).max() <= ROUNDING * max(1, np.abs(expected).max())
    assert np.abs(q - np.exp(expected)).max() <= MARGINAL_ROUNDING
    assert np.abs(marginals_alone(bounds, scores, iterations) - np.exp(expected)).max() <= MARGINAL_ROUNDING


def marginals_alone(bounds: Sequence[Pairwise], scores: Array, iterations: int = 4, threads: int = 2) -> Array:
    """Check marginals alone, for which Potts kernels have their own update."""
    q = np.full_like(scores, np.nan)
    assert native_mean_field(bounds, scores, iterations, threads, marginals=q) == iterations
    return q


@pytest.mark.parametrize("labels", [1, 2, 3, 4, 5, 8, 21, 24, 32, 33, 36, 64, 70])
@pytest.mark.parametrize("points", [1, 64, 130, 9000])
def test_marginals_of_potts_kernels_alone_equal_the_reference(labels: int, points: int) -> None:
    check(bind_random(points, labels, kinds=["potts"], dimensions=(2, 5, 3)), scores_of(labels, points))


@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_marginals_of_potts_kernels_alone_equal_the_reference_for_every_option(
    normalization: str, ignore: bool
) -> None:
    bounds = bind_random(300, 5, kinds=["potts"], normalization=normalization, ignore=ignore)
    check(bounds, scores_of(5, 300))


@pytest.mark.parametrize("labels", [2, 5, 21])
@pytest.mark.parametrize("strength", [30.0, -30.0, 1e3, -1e3, 1e5])
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_messages_beyond_the_range_of_exponentials_are_handled(labels: int, strength: float, scale: float) -> None:
    # Messages of some hundred and more: exp() of them, or of minus them, is beyond float32. A second update magnifies
    # roundings, so results of the strongest models need only be marginals then.
    bounds, scores = bind_random(300, labels, kinds=["potts"], strength=strength), scores_of(labels, 300, scale)
    q, expected = marginals_alone(bounds, scores, 2), np.exp(reference(bounds, scores, 2))
    assert np.isfinite(q).all() and np.abs(q.sum(0) - 1).max() < 1e-5
    first, first_expected = marginals_alone(bounds, scores, 1), np.exp(reference(bounds, scores, 1))
    # A message has a relative rounding of 1e-7, and a marginal changes by a quarter of it.
    rounding = 1e-6 * (10 + scale * 4 + 6 * abs(strength))
    assert np.abs(first - first_expected).max() <= rounding
    if abs(strength) <= 30:
        assert np.abs(q - expected).max() <= 10 * rounding


@pytest.mark.parametrize("threads", [1, 3, 7])
def test_marginals_of_potts_kernels_alone_do_not_depend_on_the_number_of_threads(threads: int) -> None:
    bounds, scores = bind_random(30000, 6, kinds=["potts"]), scores_of(6, 30000)
    assert np.array_equal(marginals_alone(bounds, scores, threads=threads), marginals_alone(bounds, scores, threads=2))


@pytest.mark.parametrize("kind", ["potts", "per label", "matrix"])
@pytest.mark.parametrize("labels", [1, 2, 3, 4, 5, 21, 32, 33, 64, 70])
def test_it_equals_the_reference_for_any_number_of_classes_and_compatibility(labels: int, kind: str) -> None:
    check(bind_random(130, labels, kinds=["potts", kind]), scores_of(labels, 130))


@pytest.mark.parametrize("labels", [2, 21, 33])
@pytest.mark.parametrize("points", [1, 2, 63, 64, 65, 300, 9000])
def test_it_equals_the_reference_for_any_number_of_points(points: int, labels: int) -> None:
    check(bind_random(points, labels), scores_of(labels, points))


@pytest.mark.parametrize("operator", ["symmetric", "pydensecrf"])
@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_it_equals_the_reference_for_every_option(
    normalization: str, ignore: bool, exclude_self: bool, operator: str
) -> None:
    options: Any = {"normalization": normalization, "ignore": ignore, "exclude_self": exclude_self}
    bounds = bind_random(300, 5, dimensions=(2, 5, 3), operator=operator, **options)
    check(bounds, scores_of(5, 300))


@pytest.mark.parametrize("dimensions", [(), (1,), (5,), (3, 3), (2, 5, 7), (16, 2)])
def test_it_equals_the_reference_for_any_kernels(dimensions: tuple[int, ...]) -> None:
    check(bind_random(1000, 5, dimensions=dimensions), scores_of(5, 1000))


def test_lattices_with_chunks_of_different_sizes_can_be_combined() -> None:
    # So many points are cut into 4 chunks in two dimensions, 8 in nine and 16 in sixteen, for 16-bit slots.
    check(bind_random(30000, 3, dimensions=(9, 2, 16)), scores_of(3, 30000), iterations=2)


@pytest.mark.parametrize("iterations", [0, 1, 2, 9])
def test_it_equals_the_reference_after_any_number_of_iterations(iterations: int) -> None:
    check(bind_random(200, 4), scores_of(4, 200), iterations)


@pytest.mark.parametrize("with_log", [False, True])
def test_marginals_of_potts_kernels_do_not_depend_on_other_outputs(with_log: bool) -> None:
    bounds, scores = bind_random(200, 6, kinds=["potts"]), scores_of(6, 200)
    q, log_q = solve(bounds, scores)
    assert np.array_equal(marginals_alone(bounds, scores), q)
    also, also_log = np.empty_like(scores), np.empty_like(scores) if with_log else None
    residuals, states = np.empty(4, np.float32), np.empty((4, state_floats(200, 6)), np.float32)
    native_mean_field(
        bounds, scores, 4, 1, marginals=also, log_marginals=also_log, residuals=residuals, states=states, tolerance=0.0
    )
    assert np.array_equal(also, q) and (also_log is None or np.array_equal(also_log, log_q))
    # Log marginals alone, as torch needs them, are identical with and without stored states.
    alone, while_kept = np.empty_like(scores), np.empty_like(scores)
    native_mean_field(bounds, scores, 4, 1, log_marginals=alone)
    native_mean_field(bounds, scores, 4, 1, log_marginals=while_kept, states=states)
    assert np.array_equal(alone, while_kept) and np.abs(alone - log_q).max() <= ROUNDING * np.abs(log_q).max()


@pytest.mark.parametrize("exclude_self", [False, True])
def test_outputs_do_not_depend_on_each_other(exclude_self: bool) -> None:
    bounds, scores = bind_random(200, 6, exclude_self=exclude_self), scores_of(6, 200)
    q, log_q = solve(bounds, scores)
    only_q, only_log = np.empty_like(scores), np.empty_like(scores)
    native_mean_field(bounds, scores, 4, 1, marginals=only_q)
    native_mean_field(bounds, scores, 4, 1, log_marginals=only_log)
    assert np.array_equal(only_q, q) and np.array_equal(only_log, log_q)
    residuals, states = np.empty(4, np.float32), np.empty((4, state_floats(200, 6)), np.float32)
    native_mean_field(bounds, scores, 4, 1, marginals=only_q, residuals=residuals, states=states)
    assert np.array_equal(only_q, q)
    assert native_mean_field(bounds, scores, 4, 1) == 4  # without outputs


@pytest.mark.parametrize(("points", "labels"), [(1, 1), (70, 3), (200, 33)])
def test_the_marginals_of_every_iteration_are_stored_by_tiles(points: int, labels: int) -> None:
    bounds, scores = bind_random(points, labels), scores_of(labels, points)
    assert state_floats(points, labels) == _core.state_floats(points, labels)
    states = np.full((5, state_floats(points, labels)), np.nan, np.float32)
    native_mean_field(bounds, scores, 5, 2, states=states)
    tiles = states.reshape(5, -1, labels, 64)  # 64 points, a plane for each class
    found = tiles.transpose(0, 2, 1, 3).reshape(5, labels, -1)[..., :points]
    expected = np.stack([step.q.T for step in reference_steps(bounds, scores, 4)])
    assert np.abs(found - expected).max() <= MARGINAL_ROUNDING
    assert np.isfinite(states).all()  # including points beyond the last


def test_residuals_equal_the_changes_of_the_steps() -> None:
    bounds, scores = bind_random(300, 4), scores_of(4, 300)
    residuals = np.empty(6, np.float32)
    native_mean_field(bounds, scores, 6, 2, residuals=residuals)
    expected = [step.residual for step in reference_steps(bounds, scores, 6)[1:]]
    assert np.abs(residuals - expected).max() <= 2 * MARGINAL_ROUNDING  # a difference of two marginals


def test_a_tolerance_stops_at_the_same_iteration() -> None:
    bounds, scores = bind_random(300, 4), scores_of(4, 300)
    steps = reference_steps(bounds, scores, 30)
    for tolerance, last in ((0.3, 1), (0.2, 2), (0.11, 8), (0.08, 12)):
        changes = np.array([step.residual for step in steps[1 : last + 1]])
        assert (changes[:-1] > tolerance + 1e-3).all() and changes[-1] < tolerance - 1e-3  # not decided by rounding
        q, log_q, residuals = np.empty_like(scores), np.empty_like(scores), np.full(30, np.nan, np.float32)
        outputs: Any = {"marginals": q, "log_marginals": log_q, "residuals": residuals}
        assert native_mean_field(bounds, scores, 30, 2, **outputs, tolerance=tolerance) == last
        assert np.abs(q - steps[last].q.T).max() <= MARGINAL_ROUNDING
        assert np.abs(log_q - steps[last].log_q.T).max() <= ROUNDING * np.abs(log_q).max()
        assert np.isfinite(residuals[:last]).all() and np.isnan(residuals[last:]).all()
    assert native_mean_field(bounds, scores, 30, 2, tolerance=2.0) == 1  # no marginal moves by more than one
    assert native_mean_field(bounds, scores, 3, 2, tolerance=0.0) == 3


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_scores_may_be_huge(spread: float) -> None:
    bounds, scores = bind_random(300, 5), 1e4 - np.float32(1e4 * spread) * random(5, 300, seed=4421)
    q, log_q = solve(bounds, scores)
    expected = reference(bounds, scores, 4)
    # Scores this large are rounded to 0.004, and both twins may round a sum differently; a marginal moves by a quarter
    # of that at most.
    rounding = np.spacing(np.abs(scores).max())
    assert np.abs(log_q - expected).max() <= 2 * rounding
    assert np.abs(q - np.exp(expected)).max() <= rounding / 2
    assert np.abs(q.sum(0) - 1).max() <= MARGINAL_ROUNDING


def test_scores_may_all_be_equal() -> None:
    check(bind_random(300, 5), np.zeros((5, 300), np.float32))


@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("iterations", [0, 1, 3])
def test_it_may_start_from_any_marginals(iterations: int, exclude_self: bool) -> None:
    bounds, scores = bind_random(130, 5, exclude_self=exclude_self), scores_of(5, 130)
    start = np.random.default_rng(13).dirichlet(np.ones(5), 130).T.astype(np.float32, order="C")
    q, states = np.empty_like(scores), np.empty((iterations, state_floats(130, 5)), np.float32)
    native_mean_field(bounds, scores, iterations, 2, start=start, marginals=q, states=states)
    expected: Any = np.ascontiguousarray(start.T)
    for _ in range(iterations):
        expected = np.exp(log_softmax(update(np.ascontiguousarray(scores.T), bounds, expected)))
    assert np.abs(q - expected.T).max() <= MARGINAL_ROUNDING
    if iterations:
        first = states[0].reshape(-1, 5, 64).transpose(1, 0, 2).reshape(5, -1)[:, :130]
        assert np.array_equal(first, start)


def test_without_kernels_it_is_softmax() -> None:
    scores = scores_of(7, 500)
    q, log_q = solve([], scores, iterations=3)
    exact = scores.astype(np.float64) - np.log(np.exp(scores.astype(np.float64)).sum(0))
    assert np.abs(log_q - exact).max() <= 2e-6  # two roundings of numbers below 20
    assert np.abs(q - np.exp(exact)).max() <= 5e-7


def test_an_empty_image_gives_empty_marginals() -> None:
    bounds = bind_random(0, 3)
    q = np.empty((3, 0), np.float32)
    assert native_mean_field(bounds, q, 5, 2, marginals=q.copy(), log_marginals=q.copy()) == 0


@pytest.mark.parametrize(("points", "labels"), [(60000, 5), (9000, 70), (64, 3)])
def test_results_do_not_depend_on_the_number_of_threads(points: int, labels: int) -> None:
    bounds, scores = bind_random(points, labels), scores_of(labels, points)
    found = []
    for threads in (1, 2, 3, 7):
        q, log_q, residuals = np.empty_like(scores), np.empty_like(scores), np.empty(3, np.float32)
        states = np.empty((3, state_floats(points, labels)), np.float32)
        outputs: Any = {"marginals": q, "log_marginals": log_q, "residuals": residuals, "states": states}
        native_mean_field(bounds, scores, 3, threads, **outputs)
        found.append([q, log_q, residuals, states])
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("simd", _core.available_simd())
@pytest.mark.parametrize("kinds", [["potts"], ["potts", "per label", "matrix"]])
@pytest.mark.parametrize("labels", [1, 2, 3, 5, 21, 33, 70])
def test_it_equals_the_reference_on_every_instruction_set(labels: int, kinds: list[str], simd: str) -> None:
    bounds, scores = bind_random(300, labels, kinds=kinds, dimensions=(2, 5, 3)), scores_of(labels, 300)
    couplings, q, log_q = [native_term(bound) for bound in bounds], np.empty_like(scores), np.empty_like(scores)
    assert _core.mean_field(couplings, scores, None, 4, False, q, log_q, None, None, -1.0, None, 2, simd) == 4
    expected = reference(bounds, scores, 4)
    assert np.abs(log_q - expected).max() <= ROUNDING * max(1, np.abs(expected).max())
    assert np.abs(q - np.exp(expected)).max() <= MARGINAL_ROUNDING
