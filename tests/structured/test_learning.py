"""Learning: the gradient is predicted minus empirical marginals, exact with exact inference."""

from __future__ import annotations

import math
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from densefield.errors import InputError  # noqa: E402
from densefield.structured import (  # noqa: E402
    FactorGraph,
    Potts,
    configuration_scores,
    convex_belief_propagation,
    enumeration,
    junction_tree,
    log_partition,
    loopy_belief_propagation,
    mean_field,
    negative_log_likelihood,
    tree_reweighted,
)
from tests.support.factor_graphs import forbid, random_model  # noqa: E402

APPROXIMATE = [loopy_belief_propagation, convex_belief_propagation, tree_reweighted]


def leaves(scores: dict[str, object]) -> dict[str, object]:
    return {name: given.clone().requires_grad_() for name, given in scores.items()}


def random_labels(graph: FactorGraph, batch: int, seed: int) -> object:
    noise = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randint(count, (batch,), generator=noise) for count in graph.num_states], 1)


def likelihood_by_autograd(graph: FactorGraph, scores: dict[str, object], labels: object) -> dict[str, object]:
    """The gradient of log Z − F through the softmax over all configurations (paper, Fig. 1)."""
    given = leaves(scores)
    loss = configuration_scores(graph, given).flatten(1).logsumexp(1) - graph.score(given, labels)
    return dict(zip(given, torch.autograd.grad(loss.sum(), list(given.values())), strict=True))


@pytest.mark.parametrize("inference", [enumeration, junction_tree, *APPROXIMATE])
def test_on_trees_the_gradient_equals_autograd_through_enumeration(inference: object) -> None:
    for seed in range(1600, 1625):
        graph, scores = random_model(seed, tree=True, batch=3)
        labels = random_labels(graph, 3, seed)
        given = leaves(scores)
        negative_log_likelihood(graph, given, labels, inference, reduction="sum").backward()
        for name, truth in likelihood_by_autograd(graph, scores, labels).items():
            assert float((given[name].grad - truth).abs().max()) < 1e-10


@pytest.mark.parametrize("inference", [loopy_belief_propagation, tree_reweighted, mean_field])
def test_the_gradient_is_predicted_minus_empirical_marginals(inference: object) -> None:
    graph, scores = random_model(1631, batch=2)
    labels = random_labels(graph, 2, 1631)
    given = leaves(scores)
    negative_log_likelihood(graph, given, labels, inference, reduction="sum").backward()
    beliefs = inference(graph, scores)
    for name, group in graph.groups.items():
        expected = beliefs.log_marginals[name].exp()
        for item in range(2):
            for row, region in enumerate(group.variables.tolist()):
                chosen = tuple(labels[item, region].tolist())
                if group.potts:
                    expected[item, row] -= float(chosen[0] == chosen[1])
                else:
                    expected[(item, row, *chosen)] -= 1
        assert float((given[name].grad - expected).abs().max()) < 1e-12


@pytest.mark.parametrize("inference", [*APPROXIMATE, mean_field])
def test_unrolled_gradients_pass_gradcheck(inference: object) -> None:
    for seed, schedule in ((1641, "parallel"), (1642, "sequential")):
        graph, scores = random_model(seed, batch=1, strength=0.8, largest=2)
        few = partial(inference, iterations=3, tolerance=0, schedule=schedule, damping=0.2)
        names = list(scores)

        def loss(*given: object, graph: object = graph, names: list[str] = names, few: object = few) -> object:
            return log_partition(graph, dict(zip(names, given, strict=True)), few, adjoint="unrolled")

        assert torch.autograd.gradcheck(loss, [scores[name].requires_grad_() for name in names])


def test_at_a_fixed_point_both_adjoints_agree() -> None:
    for seed in range(1650, 1655):
        graph, scores = random_model(seed, strength=0.5)
        labels = random_labels(graph, 2, seed)
        inference = partial(loopy_belief_propagation, iterations=300, tolerance=1e-13, damping=0.1)
        found = []
        for adjoint in ("marginals", "unrolled"):
            given = leaves(scores)
            negative_log_likelihood(graph, given, labels, inference, adjoint=adjoint).backward()
            found.append([given[name].grad for name in scores])
        for one, two in zip(*found, strict=True):
            assert float((one - two).abs().max()) < 1e-9


