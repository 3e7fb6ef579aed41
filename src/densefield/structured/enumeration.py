"""Exact inference by enumerating all configurations: the reference for every other method."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from densefield.errors import InputError
from densefield.structured.beliefs import Beliefs, check_possible
from densefield.structured.factor_graph import FactorGraph, Group, Scores, batch_size
from densefield.structured.log_domain import NEG_INF, align, log_sum, marginalise

MAX_CONFIGURATIONS = 10**6


def configuration_scores(graph: FactorGraph, scores: Scores) -> Tensor:
    """The score F(x, ŷ) of every configuration ŷ, (B, L_1, …, L_N) (paper, Fig. 1, step 1).

    Parameters
    ----------
    graph
        The factor graph, with at most 10⁶ configurations.
    scores
        The scores of each group of regions, as ``FactorGraph`` describes them.

    Examples
    --------
    >>> import torch
    >>> graph = FactorGraph([2, 2], {"pair": [[0, 1]], "unary": [[1]]})
    >>> configuration_scores(graph, {"pair": torch.eye(2)[None, None], "unary": torch.tensor([[[0.0, 5.0]]])})
    tensor([[[1., 5.],
             [0., 6.]]])
    """
    count = math.prod(graph.num_states)
    if count > MAX_CONFIGURATIONS:
        raise InputError(
            f"there are {count} configurations, expected at most {MAX_CONFIGURATIONS}. Use junction_tree if the "
            "regions nearly form a tree, else loopy_belief_propagation."
        )
    full = graph.checked(scores)
    variables = tuple(range(len(graph.num_states)))
    total = next(iter(full.values())).new_zeros(batch_size(full), *graph.num_states)
    for name, group in graph.groups.items():
        tables = group.tables(full[name])
        for row, region in enumerate(group.variables.tolist()):
            total = total + align(tables[:, row], tuple(region), variables)
    return total


def enumeration(graph: FactorGraph, scores: Scores) -> Beliefs:
    """Exact marginals and log Z by a softmax over all configurations (paper, Fig. 1).

    Parameters
    ----------
    graph, scores
        As in ``configuration_scores``.

    Examples
    --------
    >>> import torch
    >>> graph = FactorGraph([2, 2], {"pair": [[0, 1]], "unary": [[1]]})
    >>> beliefs = enumeration(graph, {"pair": torch.eye(2)[None, None], "unary": torch.tensor([[[0.0, 5.0]]])})
    >>> beliefs.variable_log_marginals.exp()
    tensor([[[0.2720, 0.7280],
             [0.0067, 0.9933]]])
    """
    total = configuration_scores(graph, scores)
    every = tuple(range(len(graph.num_states)))
    log_partition = marginalise(total, every, ())
    check_possible(log_partition)
    log_p = total - log_partition.reshape(-1, *[1] * len(every))
    log_marginals = {}
    for name, group in graph.groups.items():
        rows = [marginalise(log_p, every, tuple(region)) for region in group.variables.tolist()]
        log_marginals[name] = group_marginals(group, torch.stack(rows, 1))
    variables = stack_variables(graph, [marginalise(log_p, every, (i,)) for i in every])
    return Beliefs(log_marginals, variables, log_partition)


def group_marginals(group: Group, log_tables: Tensor) -> Tensor:
    """Log marginals (B, R, L_1, …, L_k) in the shape of the group's scores: for Potts, of equal labels (B, R)."""
    return log_sum(log_tables.diagonal(dim1=2, dim2=3), 2) if group.potts else log_tables


def stack_variables(graph: FactorGraph, log_marginals: list[Tensor]) -> Tensor:
    """Log marginals (B, L_i) of every variable as (B, N, L), −inf for states that a variable does not have."""
    most = max(graph.num_states)
    padded = [torch.nn.functional.pad(row, (0, most - row.shape[1]), value=NEG_INF) for row in log_marginals]
    return torch.stack(padded, 1)
