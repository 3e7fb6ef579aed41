"""Message passing on grids equals that on general graphs, in the log domain and with probabilities."""

from __future__ import annotations

import math
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from densefield.errors import InputError, InputTypeError  # noqa: E402
from densefield.structured import (  # noqa: E402
    Beliefs,
    GridGraph,
    enumeration,
    grid_belief_propagation,
    grid_tree_weights,
    log_partition,
    loopy_belief_propagation,
    negative_log_likelihood,
    tree_reweighted,
)
from densefield.structured.grid_message_passing import ProbabilityDomain  # noqa: E402

SIZES = [(4, 5), (1, 4), (5, 1), (1, 1)]


def random_scores(
    grid: GridGraph, strength: float, dtype: object = torch.float64, seed: int = 818
) -> dict[str, object]:
    noise = torch.Generator().manual_seed(seed)
    table = () if grid.potts else (grid.num_states, grid.num_states)
    scores = {"pixel": 2 * torch.randn(2, grid.num_states, grid.rows, grid.columns, generator=noise, dtype=dtype)}
    for name, size in grid.pairs.items():
        scores[name] = strength * torch.randn(2, *size, *table, generator=noise, dtype=dtype)
    return scores


def difference_to_graph(grid: GridGraph, beliefs: Beliefs, other: Beliefs) -> float:
    """The largest difference of probabilities, and of log Z relative to its size."""
    found = []
    for name, log_b in other.log_marginals.items():
        mine = beliefs.log_marginals[name]
        flat = mine.flatten(2).transpose(1, 2) if name == "pixel" else mine.flatten(1, 2)
        found.append(float((flat.exp() - log_b.exp()).abs().max()))
    found.append(float((beliefs.variable_log_marginals.exp() - other.variable_log_marginals.exp()).abs().max()))
    found.append(
        float(((beliefs.log_partition - other.log_partition) / other.log_partition.abs().clamp(min=1)).abs().max())
    )
    return max(found)


@pytest.mark.parametrize("reweighted", [False, True])
@pytest.mark.parametrize("schedule", ["parallel", "sequential"])
@pytest.mark.parametrize("strength", [0.5, 8.0])  # the first uses probabilities
@pytest.mark.parametrize("potts", [False, True])
def test_the_grid_equals_the_general_graph(potts: bool, strength: float, schedule: str, reweighted: bool) -> None:
    # Every iteration amplifies rounding errors.
    for dtype, tolerance in ((torch.float64, 1e-11), (torch.float32, 1e-4)):
        for size in SIZES:
            grid = GridGraph(*size, num_states=3, potts=potts)
            scores = random_scores(grid, strength, dtype)
            options = {"iterations": 6, "tolerance": 0, "schedule": schedule, "damping": 0.1}
            graph, flat = grid.factor_graph(), grid.factor_scores(scores)
            if reweighted:
                weights = grid_tree_weights(grid)
                beliefs = grid_belief_propagation(grid, scores, weights=weights, **options)
                rho = {name: weights[name].flatten() for name in graph.factors}
                other = tree_reweighted(graph, flat, weights=rho, **options)
            else:
                beliefs = grid_belief_propagation(grid, scores, **options)
                other = loopy_belief_propagation(graph, flat, **options)
            assert difference_to_graph(grid, beliefs, other) < tolerance
            assert abs(beliefs.residual - other.residual) < tolerance


def test_probabilities_are_used_only_where_they_are_accurate() -> None:
    assert ProbabilityDomain.accurate(torch.tensor([-2.0, 19.0]), potts=True)
    assert not ProbabilityDomain.accurate(torch.tensor([-4.0, 19.0]), potts=True)
    assert not ProbabilityDomain.accurate(torch.tensor([0.0, 21.0]), potts=True)
    assert ProbabilityDomain.accurate(torch.tensor([-30.0, -11.0]), potts=False)
    assert not ProbabilityDomain.accurate(torch.tensor([-math.inf, 0.0]), potts=False)


@pytest.mark.parametrize("potts", [False, True])
def test_probabilities_do_not_underflow_with_strong_pixel_scores(potts: bool) -> None:
    grid = GridGraph(3, 3, num_states=4, potts=potts)
    scores = random_scores(grid, 0.5, torch.float32)
    scores["pixel"] = 80 * scores["pixel"]
    beliefs = grid_belief_propagation(grid, scores, iterations=5, tolerance=0)
    double = {name: given.double() for name, given in scores.items()}
    other = loopy_belief_propagation(grid.factor_graph(), grid.factor_scores(double), iterations=5, tolerance=0)
    assert bool(beliefs.variable_log_marginals.isfinite().all())
    assert float((beliefs.variable_log_marginals.exp() - other.variable_log_marginals.exp().float()).abs().max()) < 1e-4


