"""Belief propagation: exact on trees, bounds and convergence elsewhere, on hundreds of random models."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from densefield.errors import InputError  # noqa: E402
from densefield.structured import (  # noqa: E402
    Beliefs,
    FactorGraph,
    Potts,
    bethe_weights,
    convex_belief_propagation,
    convex_weights,
    enumeration,
    forest_weights,
    loopy_belief_propagation,
    tree_reweighted,
    tree_weights,
)
from densefield.structured.counting_numbers import total_weights  # noqa: E402
from densefield.structured.iteration import steps  # noqa: E402
from densefield.structured.message_passing import MessagePassing, pass_messages  # noqa: E402
from tests.support.factor_graphs import forbid, random_model  # noqa: E402

from .test_exact import largest_difference  # noqa: E402

METHODS = [loopy_belief_propagation, convex_belief_propagation, tree_reweighted]
Method = Callable[..., Beliefs]


FEW_OR_MANY = pytest.mark.parametrize("graphs", [6, pytest.param(250, marks=pytest.mark.slow)])


@FEW_OR_MANY
@pytest.mark.parametrize("schedule", ["parallel", "sequential"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_exact_on_trees(method: Method, schedule: str, graphs: int) -> None:
    for seed in range(graphs):
        graph, scores = random_model(seed + 100, tree=True, strength=2.0)
        if seed % 2:
            scores = forbid(scores, seed)
        beliefs = method(graph, scores, schedule=schedule, iterations=12)
        # Six variables are at most five regions apart, so 12 iterations suffice.
        assert largest_difference(beliefs, enumeration(graph, scores)) < 1e-10


def test_damped_messages_are_exact_on_trees() -> None:
    for seed in range(210, 218):
        graph, scores = random_model(seed, tree=True)
        beliefs = loopy_belief_propagation(graph, scores, damping=0.3, iterations=200, tolerance=1e-13)
        assert largest_difference(beliefs, enumeration(graph, scores)) < 1e-10


@FEW_OR_MANY
def test_tree_reweighted_log_z_is_an_upper_bound(graphs: int) -> None:
    for seed in range(300, 300 + graphs):
        graph, scores = random_model(seed, strength=(0.5, 1.5, 3.0)[seed % 3], batch=16)
        beliefs = tree_reweighted(graph, scores, iterations=3000, tolerance=1e-7, damping=0.2)
        # Messages converge before beliefs agree.
        assert beliefs.residual <= 1e-7 and max(beliefs.inconsistency, beliefs.gap) <= 2e-4
        # Near the fixed point the error of log Z is of second order in the error of the messages.
        assert float((enumeration(graph, scores).log_partition - beliefs.log_partition).max()) < 1e-6


@FEW_OR_MANY
def test_convex_belief_propagation_converges_and_no_step_raises_its_bound(graphs: int) -> None:
    for seed in range(400, 400 + graphs):
        graph, scores = random_model(seed, strength=(1.0, 3.0)[seed % 2], batch=16)
        passing = MessagePassing.of(graph, graph.checked(scores), convex_weights(graph))
        messages, last = passing.start(), dual(graph, passing, passing.start())
        for _ in range(4):
            for step in steps(graph, "sequential"):
                messages = passing.update(messages, step)
                now = dual(graph, passing, messages)
                if not in_a_tree(graph):  # trees have negative counting numbers
                    assert float((now - last).max()) < 1e-10  # rounding
                last = now
        beliefs = convex_belief_propagation(graph, scores, tolerance=1e-5, iterations=2000)
        # Messages converge before beliefs agree, especially with strong scores.
        assert beliefs.residual <= 1e-5 and max(beliefs.inconsistency, beliefs.gap) <= 1e-3
        assert float((enumeration(graph, scores).log_partition - beliefs.log_partition).max()) < 1e-4


def in_a_tree(graph: FactorGraph) -> bool:
    """Whether the convex weights of some variable sum to more than 1, which happens in trees only."""
    return float(total_weights(graph, convex_weights(graph)).max()) > 1 + 1e-9


def dual(graph: FactorGraph, passing: MessagePassing, messages: object) -> object:
    """Σ_r ρ_r log Σ exp(f_r/ρ_r + Σ ν) + Σ_i (1 − Σρ) log Σ exp t_i, computed independently."""
    _, norms = passing.log_beliefs(messages)  # type: ignore[arg-type]
    total = ((1 - total_weights(graph, passing.weights)) * norms).sum(1)
    for name, group in graph.factors.items():
        sent = [passing.sent(messages, name, slot, None) for slot in range(len(group.num_states))]  # type: ignore[arg-type]
        total = total + (passing.weights[name] * passing.factors[name].belief(sent)[1]).sum(1)
    return total


@pytest.mark.parametrize("weights", [bethe_weights, tree_weights, convex_weights])
def test_at_a_fixed_point_log_z_equals_the_primal_value_and_is_stationary(weights: Method) -> None:
    found = 0
    for seed in range(700, 706):
        graph, scores = random_model(seed, batch=1, strength=0.7, potts=False)
        rho = weights(graph)
        options = {"iterations": 300, "schedule": "sequential", "damping": 0.1, "tolerance": 1e-10}
        leaves = {name: given.clone().requires_grad_() for name, given in scores.items()}
        beliefs = pass_messages(graph, leaves, rho, **options)  # type: ignore[arg-type]
        if not beliefs.converged:
            continue
        found += 1
        assert abs(float((entropy_value(graph, scores, rho, beliefs) - beliefs.log_partition).detach().sum())) < 1e-8
        # Stationary in the messages: the gradient through them is the marginals.
        gradients = torch.autograd.grad(beliefs.log_partition.sum(), list(leaves.values()))
        for name, gradient in zip(leaves, gradients, strict=True):
            assert float((gradient - beliefs.log_marginals[name].detach().exp()).abs().max()) < 1e-7
    assert found >= 5


def entropy_value(graph: FactorGraph, scores: dict[str, object], rho: dict[str, object], beliefs: Beliefs) -> object:
    """E_b F + Σ_r ρ_r H(b_r) + Σ_i (1 − Σρ) H(b_i)."""
    total = ((1 - total_weights(graph, rho)) * entropy(beliefs.variable_log_marginals)).sum(1)
    for name, group in graph.groups.items():
        log_b = beliefs.log_marginals[name]
        total = total + (log_b.exp() * scores[name]).flatten(1).sum(1)
        if len(group.num_states) > 1:
            total = total + (rho[name] * entropy(log_b.flatten(2))).sum(1)
    return total


def entropy(log_b: object) -> object:
    """The entropy over the last axis."""
    return -torch.where(log_b > -math.inf, log_b.exp() * log_b, 0.0).sum(-1)


def test_potts_regions_equal_tables() -> None:
    pairs = [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]
    potts = FactorGraph([4] * 4, {"unary": [[0], [1], [2], [3]], "pair": Potts(pairs)})
    tables = FactorGraph([4] * 4, {"unary": [[0], [1], [2], [3]], "pair": pairs})
    noise = torch.Generator().manual_seed(2203)
    unary = torch.randn(3, 4, 4, generator=noise, dtype=torch.float64)
    weights = 2 * torch.randn(3, 5, generator=noise, dtype=torch.float64)
    weights[0, 0], weights[1, 2] = -math.inf, 30.0
    same = torch.eye(4, dtype=torch.bool)
    pair = weights[..., None, None].where(same, torch.tensor(0.0, dtype=torch.float64))
    for method in METHODS:
        a = method(potts, {"unary": unary, "pair": weights}, iterations=15, tolerance=0)
        b = method(tables, {"unary": unary, "pair": pair}, iterations=15, tolerance=0)
        equal = b.log_marginals["pair"].diagonal(dim1=2, dim2=3).exp().sum(-1)
        assert float((a.variable_log_marginals.exp() - b.variable_log_marginals.exp()).abs().max()) < 1e-10
        assert float((a.log_marginals["pair"].exp() - equal).abs().max()) < 1e-10
        assert float((a.log_partition - b.log_partition).abs().max()) < 1e-9


def test_strong_potts_repulsion_does_not_cancel() -> None:
    """One label is almost certain and its neighbour must differ, so 1 − p must be accurate."""
    unary = torch.tensor([[[60.0, 1.0, 0.0], [0.0, 0.0, 0.0]]], dtype=torch.float64)
    potts = FactorGraph([3, 3], {"unary": [[0], [1]], "pair": Potts([[0, 1]])})
    for weight in (-90.0, -2000.0):
        scores = {"unary": unary, "pair": torch.tensor([[weight]], dtype=torch.float64)}
        assert largest_difference(loopy_belief_propagation(potts, scores), enumeration(potts, scores)) < 1e-10
        single = {name: given.float() for name, given in scores.items()}
        assert bool(loopy_belief_propagation(potts, single).variable_log_marginals.isfinite().all())


@pytest.mark.parametrize("method", METHODS)
def test_forbidden_configurations_have_probability_0(method: Method) -> None:
    for seed in range(800, 825):
        graph, scores = random_model(seed, strength=1.0)
        scores = forbid(scores, seed, share=0.3)
        beliefs = method(graph, scores, iterations=30)
        exact = enumeration(graph, scores)
        assert bool(beliefs.log_partition.isfinite().all())
        for name, log_b in beliefs.log_marginals.items():
            assert not bool(log_b.isnan().any())
            assert bool((log_b[scores[name] == -math.inf] == -math.inf).all())
            # Exact inference also forbids what messages forbid.
            assert bool((exact.log_marginals[name][log_b == -math.inf] == -math.inf).all())


@pytest.mark.parametrize("method", METHODS)
def test_contradicting_scores_raise(method: Method) -> None:
    graph = FactorGraph([2, 2], {"pair": [[0, 1]], "unary": [[0]]})
    scores = {
        "pair": torch.tensor([[[[0.0, 0.0], [-math.inf, -math.inf]]]]),
        "unary": torch.tensor([[[-math.inf, 1.0]]]),
    }
    with pytest.raises(InputError, match="no possible configuration"):
        method(graph, scores)


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_batch_and_a_graph_without_pairs(method: Method) -> None:
    graph = FactorGraph([2, 3], {"pair": [[0, 1]]})
    assert method(graph, {"pair": torch.zeros(0, 1, 2, 3)}).variable_log_marginals.shape == (0, 2, 3)
    unary_only = FactorGraph([2, 1], {"unary": [[0]]})
    beliefs = method(unary_only, {"unary": torch.tensor([[[0.0, math.log(3.0)]]], dtype=torch.float64)})
    assert torch.allclose(beliefs.variable_log_marginals[0, 0].exp(), torch.tensor([0.25, 0.75], dtype=torch.float64))
    assert abs(float(beliefs.log_partition) - math.log(4)) < 1e-12


def test_items_of_a_batch_are_independent() -> None:
    graph, scores = random_model(911, batch=3)
    together = loopy_belief_propagation(graph, scores, iterations=7, tolerance=0)
    for item in range(3):
        alone = {name: given[item : item + 1] for name, given in scores.items()}
        beliefs = loopy_belief_propagation(graph, alone, iterations=7, tolerance=0)
        assert (
            float((beliefs.variable_log_marginals[0].exp() - together.variable_log_marginals[item].exp()).abs().max())
            < 1e-13
        )


def test_iterations_residual_and_converged_are_consistent() -> None:
    graph, scores = random_model(912, strength=0.4)
    beliefs = loopy_belief_propagation(graph, scores, tolerance=1e-7)
    assert beliefs.converged and beliefs.residual <= 1e-7 and 1 <= beliefs.iterations < 100
    short = loopy_belief_propagation(graph, scores, iterations=beliefs.iterations - 1, tolerance=1e-7)
    assert not short.converged and short.residual > 1e-7 and short.iterations == beliefs.iterations - 1


def test_tree_weights_count_spanning_trees() -> None:
    def appearances(count: int, pairs: list[list[int]]) -> list[float]:
        return tree_weights(FactorGraph([2] * count, {"pair": pairs}))["pair"].tolist()

    assert appearances(3, [[0, 1], [1, 2]]) == pytest.approx([1, 1], abs=1e-12)
    assert appearances(4, [[0, 1], [1, 2], [2, 0], [2, 3]]) == pytest.approx([2 / 3] * 3 + [1], abs=1e-12)
    # A square with a diagonal has eight spanning trees: four with the diagonal, and each side is in five.
    assert appearances(4, [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]) == pytest.approx([5 / 8] * 4 + [1 / 2], abs=1e-12)


def test_forest_weights_sum_to_at_most_the_edges_of_a_forest() -> None:
    for seed in range(950, 1000):
        graph, _ = random_model(seed)
        weights = forest_weights(graph, forests=7)
        assert all(bool(((rho > 0) & (rho <= 1)).all()) for rho in weights.values())
        sizes = [len(group.num_states) - 1 for group in graph.factors.values()]
        joined = sum(size * float(rho.sum()) for size, rho in zip(sizes, weights.values(), strict=True))
        assert joined <= len(graph.num_states) - 1 + 1e-9


def test_convex_weights_are_1_in_trees_and_positive_elsewhere() -> None:
    for seed in range(1000, 1050):
        loops, _ = random_model(seed)
        tree, _ = random_model(seed, tree=True)
        assert all(bool((rho == 1).all()) for rho in convex_weights(tree).values())
        assert all(bool((rho > 0).all()) for rho in convex_weights(loops).values())


@pytest.mark.parametrize(
    "options, message",
    [
        ({"iterations": 0}, "iterations is 0"),
        ({"iterations": 1.5}, "iterations is 1.5"),
        ({"damping": 1.0}, "damping is 1.0"),
        ({"tolerance": -1.0}, "tolerance is -1.0"),
        ({"tolerance": math.nan}, "tolerance is nan"),
        ({"schedule": "random"}, "schedule is 'random'"),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_invalid_options_raise(method: Method, options: dict[str, object], message: str) -> None:
    graph = FactorGraph([2, 2], {"pair": [[0, 1]]})
    with pytest.raises(InputError, match=message):
        method(graph, {"pair": torch.zeros(1, 1, 2, 2)}, **options)


@pytest.mark.parametrize("weights", [{}, {"pair": torch.ones(2)}, {"pair": torch.zeros(1)}, {"pair": [1.0]}])
def test_invalid_weights_raise(weights: object) -> None:
    graph = FactorGraph([2, 2], {"pair": [[0, 1]]})
    with pytest.raises(InputError, match="weights of 'pair'"):
        tree_reweighted(graph, {"pair": torch.zeros(1, 1, 2, 2)}, weights=weights)  # type: ignore[arg-type]
