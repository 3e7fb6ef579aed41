"""Loopy, convex and tree-reweighted belief propagation: approximate marginals of any factor graph."""

from __future__ import annotations

from densefield.structured.beliefs import Beliefs
from densefield.structured.counting_numbers import Weights, bethe_weights, convex_weights, tree_weights
from densefield.structured.factor_graph import FactorGraph, Scores
from densefield.structured.iteration import Schedule
from densefield.structured.message_passing import pass_messages


def loopy_belief_propagation(
    graph: FactorGraph,
    scores: Scores,
    *,
    iterations: int = 100,
    schedule: Schedule = "parallel",
    damping: float = 0.0,
    tolerance: float = 1e-6,
) -> Beliefs:
    """Marginals by sum-product messages, and the Bethe approximation of log Z (paper, Fig. 2, step 2).

    It is exact on trees and often accurate elsewhere. With loops it may oscillate, which damping reduces, and log Z is
    not a bound.

    Parameters
    ----------
    graph
        The factor graph.
    scores
        The scores of each group of regions, as ``FactorGraph`` describes them.
    iterations
        Maximum number of iterations; each replaces every message once.
    schedule
        "parallel" replaces all messages together; "sequential" updates one colour of variables after another, which
        takes fewer iterations of more steps.
    damping
        Weight of the old message in the log domain, 0 or more and below 1.
    tolerance
        Stop once ``residual``, ``inconsistency`` and ``gap`` of ``Beliefs`` are at most this large. 0 makes all
        iterations. In float32, rounding alone is about 1e-6 if scores are strong.

    Examples
    --------
    >>> import torch
    >>> graph = FactorGraph([2] * 3, {"unary": [[0]], "pair": [[0, 1], [1, 2], [2, 0]]})
    >>> scores = {"unary": torch.tensor([[[1.0, 0.0]]]), "pair": torch.eye(2).reshape(1, 1, 2, 2)}
    >>> beliefs = loopy_belief_propagation(graph, scores)
    >>> beliefs.variable_log_marginals[0].exp()
    tensor([[0.7681, 0.2319],
            [0.6649, 0.3351],
            [0.6649, 0.3351]])
    >>> beliefs.converged
    True
    """
    weights = bethe_weights(graph)
    return pass_messages(graph, scores, weights, iterations, schedule, damping, tolerance)


def convex_belief_propagation(
    graph: FactorGraph,
    scores: Scores,
    *,
    weights: Weights | None = None,
    iterations: int = 1000,
    schedule: Schedule = "sequential",
    damping: float = 0.0,
    tolerance: float = 1e-6,
) -> Beliefs:
    """Marginals that maximise a concave approximation of the entropy: the solution is unique.

    With the sequential schedule and no damping, every step minimises a convex function along some messages. It
    therefore converges for all scores, though slowly if they are strong: check ``converged``. It is exact on trees.
    Elsewhere log Z is too large, by more than with ``tree_reweighted``, and marginals are too uncertain.

    Parameters
    ----------
    graph
        The factor graph.
    scores
        The scores of each group of regions, as ``FactorGraph`` describes them.
    weights
        Counting numbers ρ_r > 0 by group name, (R,) each; by default ``convex_weights(graph)``.
    iterations, schedule, damping, tolerance
        As in ``loopy_belief_propagation``.

    Examples
    --------
    >>> import torch
    >>> graph = FactorGraph([2] * 3, {"unary": [[0]], "pair": [[0, 1], [1, 2], [2, 0]]})
    >>> scores = {"unary": torch.tensor([[[1.0, 0.0]]]), "pair": -30 * torch.eye(2).reshape(1, 1, 2, 2)}
    >>> convex_belief_propagation(graph, scores).converged  # three binary labels cannot all differ
    True
    """
    weights = convex_weights(graph) if weights is None else weights
    return pass_messages(graph, scores, weights, iterations, schedule, damping, tolerance)


def tree_reweighted(
    graph: FactorGraph,
    scores: Scores,
    *,
    weights: Weights | None = None,
    iterations: int = 1000,
    schedule: Schedule = "sequential",
    damping: float = 0.0,
    tolerance: float = 1e-6,
) -> Beliefs:
    """Marginals by tree-reweighted message passing; log Z is an upper bound (paper, Fig. 2, step 2).

    The entropy is a mixture of the entropies of spanning trees. It is concave, so the solution is unique; it is exact
    on trees. Strong scores may need damping to converge.

    Parameters
    ----------
    graph
        The factor graph.
    scores
        The scores of each group of regions, as ``FactorGraph`` describes them.
    weights
        Probability that a random spanning tree contains the region, by group name, (R,) each; by default
        ``tree_weights(graph)``.
    iterations, schedule, damping, tolerance
        As in ``loopy_belief_propagation``.

    Examples
    --------
    >>> import torch
    >>> graph = FactorGraph([2] * 3, {"pair": [[0, 1], [1, 2], [2, 0]]})
    >>> scores = {"pair": torch.eye(2).reshape(1, 1, 2, 2)}
    >>> bound = tree_reweighted(graph, scores).log_partition
    >>> bound - (2 * torch.tensor([3.0, 1.0, 1.0, 1.0]).exp().sum()).log()  # all three equal, or two of them
    tensor([0.0621])
    """
    weights = tree_weights(graph) if weights is None else weights
    return pass_messages(graph, scores, weights, iterations, schedule, damping, tolerance)
