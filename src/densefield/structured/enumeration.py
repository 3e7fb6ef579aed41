"""All configurations, one by one: the truth that every other way is measured by."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from densefield.errors import InputError
from densefield.structured.beliefs import Beliefs, check_possible
from densefield.structured.factor_graph import FactorGraph, Group, Scores, batch_size
from densefield.structured.log_domain import NEVER, align, log_sum, marginalise

MOST_CONFIGURATIONS = 10**6


def configuration_scores(graph: FactorGraph, scores: Scores) -> Tensor:
    """F(x, ŷ) of every configuration ŷ, (B, L_1, …, L_N) (paper, Fig. 1, step 1).

    >>> import torch
    >>> graph = FactorGraph([2, 2], {"pair": [[0, 1]], "unary": [[1]]})
    >>> configuration_scores(graph, {"pair": torch.eye(2)[None, None], "unary": torch.tensor([[[0.0, 5.0]]])})
    tensor([[[1., 5.],
             [0., 6.]]])
    """
    count = math.prod(graph.labels)
    if count > MOST_CONFIGURATIONS:
        raise InputError(
            f"there are {count} configurations, expected {MOST_CONFIGURATIONS} at most. Use junction_tree where "
            "regions form a tree or nearly so, and loopy_belief_propagation elsewhere."
        )
    full = graph.checked(scores)
    variables = tuple(range(len(graph.labels)))
    total = next(iter(full.values())).new_zeros(batch_size(full), *graph.labels)
    for name, group in graph.groups.items():
        tables = group.tables(full[name])
        for row, region in enumerate(group.variables.tolist()):
            total = total + align(tables[:, row], tuple(region), variables)
    return total


def enumeration(graph: FactorGraph, scores: Scores) -> Beliefs:
    """Exact marginals and log Z by the soft-max over all configurations, 10⁶ of them at most (paper, Fig. 1).

    >>> import torch
    >>> graph = FactorGraph([2, 2], {"pair": [[0, 1]], "unary": [[1]]})
    >>> beliefs = enumeration(graph, {"pair": torch.eye(2)[None, None], "unary": torch.tensor([[[0.0, 5.0]]])})
    >>> beliefs.variables.exp()
    tensor([[[0.2720, 0.7280],
             [0.0067, 0.9933]]])
    """
    total = configuration_scores(graph, scores)
    every = tuple(range(len(graph.labels)))
    log_partition = marginalise(total, every, ())
    check_possible(log_partition)
    log_p = total - log_partition.reshape(-1, *[1] * len(every))
    log_marginals = {name: _region_marginals(group, log_p, every) for name, group in graph.groups.items()}
    return Beliefs(
        log_marginals, stack_variables(graph, [marginalise(log_p, every, (i,)) for i in every]), log_partition
    )


def _region_marginals(group: Group, log_p: Tensor, every: tuple[int, ...]) -> Tensor:
    rows = [marginalise(log_p, every, tuple(region)) for region in group.variables.tolist()]
    return equal_or_all(group, torch.stack(rows, 1))


def equal_or_all(group: Group, log_tables: Tensor) -> Tensor:
    """Marginals of regions (B, R, L_1, …, L_k) as the group gives its scores: for Potts, of equal labels (B, R)."""
    return log_sum(log_tables.diagonal(dim1=2, dim2=3), 2) if group.potts else log_tables


def stack_variables(graph: FactorGraph, log_marginals: list[Tensor]) -> Tensor:
    """Log marginals (B, L_i) of every variable as (B, N, L), −inf for labels that do not exist."""
    most = max(graph.labels)
    padded = [torch.nn.functional.pad(row, (0, most - row.shape[1]), value=NEVER) for row in log_marginals]
    return torch.stack(padded, 1)
