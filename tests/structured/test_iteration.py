"""Convergence means consistent beliefs and a log Z that agrees with them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from densefield.structured import (  # noqa: E402
    Beliefs,
    FactorGraph,
    GridGraph,
    Potts,
    bethe_weights,
    convex_belief_propagation,
    convex_weights,
    grid_belief_propagation,
    grid_tree_weights,
    loopy_belief_propagation,
    tree_reweighted,
    tree_weights,
)
from densefield.structured.iteration import Agreement, iterate_until  # noqa: E402
from tests.support.factor_graphs import forbid, random_model  # noqa: E402

from .test_belief_propagation import entropy_value  # noqa: E402

Method = Callable[..., Beliefs]
METHODS = [
    (loopy_belief_propagation, bethe_weights),
    (tree_reweighted, tree_weights),
    (convex_belief_propagation, convex_weights),
]


def inconsistency(graph: FactorGraph, beliefs: Beliefs) -> float:
    """The largest difference between marginals of tables and of variables, from the returned beliefs."""
    worst = 0.0
    for name, group in graph.factors.items():
        table = beliefs.log_marginals[name].exp()
        for slot, count in enumerate(group.num_states):
            others = tuple(axis + 2 for axis in range(len(group.num_states)) if axis != slot)
            own = beliefs.variable_log_marginals[:, group.variables[:, slot], :count].exp()
            worst = max(worst, float((table.sum(others) - own).abs().max()))
    return worst


def gap(graph: FactorGraph, scores: dict[str, object], weights: dict[str, object], beliefs: Beliefs) -> float:
    """The largest |log Z − primal value of the beliefs| of the batch, per variable."""
    apart = entropy_value(graph, scores, weights, beliefs) - beliefs.log_partition
    return float(apart.abs().max()) / len(graph.num_states)


def slow_triangle() -> tuple[FactorGraph, dict[str, object]]:
    """Three variables with strong scores: an iteration changes marginals by 10⁻⁶ that are inconsistent by 10⁻⁴."""
    noise = torch.Generator().manual_seed(23)
    graph = FactorGraph([2] * 3, {"unary": [[0], [1], [2]], "pair": [[0, 1], [1, 2], [2, 0]]})
    unary = 2 * torch.randn(1, 3, 2, generator=noise, dtype=torch.float64)
    return graph, {"unary": unary, "pair": 5 * torch.randn(1, 3, 2, 2, generator=noise, dtype=torch.float64)}


def test_a_small_residual_alone_is_not_convergence() -> None:
    graph, scores = slow_triangle()
    early = convex_belief_propagation(graph, scores, iterations=30, tolerance=1e-4)
    assert early.residual < 1e-5
    assert inconsistency(graph, early) > 2e-4
    assert not early.converged and early.iterations == 30


def test_converged_beliefs_are_consistent_and_agree_with_log_z() -> None:
    graph, scores = slow_triangle()
    beliefs = convex_belief_propagation(graph, scores, iterations=5000, tolerance=1e-4)
    assert beliefs.converged and 30 < beliefs.iterations < 5000
    assert inconsistency(graph, beliefs) <= 1e-4
    assert gap(graph, scores, convex_weights(graph), beliefs) <= 1e-4


def test_the_solution_equals_that_of_a_general_optimiser() -> None:
    """With ρ = ½ on a triangle variables have counting number 0, and the dual is smooth in three numbers."""
    optimize = pytest.importorskip("scipy.optimize")
    graph, scores = slow_triangle()
    unary, pair = scores["unary"][0].numpy(), scores["pair"][0].numpy()

    def tables(shares: np.ndarray) -> np.ndarray:
        """(f_r + λ_i + f_j − λ_j)/ρ: a pair gets λ of its first variable's score, the rest of its second's."""
        shares = np.stack([np.zeros(3), shares], 1)
        rest = unary - shares
        return 2 * np.stack([pair[i] + shares[i][:, None] + rest[(i + 1) % 3] for i in range(3)])

    def dual(shares: np.ndarray) -> float:
        return 0.5 * float(np.logaddexp.reduce(tables(shares).reshape(3, 4), axis=1).sum())

    found = optimize.minimize(dual, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    b = np.exp(tables(found.x))
    marginals = b.sum(2) / b.sum((1, 2))[:, None]
    beliefs = convex_belief_propagation(graph, scores, iterations=5000, tolerance=1e-4)
    above = float(beliefs.log_partition) - found.fun
    assert -1e-9 < above < 3 * beliefs.gap  # an upper bound, within the reported gap
    assert np.abs(beliefs.variable_log_marginals[0].exp().numpy() - marginals).max() < 2e-4  # twice the tolerance


@pytest.mark.parametrize("schedule", ["parallel", "sequential"])
@pytest.mark.parametrize("method, weights", METHODS)
def test_reported_inconsistency_and_gap_match_the_returned_beliefs(method: Method, weights: Method, schedule) -> None:
    for seed in range(1300, 1320):
        graph, scores = random_model(seed, strength=2.0, batch=3, potts=False)
        beliefs = method(graph, scores, iterations=4, schedule=schedule, tolerance=1e-12, damping=0.1 * (seed % 2))
        # Both are differences of float64 numbers of the size of the scores.
        assert abs(beliefs.inconsistency - inconsistency(graph, beliefs)) < 1e-12
        assert abs(beliefs.gap - gap(graph, scores, weights(graph), beliefs)) < 1e-11


def test_potts_regions_have_the_same_inconsistency_and_gap_as_tables() -> None:
    pairs = [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]
    noise = torch.Generator().manual_seed(2204)
    unary = torch.randn(3, 4, 3, generator=noise, dtype=torch.float64)
    weights = 2 * torch.randn(3, 5, generator=noise, dtype=torch.float64)
    found = []
    for regions, given in ((Potts(pairs), weights), (pairs, weights[..., None, None] * torch.eye(3))):
        graph = FactorGraph([3] * 4, {"unary": [[0], [1], [2], [3]], "pair": regions})
        beliefs = tree_reweighted(graph, {"unary": unary, "pair": given}, iterations=3)
        found.append((beliefs.inconsistency, beliefs.gap))
    assert found[0] == pytest.approx(found[1], abs=1e-12)
    assert min(found[0]) > 1e-6


@pytest.mark.parametrize("potts", [True, False])
@pytest.mark.parametrize("trees", [True, False])
@pytest.mark.parametrize("schedule", ["parallel", "sequential"])
def test_a_grid_has_the_same_inconsistency_and_gap_as_its_graph(potts: bool, trees: bool, schedule: str) -> None:
    grid = GridGraph(3, 4, num_states=3, potts=potts)
    noise = torch.Generator().manual_seed(811)
    scores = {"pixel": torch.randn(2, 3, 3, 4, generator=noise, dtype=torch.float64)}
    for name, size in grid.pairs.items():
        shape = (2, *size) if potts else (2, *size, 3, 3)
        scores[name] = torch.randn(shape, generator=noise, dtype=torch.float64)
    rho = grid_tree_weights(grid) if trees else {name: torch.ones(size) for name, size in grid.pairs.items()}
    options = {"iterations": 3, "schedule": schedule, "tolerance": 1e-12}
    on_grid = grid_belief_propagation(grid, scores, weights=rho, **options)
    flat = {name: weight.flatten().double() for name, weight in rho.items()}
    on_graph = tree_reweighted(grid.factor_graph(), grid.factor_scores(scores), weights=flat, **options)
    assert on_grid.inconsistency == pytest.approx(on_graph.inconsistency, abs=1e-12)
    assert on_grid.gap == pytest.approx(on_graph.gap, abs=1e-12)
    assert on_grid.inconsistency > 1e-4  # three iterations are not enough


def test_a_small_residual_alone_is_not_convergence_on_a_grid() -> None:
    noise = torch.Generator().manual_seed(237)
    grid = GridGraph(2, 2, num_states=2)
    scores = {
        name: scale * torch.randn(shape, generator=noise, dtype=torch.float64)
        for name, scale, shape in (
            ("pixel", 2, (1, 2, 2, 2)),
            ("right", 5, (1, 2, 1, 2, 2)),
            ("down", 5, (1, 1, 2, 2, 2)),
        )
    }
    weights = {"right": torch.full((2, 1), 0.5), "down": torch.full((1, 2), 0.5)}
    options = {"weights": weights, "schedule": "sequential", "tolerance": 1e-4}
    early = grid_belief_propagation(grid, scores, iterations=60, **options)
    assert early.residual < 2e-5 and early.inconsistency > 2e-4 and not early.converged
    beliefs = grid_belief_propagation(grid, scores, iterations=3000, **options)
    assert beliefs.converged and max(beliefs.inconsistency, beliefs.gap) <= 1e-4
    pairs = beliefs.log_marginals["right"].exp()
    assert float((pairs.sum(4) - beliefs.log_marginals["pixel"][..., :-1].movedim(1, 3).exp()).abs().max()) <= 1e-4


def test_a_tolerance_of_0_measures_no_agreement() -> None:
    graph, scores = slow_triangle()
    beliefs = convex_belief_propagation(graph, scores, iterations=3, tolerance=0)
    assert math.isnan(beliefs.inconsistency) and math.isnan(beliefs.gap) and not beliefs.converged


@pytest.mark.parametrize("method, weights", METHODS)
def test_inconsistency_and_gap_are_finite_with_forbidden_labels(method: Method, weights: Method) -> None:
    for seed in range(1400, 1410):
        graph, scores = random_model(seed, strength=1.0)
        beliefs = method(graph, forbid(scores, seed, share=0.3), iterations=30)
        assert math.isfinite(beliefs.inconsistency) and math.isfinite(beliefs.gap)


def test_agreement_is_measured_rarely() -> None:
    measured = []

    def measure(iteration: float) -> Agreement:
        measured.append(iteration)
        return Agreement(1.0 if iteration < 3000 else 0.0, 0.0)

    iterations, progress = iterate_until(0, lambda done: done + 1, lambda new, old: 0.0, measure, 10_000, 1e-6)
    assert progress.converged and 3000 <= iterations < 3300  # at most a tenth more than needed
    assert len(measured) < 70
