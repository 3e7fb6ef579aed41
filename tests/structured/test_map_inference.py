"""MAP inference: max-product is exact on trees, and ICM never lowers the score."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from densefield.errors import InputError, InputTypeError  # noqa: E402
from densefield.structured import (  # noqa: E402
    FactorGraph,
    Potts,
    configuration_scores,
    exact_map,
    icm,
    max_product,
    tree_weights,
)
from densefield.structured.message_passing import potts_maximum  # noqa: E402
from tests.support.factor_graphs import forbid, random_model  # noqa: E402


@pytest.mark.parametrize("schedule", ["parallel", "sequential"])
def test_max_product_is_exact_on_trees(schedule: str) -> None:
    for seed in range(1400, 1450):
        graph, scores = random_model(seed, tree=True, strength=2.0, potts=False)  # Potts has ties
        if seed % 2:
            scores = forbid(scores, seed)
        found = max_product(graph, scores, schedule=schedule, iterations=12)  # type: ignore[arg-type]
        assert torch.equal(found, exact_map(graph, scores))


def test_max_product_often_finds_the_best_on_loopy_graphs() -> None:
    right = {"bethe": 0, "trees": 0}
    for seed in range(1450, 1500):
        graph, scores = random_model(seed, batch=4)
        best = configuration_scores(graph, scores).flatten(1).amax(1)
        for name, weights in (("bethe", None), ("trees", tree_weights(graph))):
            found = graph.score(scores, max_product(graph, scores, weights=weights, iterations=30, damping=0.2))
            assert bool((found <= best + 1e-12).all())
            right[name] += int((found > best - 1e-9).sum())
    assert min(right.values()) > 0.7 * 200  # fifty graphs, four items each


def test_icm_ends_at_a_local_maximum_no_worse_than_its_start() -> None:
    for seed in range(1500, 1550):
        graph, scores = random_model(seed, strength=2.0)
        noise = torch.Generator().manual_seed(seed)
        start = torch.stack([torch.randint(count, (2,), generator=noise) for count in graph.num_states], 1)
        found = icm(graph, scores, start=start)
        score = graph.score(scores, found)
        assert bool((score >= graph.score(scores, start) - 1e-12).all())
        for variable, count in enumerate(graph.num_states):
            for label in range(count):
                changed = found.clone()
                changed[:, variable] = label
                assert bool((graph.score(scores, changed) <= score + 1e-12).all())


def test_icm_starts_from_the_best_label_of_each_variable() -> None:
    graph = FactorGraph([2, 3], {"unary": [[0]], "other": [[1]]})
    scores = {"unary": torch.tensor([[[0.0, 1.0]]]), "other": torch.tensor([[[0.0, 2.0, 1.0]]])}
    assert icm(graph, scores).tolist() == [[1, 1]]


def test_the_potts_maximum_equals_the_maximum_of_its_table() -> None:
    noise = torch.Generator().manual_seed(515)
    for labels in (1, 2, 5):
        nu = torch.randn(40, labels, generator=noise)
        weight = 2 * torch.randn(40, 1, generator=noise)
        table = nu[:, None, :] + torch.where(torch.eye(labels, dtype=torch.bool), weight[..., None], torch.tensor(0.0))
        assert torch.equal(potts_maximum(weight, nu), table.amax(-1))


def test_contradictions_raise() -> None:
    graph = FactorGraph([2, 2], {"unary": [[0], [1]], "pair": Potts([[0, 1]])})
    scores = {"unary": torch.tensor([[[0.0, -math.inf], [0.0, -math.inf]]]), "pair": torch.tensor([[-math.inf]])}
    with pytest.raises(InputError, match="no possible configuration"):
        max_product(graph, scores)
    with pytest.raises(InputTypeError, match="labels are"):
        icm(graph, scores, start=torch.zeros(1, 2))


def test_an_empty_batch() -> None:
    graph = FactorGraph([2, 3], {"pair": [[0, 1]]})
    scores = {"pair": torch.zeros(0, 1, 2, 3)}
    assert max_product(graph, scores).shape == icm(graph, scores).shape == (0, 2)