@pytest.mark.parametrize("potts", [False, True])
def test_forbidden_labels_and_pairs_have_probability_0(potts: bool) -> None:
    grid = GridGraph(3, 3, num_states=3, potts=potts)
    scores = random_scores(grid, 0.5)
    scores["pixel"][:, 1, 1, 1] = -math.inf
    if not potts:
        scores["right"][0, 0, 0, 2, 2] = -math.inf
    beliefs = grid_belief_propagation(grid, scores, iterations=9, tolerance=0)
    other = loopy_belief_propagation(grid.factor_graph(), grid.factor_scores(scores), iterations=9, tolerance=0)
    assert difference_to_graph(grid, beliefs, other) < 1e-11
    assert bool((beliefs.log_marginals["pixel"][:, 1, 1, 1] == -math.inf).all())
    scores["pixel"][0, :, 0, 0] = -math.inf
    with pytest.raises(InputError, match="item 0 has no possible configuration"):
        grid_belief_propagation(grid, scores)


def test_a_row_of_pixels_is_exact() -> None:
    grid = GridGraph(1, 6, num_states=3)
    scores = random_scores(grid, 1.0)
    exact = enumeration(grid.factor_graph(), grid.factor_scores(scores))
    assert difference_to_graph(grid, grid_belief_propagation(grid, scores, iterations=12), exact) < 1e-10


def test_tree_weights_bound_log_z_from_above() -> None:
    for seed in range(900, 910):
        grid = GridGraph(3, 4, num_states=2, potts=True)
        scores = random_scores(grid, 2.0, seed=seed)
        options = {"iterations": 1000, "schedule": "sequential", "damping": 0.2, "tolerance": 1e-8}
        beliefs = grid_belief_propagation(grid, scores, weights=grid_tree_weights(grid), **options)
        exact = enumeration(grid.factor_graph(), grid.factor_scores(scores))
        assert beliefs.converged
        assert float((exact.log_partition - beliefs.log_partition).max()) < 1e-6


def test_tree_weights_sum_to_the_edges_of_a_spanning_tree() -> None:
    for size in SIZES:
        weights = grid_tree_weights(GridGraph(*size, num_states=2))
        assert abs(sum(float(rho.sum()) for rho in weights.values()) - (size[0] * size[1] - 1)) < 1e-5


def test_a_shared_table_equals_copies_of_it() -> None:
    grid = GridGraph(3, 4, num_states=3)
    scores = random_scores(grid, 1.0)
    table = scores["right"][:1, :1, :1].clone()
    shared = {"pixel": scores["pixel"], "right": table, "down": 0.5 * table}
    copies = {name: given.clone() for name, given in grid.checked(shared).items()}
    one, other = (grid_belief_propagation(grid, given, iterations=6, tolerance=0) for given in (shared, copies))
    assert float((one.variable_log_marginals.exp() - other.variable_log_marginals.exp()).abs().max()) < 1e-12
    assert float((one.log_marginals["down"].exp() - other.log_marginals["down"].exp()).abs().max()) < 1e-12


@pytest.mark.parametrize("potts", [False, True])
def test_the_gradient_equals_the_gradient_on_the_general_graph(potts: bool) -> None:
    grid = GridGraph(3, 4, num_states=3, potts=potts)
    scores = random_scores(grid, 0.7)
    labels = torch.randint(3, (2, 3, 4), generator=torch.Generator().manual_seed(31))
    options = {"iterations": 8, "tolerance": 0}
    found = []
    for general in (False, True):
        given = {name: value.clone().requires_grad_() for name, value in scores.items()}
        if general:
            inference = partial(loopy_belief_propagation, **options)
            flat = grid.factor_scores(given)
            negative_log_likelihood(grid.factor_graph(), flat, labels.flatten(1), inference).backward()
        else:
            negative_log_likelihood(grid, given, labels, partial(grid_belief_propagation, **options)).backward()
        found.append([given[name].grad for name in given])
    for one, other in zip(*found, strict=True):
        assert float((one - other).abs().max()) < 1e-12


