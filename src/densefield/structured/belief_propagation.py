"""Loopy, convex and tree-reweighted belief propagation: approximate marginals of any factor graph."""

from __future__ import annotations

from densefield.structured.beliefs import Beliefs
from densefield.structured.counting import bethe_weights, convex_weights, tree_weights
from densefield.structured.factor_graph import FactorGraph, Scores
from densefield.structured.messages import Weights, pass_messages
from densefield.structured.schedule import Schedule


def loopy_belief_propagation(
    graph: FactorGraph,
    scores: Scores,
    *,
    sweeps: int = 100,
    schedule: Schedule = "parallel",
    damping: float = 0.0,
    tolerance: float = 1e-6,
) -> Beliefs:
    """Marginals by messages as if there were no loops, and the Bethe approximation of log Z (paper, Fig. 2, step 2).

    Exact on trees, often good elsewhere; with loops it may oscillate, which damping calms, and log Z is no bound.

    * ``sweeps``: how many at most; each replaces every message once.
    * ``schedule``: "parallel" replaces all at once; "sequential" one colour of variables after another, which takes
      fewer sweeps of more steps.
    * ``damping``: the share of the old message, in the log domain, that stays.
    * ``tolerance``: stop when ``residual``, ``inconsistency`` and ``gap`` of the Beliefs are no larger: no marginal
      changes by more in a sweep, marginals of regions and variables agree, and log Z agrees with both. 0 makes all
      sweeps. In float32 rounding alone is about 1e-6 where scores are strong.

    >>> import torch
    >>> graph = FactorGraph([2] * 3, {"unary": [[0]], "pair": [[0, 1], [1, 2], [2, 0]]})
    >>> scores = {"unary": torch.tensor([[[1.0, 0.0]]]), "pair": torch.eye(2).reshape(1, 1, 2, 2)}
    >>> beliefs = loopy_belief_propagation(graph, scores)
    >>> beliefs.variables[0].exp()
    tensor([[0.7681, 0.2319],
            [0.6649, 0.3351],
            [0.6649, 0.3351]])
    >>> beliefs.converged
    True
    """
    return pass_messages(
        graph, scores, bethe_weights(graph), sweeps=sweeps, schedule=schedule, damping=damping, tolerance=tolerance
    )


def convex_belief_propagation(
    graph: FactorGraph,
    scores: Scores,
    *,
    weights: Weights | None = None,
    sweeps: int = 1000,
    schedule: Schedule = "sequential",
    damping: float = 0.0,
    tolerance: float = 1e-6,
) -> Beliefs:
    """Marginals of the concave entropy of ``convex_weights``: one solution, which is reached from anywhere.

    With the sequential schedule and without damping every step lowers a convex function of the messages to its least
    value along the step, so that it converges whatever the scores, though slowly where they are strong: ``converged``
    tells whether the sweeps were enough. Exact on trees; elsewhere log Z is too large, by more than that of
    ``tree_reweighted``, and marginals are too uncertain. The options are those of ``loopy_belief_propagation``.

    >>> import torch
    >>> graph = FactorGraph([2] * 3, {"unary": [[0]], "pair": [[0, 1], [1, 2], [2, 0]]})
    >>> scores = {"unary": torch.tensor([[[1.0, 0.0]]]), "pair": -30 * torch.eye(2).reshape(1, 1, 2, 2)}
    >>> convex_belief_propagation(graph, scores).converged  # labels that cannot all differ
    True
    """
    return pass_messages(
        graph,
        scores,
        convex_weights(graph) if weights is None else weights,
        sweeps=sweeps,
        schedule=schedule,
        damping=damping,
        tolerance=tolerance,
    )


def tree_reweighted(
    graph: FactorGraph,
    scores: Scores,
    *,
    weights: Weights | None = None,
    sweeps: int = 1000,
    schedule: Schedule = "sequential",
    damping: float = 0.0,
    tolerance: float = 1e-6,
) -> Beliefs:
    """Marginals of a mixture of spanning trees' entropies, whose log Z is an upper bound (paper, Fig. 2, step 2).

    ``weights``: how probable it is that a region is in the tree; by default those of ``tree_weights``. The entropy is
    concave, so there is one solution; exact on trees. Damping may be needed to reach it where scores are strong.

    >>> import torch
    >>> graph = FactorGraph([2] * 3, {"pair": [[0, 1], [1, 2], [2, 0]]})
    >>> scores = {"pair": torch.eye(2).reshape(1, 1, 2, 2)}
    >>> bound = tree_reweighted(graph, scores).log_partition
    >>> bound - (2 * torch.tensor([3.0, 1.0, 1.0, 1.0]).exp().sum()).log()  # all three equal, or two of them
    tensor([0.0621])
    """
    return pass_messages(
        graph,
        scores,
        tree_weights(graph) if weights is None else weights,
        sweeps=sweeps,
        schedule=schedule,
        damping=damping,
        tolerance=tolerance,
    )
