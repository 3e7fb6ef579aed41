"""Exact inference: the junction tree equals enumeration of all configurations."""

from __future__ import annotations

import itertools
import math

import pytest

torch = pytest.importorskip("torch")

from densefield.errors import InputError  # noqa: E402
from densefield.structured import (  # noqa: E402
    Beliefs,
    FactorGraph,
    Potts,
    configuration_scores,
    enumeration,
    exact_map,
    exact_samples,
    junction_tree,
)
from tests.support.factor_graphs import forbid, random_model  # noqa: E402

ROUNDING = 1e-12  # sums of a few thousand terms of order 1 in float64


def largest_difference(a: Beliefs, b: Beliefs) -> float:
    """The largest difference of probabilities and of log Z."""
    pairs = [(a.log_marginals[name], b.log_marginals[name]) for name in a.log_marginals] + [
        (a.variable_log_marginals, b.variable_log_marginals)
    ]
    differences = [float((x.exp() - y.exp()).abs().max()) for x, y in pairs]
    return max([*differences, float((a.log_partition - b.log_partition).abs().max())])


def test_configuration_scores_sum_all_regions() -> None:
    for seed in range(70, 90):
        graph, scores = random_model(seed, batch=1)
        every = configuration_scores(graph, scores)
        for labels in itertools.product(*(range(count) for count in graph.num_states)):
            total = 0.0
            for name, group in graph.groups.items():
                for row, region in enumerate(group.variables.tolist()):
                    chosen = tuple(labels[i] for i in region)
                    if group.potts:
                        total += float(scores[name][0, row]) * (chosen[0] == chosen[1])
                    else:
                        total += float(scores[name][(0, row, *chosen)])
            assert abs(float(every[(0, *labels)]) - total) < ROUNDING
            assert abs(float(graph.score(scores, torch.tensor([labels]))) - total) < ROUNDING


@pytest.mark.parametrize("forbidding", [False, True])
@pytest.mark.parametrize("tree", [False, True])
def test_the_junction_tree_equals_enumeration(tree: bool, forbidding: bool) -> None:
    for seed in range(500, 600):
        graph, scores = random_model(seed, tree=tree, strength=2.0)
        if forbidding:
            scores = forbid(scores, seed)
        assert largest_difference(enumeration(graph, scores), junction_tree(graph, scores)) < ROUNDING


def test_marginals_are_the_gradient_of_the_log_partition() -> None:
    for seed in range(610, 640):
        graph, scores = random_model(seed)
        scores = {name: given.requires_grad_() for name, given in scores.items()}
        beliefs = junction_tree(graph, scores)
        gradients = torch.autograd.grad(beliefs.log_partition.sum(), list(scores.values()))
        for name, gradient in zip(scores, gradients, strict=True):
            assert float((gradient - beliefs.log_marginals[name].exp().detach()).abs().max()) < ROUNDING


def test_the_exact_map_has_the_highest_score() -> None:
    for seed in range(640, 740):
        graph, scores = random_model(seed)
        scores = forbid(scores, seed)
        best = configuration_scores(graph, scores).flatten(1).amax(1)
        assert float((graph.score(scores, exact_map(graph, scores)) - best).abs().max()) < ROUNDING


def test_sample_frequencies_match_probabilities() -> None:
    graph, scores = random_model(743, batch=2, strength=1.5)
    count = 40_000
    samples = exact_samples(graph, scores, count, torch.Generator().manual_seed(3121))
    assert samples.shape == (count, 2, len(graph.num_states))
    p = configuration_scores(graph, scores).flatten(1).softmax(1)
    index = torch.zeros(count, 2, dtype=torch.long)
    for variable, labels in enumerate(graph.num_states):
        index = index * labels + samples[..., variable]
    for item in range(2):
        often = torch.bincount(index[:, item], minlength=p.shape[1]) / count
        # Five standard deviations for each configuration.
        assert bool(((often - p[item]).abs() <= 5 * (p[item] * (1 - p[item]) / count).sqrt() + 1e-12).all())


def test_a_chain_too_long_for_enumeration_is_exact() -> None:
    length, labels = 60, 3
    graph = FactorGraph([labels] * length, {"pair": [[i, i + 1] for i in range(length - 1)]})
    table = torch.randn(1, 1, labels, labels, generator=torch.Generator().manual_seed(97), dtype=torch.float64)
    matrix = table[0, 0].exp()
    expected = torch.linalg.matrix_power(matrix, length - 1).sum().log()
    assert abs(float(junction_tree(graph, {"pair": table}).log_partition - expected)) < 1e-10  # of about 100


def test_isolated_variables_are_uniform_and_contribute_to_log_z() -> None:
    graph = FactorGraph([2, 5, 1], {"first": [[0]]})
    scores = {"first": torch.tensor([[[0.3, -0.4]]], dtype=torch.float64)}
    for beliefs in (enumeration(graph, scores), junction_tree(graph, scores)):
        assert torch.allclose(beliefs.variable_log_marginals[0, 1].exp(), torch.full((5,), 0.2, dtype=torch.float64))
        assert beliefs.variable_log_marginals[0, 2].tolist() == [0.0, -math.inf, -math.inf, -math.inf, -math.inf]
        assert abs(float(beliefs.log_partition) - math.log(5 * (math.exp(0.3) + math.exp(-0.4)))) < ROUNDING


def test_an_empty_batch_gives_empty_marginals() -> None:
    graph = FactorGraph([2, 3], {"pair": [[0, 1]]})
    scores = {"pair": torch.zeros(0, 1, 2, 3)}
    for infer in (enumeration, junction_tree):
        beliefs = infer(graph, scores)
        assert beliefs.variable_log_marginals.shape == (0, 2, 3) and beliefs.log_partition.shape == (0,)
    assert exact_map(graph, scores).shape == (0, 2)
    assert exact_samples(graph, scores, 4).shape == (4, 0, 2)


def test_too_many_configurations_raise() -> None:
    graph = FactorGraph([10] * 7, {"pair": [[i, i + 1] for i in range(6)]})
    with pytest.raises(InputError, match=r"10000000 configurations.*junction_tree"):
        enumeration(graph, {"pair": torch.zeros(1, 6, 10, 10)})


def test_too_high_a_tree_width_raises() -> None:
    pairs = list(itertools.combinations(range(12), 2))
    graph = FactorGraph([4] * 12, {"pair": Potts(pairs)})
    with pytest.raises(InputError, match=r"12 variables.*loopy_belief_propagation"):
        junction_tree(graph, {"pair": torch.zeros(1, len(pairs))})


def test_forbidding_all_configurations_raises() -> None:
    graph = FactorGraph([2, 2], {"pair": [[0, 1]], "unary": [[0]]})
    scores = {
        "pair": torch.tensor([[[[0.0, 0.0], [-math.inf, -math.inf]]]]),
        "unary": torch.tensor([[[-math.inf, 1.0]]]),
    }
    for infer in (enumeration, junction_tree, exact_map, lambda g, s: exact_samples(g, s, 1)):
        with pytest.raises(InputError, match="no possible configuration"):
            infer(graph, scores)


@pytest.mark.parametrize("count", [-1, 2.5, True])
def test_an_invalid_number_of_samples_raises(count: object) -> None:
    graph = FactorGraph([2], {"unary": [[0]]})
    with pytest.raises(InputError, match="count is"):
        exact_samples(graph, {"unary": torch.zeros(1, 1, 2)}, count)  # type: ignore[arg-type]