@pytest.mark.parametrize("adjoint", ["marginals", "unrolled"])
@pytest.mark.parametrize("inference", [enumeration, junction_tree, *APPROXIMATE])
def test_forbidden_configurations_have_a_gradient_of_0(inference: object, adjoint: object) -> None:
    for seed in range(1660, 1670):
        graph, scores = random_model(seed)
        scores = forbid(scores, seed, share=0.3)
        given = leaves(scores)
        labels = torch.zeros(2, len(graph.num_states), dtype=torch.long)  # never forbidden
        few = inference if inference in (enumeration, junction_tree) else partial(inference, iterations=5, tolerance=0)
        negative_log_likelihood(graph, given, labels, few, adjoint=adjoint).backward()
        for name in scores:
            assert bool(given[name].grad.isfinite().all())
            assert bool((given[name].grad[scores[name] == -math.inf] == 0).all())


def test_infinite_repulsion_has_a_finite_gradient() -> None:
    graph = FactorGraph([3] * 3, {"unary": [[0], [1], [2]], "pair": Potts([[0, 1], [1, 2], [2, 0]])})
    for adjoint in ("marginals", "unrolled"):
        unary = torch.tensor([[[9.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]], requires_grad=True)
        weights = torch.full((1, 3), -math.inf, requires_grad=True)
        scores = {"unary": unary, "pair": weights}
        few = partial(loopy_belief_propagation, iterations=6, tolerance=0)
        negative_log_likelihood(graph, scores, torch.tensor([[0, 1, 2]]), few, adjoint=adjoint).backward()
        assert bool(unary.grad.isfinite().all()) and bool(weights.grad.isfinite().all())


def test_the_mean_is_over_variables_and_gradients_of_shared_scores_are_summed() -> None:
    graph = FactorGraph([2] * 4, {"pair": [[0, 1], [1, 2], [2, 3]]})
    table = torch.randn(
        1, 1, 2, 2, generator=torch.Generator().manual_seed(61), dtype=torch.float64, requires_grad=True
    )
    labels = random_labels(graph, 5, 62)
    full = table.expand(5, -1, -1, -1)
    mean = negative_log_likelihood(graph, {"pair": full}, labels, junction_tree)
    total = negative_log_likelihood(graph, {"pair": full}, labels, junction_tree, reduction="sum")
    assert abs(float((mean * 20 - total).detach())) < 1e-12
    total.backward()
    assert abs(float(table.grad.sum())) < 1e-12  # marginals and indicators of a region both sum to 1


def test_a_second_derivative_raises() -> None:
    graph, scores = random_model(1641, tree=True, batch=2)
    given = leaves(scores)
    loss = negative_log_likelihood(graph, given, random_labels(graph, 2, 1641), junction_tree)
    slopes = torch.autograd.grad(loss, list(given.values()), create_graph=True)
    with pytest.raises(RuntimeError, match="differentiated once"):
        torch.autograd.grad(sum((slope**2).sum() for slope in slopes), list(given.values()))


def test_pair_scores_are_learnt_by_gradient_descent() -> None:
    """Labels alternate along a chain, which scores of single variables cannot express."""
    graph = FactorGraph([2] * 6, {"pair": [[i, i + 1] for i in range(5)]})
    labels = torch.tensor([[0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0]])
    table = torch.zeros(1, 1, 2, 2, requires_grad=True)
    optimiser = torch.optim.SGD([table], lr=2.0)
    for _ in range(50):
        optimiser.zero_grad()
        loss = negative_log_likelihood(graph, {"pair": table.expand(2, -1, -1, -1)}, labels, loopy_belief_propagation)
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < 0.2 < math.log(2)  # two labellings remain: log 2 / 6 = 0.116


def test_invalid_options_and_labels_raise() -> None:
    graph = FactorGraph([2, 2], {"pair": [[0, 1]]})
    scores, labels = {"pair": torch.zeros(1, 1, 2, 2)}, torch.tensor([[0, 1]])
    with pytest.raises(InputError, match="adjoint is 'keep', expected one of marginals, unrolled"):
        negative_log_likelihood(graph, scores, labels, junction_tree, adjoint="keep")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="reduction is 'none'"):
        negative_log_likelihood(graph, scores, labels, junction_tree, reduction="none")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="label 2"):
        negative_log_likelihood(graph, scores, torch.tensor([[0, 2]]), junction_tree)
