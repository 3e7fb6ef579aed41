"""Approximate MAP inference: max-product messages and iterated conditional modes."""

from __future__ import annotations

import torch
from torch import Tensor

from densefield.structured.beliefs import check_possible
from densefield.structured.counting_numbers import Weights, bethe_weights, checked_weights
from densefield.structured.factor_graph import FactorGraph, Scores, batch_size, flat_index
from densefield.structured.iteration import Schedule, check_options, steps
from densefield.structured.log_domain import NEG_INF
from densefield.structured.message_passing import MessagePassing, run


def max_product(
    graph: FactorGraph,
    scores: Scores,
    *,
    weights: Weights | None = None,
    iterations: int = 100,
    schedule: Schedule = "parallel",
    damping: float = 0.0,
    tolerance: float = 1e-6,
) -> Tensor:
    """Labels (B, N) of a high score by messages with maxima instead of sums (paper, Eq. 1).

    On trees they are the best configuration if it is unique.

    Parameters
    ----------
    graph
        The factor graph.
    scores
        The scores of each group of regions, as ``FactorGraph`` describes them.
    weights
        Counting numbers, by default ``bethe_weights(graph)``. With ``tree_weights`` or ``convex_weights`` the messages
        bound the best score from above.
    iterations, schedule, damping, tolerance
        As in ``loopy_belief_propagation``; the tolerance applies to the residual alone.

    Examples
    --------
    >>> import torch
    >>> graph = FactorGraph([2] * 4, {"unary": [[0], [1], [2], [3]], "ring": [[0, 1], [1, 2], [2, 3], [3, 0]]})
    >>> unary = torch.tensor([[[2.0, 0.0], [0.0, 1.0], [0.5, 0.0], [0.0, 0.3]]])
    >>> max_product(graph, {"unary": unary, "ring": torch.eye(2).reshape(1, 1, 2, 2)})
    tensor([[0, 0, 0, 0]])
    """
    check_options(iterations, damping, tolerance)
    with torch.no_grad():
        chosen = checked_weights(graph, bethe_weights(graph) if weights is None else weights)
        passing = MessagePassing.of(graph, graph.checked(scores), chosen, maximise=True)
        messages, _ = run(passing, iterations, schedule, damping, tolerance)
        check_possible(messages.totals.amax(-1))
        return messages.totals.argmax(-1)


def icm(graph: FactorGraph, scores: Scores, *, start: Tensor | None = None, iterations: int = 100) -> Tensor:
    """Labels (B, N) that no single change improves, by iterated conditional modes (paper, Eq. 1).

    One colour of variables after another takes the best labels given all others. The score never decreases.

    Parameters
    ----------
    graph
        The factor graph.
    scores
        The scores of each group of regions, as ``FactorGraph`` describes them.
    start
        Labels to start from, (B, N) integers; by default the best label of each variable on its own.
    iterations
        Maximum number of iterations over all variables; it stops at a local maximum.

    Examples
    --------
    >>> import torch
    >>> graph = FactorGraph([2] * 3, {"unary": [[0], [1], [2]], "pair": [[0, 1], [1, 2]]})
    >>> unary = torch.tensor([[[2.0, 0.0], [0.0, 0.5], [2.0, 0.0]]])
    >>> icm(graph, {"unary": unary, "pair": torch.eye(2).reshape(1, 1, 2, 2)})
    tensor([[0, 0, 0]])
    """
    check_options(iterations)
    with torch.no_grad():
        full = graph.checked(scores)
        unary = graph.unary(full)
        check_possible(unary.amax(-1))
        tables = {name: group.tables(full[name]) for name, group in graph.factors.items()}
        labels = unary.argmax(-1) if start is None else graph.checked_configuration(start, batch_size(full))
        for _ in range(iterations):
            last = labels
            for step in steps(graph, "sequential"):
                variables = step.variables.to(labels.device)
                total = unary.index_select(1, variables)
                for link in step.links:
                    rows = slice(None) if link.rows is None else link.rows.to(labels.device)
                    group = graph.factors[link.group]
                    seen = labels[:, group.variables.to(labels.device)[rows]]
                    given = _conditional(tables[link.group][:, rows], seen, group.num_states, link.slot)
                    padded = torch.nn.functional.pad(given, (0, total.shape[2] - given.shape[2]))
                    total = total.index_add(1, link.places.to(labels.device), padded)
                now = labels.index_select(1, variables)
                best, choice = total.max(-1)
                # Labels change only to a strictly better one, so that this terminates.
                better = (best > total.gather(2, now.unsqueeze(2)).squeeze(2)) & (best > NEG_INF)
                labels = labels.index_copy(1, variables, torch.where(better, choice, now))
            if bool((labels == last).all()):
                break
        return labels


def _conditional(
    tables: Tensor,  # (B, r, L_1, …, L_k)
    labels: Tensor,  # (B, r, k)
    num_states: tuple[int, ...],
    slot: int,
) -> Tensor:  # (B, r, L_slot)
    """The scores of a slot's states given the labels of the other variables in the region."""
    others = [axis for axis in range(len(num_states)) if axis != slot]
    index = flat_index(labels[..., others], tuple(num_states[axis] for axis in others))
    rows = tables.movedim(slot + 2, 2).flatten(3)
    return rows.gather(3, index[..., None, None].expand(-1, -1, num_states[slot], 1)).squeeze(3)
