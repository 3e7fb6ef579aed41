"""Mean field on factor graphs: a lower bound that never decreases, and the update of the dense CRF."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from densefield import CRF, Custom  # noqa: E402
from densefield.errors import InputError  # noqa: E402
from densefield.structured import FactorGraph, Potts, enumeration, mean_field  # noqa: E402
from densefield.structured.iteration import steps  # noqa: E402
from densefield.structured.mean_field import MeanField  # noqa: E402
from tests.support.factor_graphs import random_model  # noqa: E402


def test_the_bound_is_below_log_z_and_never_decreases() -> None:
    for seed in range(1200, 1250):
        graph, scores = random_model(seed, strength=2.0, batch=8)
        field = MeanField(graph, graph.checked(scores))
        log_q = field.start()
        last = field.beliefs(log_q, 0, 0.0, False).log_partition
        for step in steps(graph, "sequential") * 3:
            log_q = field.update(log_q, step)
            now = field.beliefs(log_q, 0, 0.0, False).log_partition
            assert float((last - now).max()) < 1e-10  # rounding
            last = now
        assert float((last - enumeration(graph, scores).log_partition).max()) < 1e-10


def test_independent_variables_are_exact() -> None:
    graph = FactorGraph([2, 3], {"a": [[0]], "b": [[1]]})
    scores = {"a": torch.tensor([[[0.4, -math.inf]]]).double(), "b": torch.randn(1, 1, 3).double()}
    exact, found = enumeration(graph, scores), mean_field(graph, scores)
    assert float((exact.variable_log_marginals.exp() - found.variable_log_marginals.exp()).abs().max()) < 1e-14
    assert abs(float(exact.log_partition - found.log_partition)) < 1e-14


def test_the_parallel_update_on_all_pairs_equals_the_dense_crf() -> None:
    """Potts weights w k(i, j) on all pairs i ≠ j, without normalisation."""
    rng = np.random.default_rng(4711)
    features, f = rng.standard_normal((7, 2)), rng.standard_normal((3, 7))
    kernel = np.exp(-0.5 * ((features[:, None] - features[None]) ** 2).sum(-1))
    pairs = list(itertools.combinations(range(7), 2))
    graph = FactorGraph([3] * 7, {"unary": [[i] for i in range(7)], "pair": Potts(pairs)})
    weights = torch.tensor([[0.8 * kernel[i, j] for i, j in pairs]])
    found = mean_field(
        graph, {"unary": torch.tensor(f.T[None]), "pair": weights}, schedule="parallel", iterations=5, tolerance=0
    )
    crf = CRF(
        [Custom("feature", sigma=1.0, weight=0.8, normalization="none")],
        iterations=5,
        exclude_self=True,
        method="exact",
    )
    dense = crf.solve(f.astype(np.float64), features={"feature": features})
    assert (
        np.abs(dense.marginals.T - found.variable_log_marginals[0].exp().numpy()).max() < 1e-6
    )  # the dense one is of float32


def test_forbidden_pairs_raise() -> None:
    graph = FactorGraph([2, 2], {"pair": [[0, 1]]})
    with pytest.raises(InputError, match="mean field cannot forbid"):
        mean_field(graph, {"pair": torch.tensor([[[[0.0, -math.inf], [0.0, 0.0]]]])})


def test_a_variable_with_all_labels_forbidden_raises() -> None:
    graph = FactorGraph([2, 2], {"a": [[0]], "pair": [[0, 1]]})
    with pytest.raises(InputError, match="no possible configuration"):
        mean_field(graph, {"a": torch.full((1, 1, 2), -math.inf), "pair": torch.zeros(1, 1, 2, 2)})


def test_damped_parallel_updates_reach_the_sequential_solution_with_weak_scores() -> None:
    for seed in range(1300, 1315):
        graph, scores = random_model(seed, strength=0.3)
        one = mean_field(graph, scores, tolerance=1e-12, iterations=500)
        two = mean_field(graph, scores, tolerance=1e-12, iterations=500, schedule="parallel", damping=0.2)
        assert one.converged and two.converged
        assert float((one.variable_log_marginals.exp() - two.variable_log_marginals.exp()).abs().max()) < 1e-10


def test_an_empty_batch() -> None:
    graph = FactorGraph([2, 3], {"pair": [[0, 1]]})
    assert mean_field(graph, {"pair": torch.zeros(0, 1, 2, 3)}).variable_log_marginals.shape == (0, 2, 3)
