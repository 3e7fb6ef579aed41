"""Two classes and Potts kernels: mean field on a single channel equals the reference."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from densefield.crf.mean_field import log_softmax, mean_field_steps, update
from densefield.crf.native import native_mean_field
from tests.support.random_terms import Array, bind_random, random

# As in test_native: float32 sums in another order. Measured: 5e-7.
ROUNDING = 4e-6


def potts(points: int, **options: Any) -> list[Any]:
    return bind_random(points, 2, kinds=["potts"], **options)


def infer(bounds: list[Any], scores: Array, iterations: int, **options: Any) -> dict[str, Any]:
    out: dict[str, Any] = {
        "marginals": np.full_like(scores, np.nan),
        "log_marginals": np.full_like(scores, np.nan),
        "residuals": np.full(iterations, np.nan, np.float32),
    }
    out["steps"] = native_mean_field(bounds, scores, iterations, options.pop("threads", 2), **out, **options)
    return out


# Strong messages amplify rounding errors, so only one iteration is compared for them.
@pytest.mark.parametrize(("strength", "updates"), [(1.0, 4), (-1.0, 4), (100.0, 1)])
@pytest.mark.parametrize("points", [1, 63, 64, 300, 20_000])
def test_every_iteration_equals_the_reference(points: int, strength: float, updates: int) -> None:
    bounds, scores = potts(points, strength=strength, normalization="after"), 2 * random(2, points, seed=31)
    rows, couplings = np.ascontiguousarray(scores.T), bounds
    steps = list(islice(mean_field_steps(rows, couplings), 5))
    for iterations in range(updates + 1):
        found = infer(bounds, scores, iterations)
        scale = max(1.0, float(np.abs(steps[iterations].log_q).max()))
        assert np.abs(found["marginals"] - steps[iterations].q.T).max() <= ROUNDING * scale
        assert np.abs(found["log_marginals"] - steps[iterations].log_q.T).max() <= ROUNDING * scale
        expected = [step.residual for step in steps[1 : iterations + 1]]
        assert found["residuals"] == pytest.approx(expected, abs=2 * ROUNDING * scale)


def test_marginals_do_not_depend_on_other_outputs() -> None:
    bounds, scores = potts(9000), random(2, 9000, seed=5)
    whole, alone = infer(bounds, scores, 4), np.empty_like(scores)
    native_mean_field(bounds, scores, 4, 1, marginals=alone)
    assert np.array_equal(whole["marginals"], alone)
    assert np.array_equal(infer(bounds, scores, 4, threads=5)["marginals"], alone)
    assert np.abs(alone.sum(axis=0) - 1).max() <= 2e-7


def test_a_tolerance_stops_iterations() -> None:
    bounds, scores = potts(500), random(2, 500, seed=6)
    full = infer(bounds, scores, 20)["residuals"]
    tolerance = float(np.sort(full[:6])[1:3].mean())
    last = int(np.argmax(full < tolerance))
    assert 1 <= last < 6
    found = infer(bounds, scores, 20, tolerance=tolerance)
    assert found["steps"] == last + 1 and np.isnan(found["residuals"][last + 1 :]).all()
    assert np.array_equal(found["marginals"], infer(bounds, scores, last + 1)["marginals"])


def test_the_start_need_not_sum_to_one() -> None:
    bounds, scores, start = potts(400), random(2, 400, seed=7), np.abs(random(2, 400, seed=8))
    found = infer(bounds, scores, 1, start=start)["marginals"]
    z: Any = update(np.ascontiguousarray(scores.T), bounds, np.ascontiguousarray(start.T))
    assert np.abs(found - np.exp(log_softmax(z)).T).max() <= ROUNDING


def test_residuals_of_a_start_that_does_not_sum_to_one_are_the_largest_change() -> None:
    bounds, scores = potts(300), random(2, 300, seed=11)
    start = np.float32(3) * np.abs(random(2, 300, seed=12))
    found = infer(bounds, scores, 2, start=start)
    first = np.empty_like(scores)
    native_mean_field(bounds, scores, 1, 2, marginals=first, start=start)
    assert found["residuals"][0] == pytest.approx(np.abs(first - start).max(), abs=ROUNDING)
    assert found["residuals"][1] == pytest.approx(np.abs(found["marginals"] - first).max(), abs=ROUNDING)


@pytest.mark.parametrize("spread", [1e4, 1e20, 1e38])
def test_huge_scores_give_no_nan(spread: float) -> None:
    found = infer(potts(200), np.float32(spread) * random(2, 200, seed=9), 3)
    assert np.isfinite(found["marginals"]).all() and not np.isnan(found["log_marginals"]).any()
    assert np.minimum(found["marginals"], 1 - found["marginals"]).max() <= 1e-20
