"""Belief propagation on the grid, where neighbours are found by shifting: no index is looked up.

The messages are found in one of two ways, of which the quicker is taken where it is accurate (grid_ways.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

import torch
from torch import Tensor

from densefield.errors import InputError
from densefield.structured.beliefs import Beliefs, beliefs_after, check_possible
from densefield.structured.convergence import Agreement, Progress, Slot, agreement, sweep_until
from densefield.structured.factor_graph import Scores
from densefield.structured.grid import GridGraph
from densefield.structured.grid_ways import FIRST, PLACES, SECOND, InLogarithms, InProbabilities, Messages, Way
from densefield.structured.log_domain import NEVER, difference, log_sum
from densefield.structured.messages import check_options, largest_change
from densefield.structured.schedule import Schedule


def grid_belief_propagation(
    grid: GridGraph,
    scores: Scores,
    *,
    weights: Mapping[str, Tensor] | None = None,
    sweeps: int = 100,
    schedule: Schedule = "parallel",
    damping: float = 0.0,
    tolerance: float = 1e-6,
) -> Beliefs:
    """Loopy belief propagation on a grid; the log marginals come in the shapes of the scores (paper, Fig. 2, step 2).

    ``weights``: of pairs, (H, W-1) and (H-1, W), as those of ``grid_tree_weights``, which make it tree-reweighted; 1/4
    for all makes it convex. The sequential schedule updates the pixels as on a chessboard, black and then white. The
    other options are those of ``loopy_belief_propagation``, and so are the numbers. Of a grid, ``Beliefs.variables``
    has the pixels row by row, (B, H·W, L).

    >>> import torch
    >>> grid = GridGraph(1, 3, labels=2, potts=True)
    >>> pixel = torch.tensor([[[[2.0, 0.0, 0.0]], [[0.0, 0.0, 0.0]]]])
    >>> scores = {"pixel": pixel, "right": torch.ones(1, 1, 2), "down": torch.ones(1, 0, 3)}
    >>> grid_belief_propagation(grid, scores).log_marginals["pixel"][0, 0].exp()
    tensor([[0.8808, 0.6760, 0.5813]])
    """
    check_options(sweeps, damping, tolerance)
    full = grid.checked(scores)
    rho = _checked_weights(grid, weights, full["pixel"])
    unary = full["pixel"].movedim(1, -1).contiguous()
    check_possible(unary.detach().amax(-1).amin((1, 2)) if unary.numel() else unary.new_zeros(0))
    way = _way(grid, unary, full, rho)
    masks = _masks(grid, schedule, unary)
    messages, progress = _run(way, masks, sweeps, damping, tolerance)
    return _beliefs(grid, way, messages, progress)


def _run(
    way: Way, masks: Sequence[Tensor | None], sweeps: int, damping: float, tolerance: float
) -> tuple[Messages, Progress]:
    def sweep(messages: Messages) -> Messages:
        for mask in masks:
            messages = way.update(messages, mask, damping)
        return messages

    def change(messages: Messages, last: Messages) -> float:
        return largest_change(way.totals(messages), way.totals(last))

    def measure(messages: Messages) -> Agreement:
        batch, rows, columns = way.unary.shape[:3]
        return agreement(_slots(way, messages), batch, rows * columns)

    return sweep_until(way.start(), sweep, change, measure, sweeps, tolerance)


def _slots(way: Way, messages: Messages) -> Iterator[Slot]:
    """All pairs and their pixels, with the messages as they are and as they would be next."""
    with torch.no_grad():
        totals, logs = way.totals(messages), way.logs(messages)
        renewed = way.logs(way.update(messages, None, 0.0))
        for (name, slot), message in logs.items():
            yield Slot(way.weights[name], totals[PLACES[slot][name]], message, renewed[name, slot])


def _beliefs(grid: GridGraph, way: Way, messages: Messages, progress: Progress) -> Beliefs:
    totals, logs = way.totals(messages), way.logs(messages)
    norms = log_sum(totals, -1)  # (B, H, W)
    share = norms.new_ones(norms.shape[1:])
    # Sums over so many pixels lose digits in float32.
    log_marginals: dict[str, Tensor] = {}
    log_partition = totals.new_zeros(len(totals), dtype=torch.float64)
    for name in grid.pairs:
        rho = way.weights[name]
        sent = [difference(totals[place[name]], logs[name, slot]) for slot, place in enumerate((FIRST, SECOND))]
        log_marginals[name], norm = way.belief(name, sent[0], sent[1])
        _check(norm)
        log_partition = log_partition + (rho * norm).double().sum((1, 2))
        share[FIRST[name][1:]] -= rho
        share[SECOND[name][1:]] -= rho
    _check(norms)
    log_partition = log_partition + (share * norms).double().sum((1, 2))
    log_q = difference(totals, norms.unsqueeze(-1))
    log_marginals["pixel"] = log_q.movedim(-1, 1)
    return beliefs_after(progress, log_marginals, log_q.flatten(1, 2), log_partition.to(totals.dtype))


def _check(norms: Tensor) -> None:
    check_possible(torch.where((norms.detach() == NEVER).flatten(1).any(1), NEVER, 0.0))


def _way(grid: GridGraph, unary: Tensor, full: Scores, weights: dict[str, Tensor]) -> Way:
    one = all(bool((rho == 1).all()) for rho in weights.values())
    compact = {name: full[name] if grid.potts else _compact(full[name]) for name in grid.pairs}
    if one and all(InProbabilities.accurate(given.detach(), grid.potts) for given in compact.values()):
        return InProbabilities(grid, unary, weights, compact)
    return InLogarithms(grid, unary, weights, {name: full[name] for name in grid.pairs})


def _compact(tables: Tensor) -> Tensor:
    """Tables (B, rows, columns, L, L), as one table (L, L) where all are the same memory."""
    shared = tables.numel() and all(
        n == 1 or step == 0 for n, step in zip(tables.shape[:3], tables.stride(), strict=False)
    )
    return tables[0, 0, 0] if shared else tables


def _masks(grid: GridGraph, schedule: Schedule, like: Tensor) -> list[Tensor | None]:
    if schedule not in get_args(Schedule):
        raise InputError(f"schedule is {schedule!r}, expected one of {', '.join(get_args(Schedule))}.")
    if schedule == "parallel":
        return [None]
    rows, columns = torch.arange(grid.rows, device=like.device), torch.arange(grid.columns, device=like.device)
    white = (rows[:, None] + columns) % 2 == 1
    return [~white.unsqueeze(-1), white.unsqueeze(-1)]


def _checked_weights(grid: GridGraph, weights: Mapping[str, Tensor] | None, like: Tensor) -> dict[str, Tensor]:
    found = {}
    for name, size in grid.pairs.items():
        given = torch.ones(size) if weights is None else weights.get(name)
        if not isinstance(given, Tensor) or tuple(given.shape) != size:
            raise InputError(f"the weights of {name!r} are {given!r}, expected a tensor of shape {size}.")
        if not bool(((given > 0) & given.isfinite()).all()):
            raise InputError(f"the weights of {name!r} reach {float(given.min())}, expected positive numbers.")
        found[name] = given.to(like)
    return found
