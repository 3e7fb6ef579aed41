"""The best configuration where it cannot be found exactly: max-product and iterated conditional modes."""

from __future__ import annotations

import torch
from torch import Tensor

from densefield.structured.beliefs import check_possible
from densefield.structured.counting import bethe_weights
from densefield.structured.factor_graph import FactorGraph, Scores, batch_size, flat_index
from densefield.structured.log_domain import NEVER
from densefield.structured.messages import MessagePassing, Weights, check_options, checked_weights, run
from densefield.structured.schedule import Schedule, steps


def max_product(
    graph: FactorGraph,
    scores: Scores,
    *,
    weights: Weights | None = None,
    sweeps: int = 100,
    schedule: Schedule = "parallel",
    damping: float = 0.0,
    tolerance: float = 1e-6,
) -> Tensor:
    """Labels (B, N) of a high score by messages with the maximum in place of the sum (paper, Eq. 1).

    The best configuration on trees, where it is the only best. ``weights`` are those of belief propagation: with
    ``tree_weights`` or ``convex_weights`` the messages bound the best score from above.

    >>> import torch
    >>> graph = FactorGraph([2] * 4, {"unary": [[0], [1], [2], [3]], "ring": [[0, 1], [1, 2], [2, 3], [3, 0]]})
    >>> unary = torch.tensor([[[2.0, 0.0], [0.0, 1.0], [0.5, 0.0], [0.0, 0.3]]])
    >>> max_product(graph, {"unary": unary, "ring": torch.eye(2).reshape(1, 1, 2, 2)})
    tensor([[0, 0, 0, 0]])
    """
    check_options(sweeps, damping, tolerance)
    with torch.no_grad():
        chosen = checked_weights(graph, bethe_weights(graph) if weights is None else weights)
        passing = MessagePassing.of(graph, graph.checked(scores), chosen, maximise=True)
        messages, _ = run(passing, sweeps, schedule, damping, tolerance)
        best = messages.totals.amax(-1)
        check_possible(best.amin(1))
        return messages.totals.argmax(-1)


def icm(graph: FactorGraph, scores: Scores, *, start: Tensor | None = None, sweeps: int = 100) -> Tensor:
    """Labels (B, N) that no change of a single one improves: iterated conditional modes (paper, Eq. 1).

    From ``start``, or the best label of each variable by itself, one colour of variables after another takes the best
    labels given all others. The score never falls, and it ends at a local maximum.

    >>> import torch
    >>> graph = FactorGraph([2] * 3, {"unary": [[0], [1], [2]], "pair": [[0, 1], [1, 2]]})
    >>> unary = torch.tensor([[[2.0, 0.0], [0.0, 0.5], [2.0, 0.0]]])
    >>> icm(graph, {"unary": unary, "pair": torch.eye(2).reshape(1, 1, 2, 2)})
    tensor([[0, 0, 0]])
    """
    check_options(sweeps, 0.0, 0.0)
    with torch.no_grad():
        full = graph.checked(scores)
        unary = graph.unary(full)
        check_possible(unary.amax(-1).amin(1))
        tables = {name: group.tables(full[name]) for name, group in graph.factors.items()}
        labels = unary.argmax(-1) if start is None else graph.checked_configuration(start, batch_size(full))
        for _ in range(sweeps):
            last = labels
            for step in steps(graph, "sequential"):
                variables = step.variables.to(labels.device)
                total = unary.index_select(1, variables)
                for link in step.links:
                    rows = slice(None) if link.rows is None else link.rows.to(labels.device)
                    group = graph.factors[link.group]
                    seen = labels[:, group.variables.to(labels.device)[rows]]
                    given = _conditional(tables[link.group][:, rows], seen, group.labels, link.slot)
                    padded = torch.nn.functional.pad(given, (0, total.shape[2] - given.shape[2]))
                    total = total.index_add(1, link.places.to(labels.device), padded)
                now = labels.index_select(1, variables)
                best, choice = total.max(-1)
                # A label stays where no other is better, or all are forbidden, so that this comes to an end.
                better = (best > total.gather(2, now.unsqueeze(2)).squeeze(2)) & (best > NEVER)
                labels = labels.index_copy(1, variables, torch.where(better, choice, now))
            if bool((labels == last).all()):
                break
        return labels


def _conditional(
    tables: Tensor,  # (B, r, L_1, …, L_k)
    labels: Tensor,  # (B, r, k)
    counts: tuple[int, ...],
    slot: int,
) -> Tensor:  # (B, r, L_slot)
    """The scores of a slot's labels given those of the other variables of the region."""
    others = [axis for axis in range(len(counts)) if axis != slot]
    index = flat_index(labels[..., others], tuple(counts[axis] for axis in others))
    rows = tables.movedim(slot + 2, 2).flatten(3)
    return rows.gather(3, index[..., None, None].expand(-1, -1, counts[slot], 1)).squeeze(3)