@pytest.mark.parametrize("adjoint", ["marginals", "unrolled"])
def test_the_gradient_of_a_shared_table_is_the_sum_over_its_copies(adjoint: object) -> None:
    grid = GridGraph(3, 4, num_states=3)
    scores = random_scores(grid, 1.0)
    labels = torch.randint(3, (2, 3, 4), generator=torch.Generator().manual_seed(37))
    table = scores["right"][:1, :1, :1].clone().requires_grad_()
    few = partial(grid_belief_propagation, iterations=4, tolerance=0)
    shared = {"pixel": scores["pixel"], "right": table, "down": scores["down"]}
    negative_log_likelihood(grid, shared, labels, few, adjoint=adjoint).backward()
    copies = table.detach().repeat(2, 3, 3, 1, 1).requires_grad_()
    negative_log_likelihood(grid, {**shared, "right": copies}, labels, few, adjoint=adjoint).backward()
    assert float((table.grad - copies.grad.sum((0, 1, 2), keepdim=True)).abs().max()) < 1e-12


@pytest.mark.parametrize("strength", [0.5, 8.0])
@pytest.mark.parametrize("potts", [False, True])
def test_unrolled_gradients_pass_gradcheck(potts: bool, strength: float) -> None:
    grid = GridGraph(2, 2, num_states=2, potts=potts)
    scores = random_scores(grid, strength)
    few = partial(grid_belief_propagation, iterations=3, tolerance=0, damping=0.1)

    def loss(*given: object) -> object:
        return log_partition(grid, dict(zip(scores, given, strict=True)), few, adjoint="unrolled")

    assert torch.autograd.gradcheck(loss, [given.requires_grad_() for given in scores.values()])


def test_an_empty_batch() -> None:
    grid = GridGraph(2, 3, num_states=2, potts=True)
    scores = {"pixel": torch.zeros(0, 2, 2, 3), "right": torch.zeros(1, 1, 1), "down": torch.zeros(1, 1, 1)}
    assert grid_belief_propagation(grid, scores).variable_log_marginals.shape == (0, 6, 2)


@pytest.mark.parametrize("arguments", [(0, 3, 2), (2, 2.5, 2), (2, 3, 0), (True, 3, 2)])
def test_invalid_sizes_raise(arguments: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match="expected an integer"):
        GridGraph(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"pixel": torch.zeros(1, 3, 2, 3)}, "'pixel' have shape"),
        ({"pixel": torch.zeros(1, 2, 1, 1)}, "'pixel' have shape"),
        ({"right": torch.zeros(1, 2, 3)}, "'right' have shape"),
        ({"down": torch.full((1, 1, 3), math.nan)}, "NaN"),
        ({"other": torch.zeros(1)}, "expected pixel, right, down"),
    ],
)
def test_scores_of_the_wrong_shape_or_value_raise(changed: dict[str, object], message: str) -> None:
    grid = GridGraph(2, 3, num_states=2, potts=True)
    scores = {"pixel": torch.zeros(1, 2, 2, 3), "right": torch.zeros(1, 2, 2), "down": torch.zeros(1, 1, 3)}
    with pytest.raises(InputError, match=message):
        grid_belief_propagation(grid, {**scores, **changed})


@pytest.mark.parametrize(
    "labels, error, message",
    [
        (torch.zeros(1, 6).long(), InputError, "shape"),
        (torch.full((1, 2, 3), 255), InputError, "void pixels"),
        (torch.zeros(1, 2, 3), InputTypeError, "integers"),
    ],
)
def test_invalid_labels_raise(labels: object, error: type[Exception], message: str) -> None:
    grid = GridGraph(2, 3, num_states=2, potts=True)
    scores = {"pixel": torch.zeros(1, 2, 2, 3), "right": torch.zeros(1, 2, 2), "down": torch.zeros(1, 1, 3)}
    with pytest.raises(error, match=message):
        grid.score(scores, labels)  # type: ignore[arg-type]


@pytest.mark.parametrize("weights", [{}, {"right": torch.zeros(2, 2), "down": torch.ones(1, 3)}])
def test_invalid_weights_and_schedules_raise(weights: object) -> None:
    grid = GridGraph(2, 3, num_states=2, potts=True)
    scores = {"pixel": torch.zeros(1, 2, 2, 3), "right": torch.zeros(1, 2, 2), "down": torch.zeros(1, 1, 3)}
    with pytest.raises(InputError, match="weights of 'right'"):
        grid_belief_propagation(grid, scores, weights=weights)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="schedule is 'rows'"):
        grid_belief_propagation(grid, scores, schedule="rows")  # type: ignore[arg-type]
