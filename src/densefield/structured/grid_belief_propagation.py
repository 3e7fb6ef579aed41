"""Belief propagation on a grid, where neighbours are shifted views instead of indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from densefield.errors import InputError
from densefield.structured.beliefs import Beliefs, check_possible
from densefield.structured.counting_numbers import check_positive
from densefield.structured.factor_graph import Scores
from densefield.structured.grid import GridGraph
from densefield.structured.grid_message_passing import (
    FIRST,
    SECOND,
    SLOTS,
    GridMessagePassing,
    LogDomain,
    Messages,
    ProbabilityDomain,
)
from densefield.structured.iteration import (
    Agreement,
    Convergence,
    Schedule,
    Slot,
    check_options,
    check_schedule,
    iterate_until,
    largest_change,
    measure_agreement,
)
from densefield.structured.log_domain import difference, log_sum


def grid_belief_propagation(
    grid: GridGraph,
    scores: Scores,
    *,
    weights: Mapping[str, Tensor] | None = None,
    iterations: int = 100,
    schedule: Schedule = "parallel",
    damping: float = 0.0,
    tolerance: float = 1e-6,
) -> Beliefs:
    """Belief propagation on a grid; log marginals have the shapes of the scores (paper, Fig. 2, step 2).

    The numbers equal those of ``loopy_belief_propagation`` on ``grid.factor_graph()``.
    ``Beliefs.variable_log_marginals`` has the pixels row by row, (B, H·W, L).

    Parameters
    ----------
    grid
        The grid.
    scores
        The scores of pixels and pairs, as ``GridGraph`` describes them.
    weights
        Counting numbers ρ > 0 of pairs, "right" (H, W-1) and "down" (H-1, W). 1, the default, is loopy belief
        propagation; ``grid_tree_weights(grid)`` is tree-reweighted; 1/4 is convex.
    iterations
        Maximum number of iterations; each replaces every message once.
    schedule
        "parallel" replaces all messages together; "sequential" updates the black and then the white pixels of a
        chessboard.
    damping
        Weight of the old message in the log domain, 0 or more and below 1.
    tolerance
        Stop once ``residual``, ``inconsistency`` and ``gap`` of ``Beliefs`` are at most this large. 0 makes all
        iterations.

    Examples
    --------
    >>> import torch
    >>> grid = GridGraph(1, 3, num_states=2, potts=True)
    >>> pixel = torch.tensor([[[[2.0, 0.0, 0.0]], [[0.0, 0.0, 0.0]]]])
    >>> scores = {"pixel": pixel, "right": torch.ones(1, 1, 2), "down": torch.ones(1, 0, 3)}
    >>> grid_belief_propagation(grid, scores).log_marginals["pixel"][0, 0].exp()
    tensor([[0.8808, 0.6760, 0.5813]])
    """
    check_options(iterations, damping, tolerance)
    full = grid.checked(scores)
    rho = _checked_weights(grid, weights, full["pixel"])
    unary = full["pixel"].movedim(1, -1).contiguous()
    check_possible(unary.amax(-1))
    passing = _message_passing(grid, unary, full, rho)
    masks = _masks(grid, schedule, unary)
    messages, convergence = _run(passing, masks, iterations, damping, tolerance)
    return _beliefs(grid, passing, messages, convergence)


def _run(
    passing: GridMessagePassing, masks: Sequence[Tensor | None], iterations: int, damping: float, tolerance: float
) -> tuple[Messages, Convergence]:
    def iterate(messages: Messages) -> Messages:
        for mask in masks:
            messages = passing.update(messages, mask, damping)
        return messages

    def change(messages: Messages, last: Messages) -> float:
        return largest_change(passing.totals(messages), passing.totals(last))

    def measure(messages: Messages) -> Agreement:
        batch, rows, columns = passing.unary.shape[:3]
        return measure_agreement(_slots(passing, messages), batch, rows * columns)

    return iterate_until(passing.start(), iterate, change, measure, iterations, tolerance)


def _slots(passing: GridMessagePassing, messages: Messages) -> Iterator[Slot]:
    """Both slots of all pairs, with the current messages and the ones computed anew."""
    with torch.no_grad():
        totals, logs = passing.totals(messages), passing.logs(messages)
        updated = passing.logs(passing.update(messages, None, 0.0))
        for (name, slot), message in logs.items():
            yield Slot(passing.weights[name], totals[SLOTS[slot][name]], message, updated[name, slot])


def _beliefs(grid: GridGraph, passing: GridMessagePassing, messages: Messages, convergence: Convergence) -> Beliefs:
    totals, logs = passing.totals(messages), passing.logs(messages)
    norms = log_sum(totals, -1)  # (B, H, W)
    share = norms.new_ones(norms.shape[1:])
    # Sums over many pixels would lose digits in float32.
    log_marginals: dict[str, Tensor] = {}
    log_partition = totals.new_zeros(len(totals), dtype=torch.float64)
    for name in grid.pairs:
        rho = passing.weights[name]
        sent = [difference(totals[place[name]], logs[name, slot]) for slot, place in enumerate((FIRST, SECOND))]
        log_marginals[name], norm = passing.belief(name, sent[0], sent[1])
        check_possible(norm)
        log_partition = log_partition + (rho * norm).double().sum((1, 2))
        share[FIRST[name][1:]] -= rho
        share[SECOND[name][1:]] -= rho
    check_possible(norms)
    log_partition = log_partition + (share * norms).double().sum((1, 2))
    log_q = difference(totals, norms.unsqueeze(-1))
    log_marginals["pixel"] = log_q.movedim(-1, 1)
    return Beliefs(log_marginals, log_q.flatten(1, 2), log_partition.to(totals.dtype), **vars(convergence))


def _message_passing(grid: GridGraph, unary: Tensor, full: Scores, weights: dict[str, Tensor]) -> GridMessagePassing:
    """Message passing with probabilities, which is faster, if it is accurate for these scores."""
    unweighted = all(bool((rho == 1).all()) for rho in weights.values())
    compact = {name: full[name] if grid.potts else _compact(full[name]) for name in grid.pairs}
    if unweighted and all(ProbabilityDomain.accurate(given.detach(), grid.potts) for given in compact.values()):
        return ProbabilityDomain(grid, unary, weights, compact)
    return LogDomain(grid, unary, weights, {name: full[name] for name in grid.pairs})


def _compact(tables: Tensor) -> Tensor:
    """Tables (B, rows, columns, L, L), reduced to one table (L, L) if all share its memory."""
    shared = tables.numel() and all(
        n == 1 or step == 0 for n, step in zip(tables.shape[:3], tables.stride(), strict=False)
    )
    return tables[0, 0, 0] if shared else tables


def _masks(grid: GridGraph, schedule: Schedule, like: Tensor) -> list[Tensor | None]:
    check_schedule(schedule)
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
        check_positive(name, given)
        found[name] = given.to(like)
    return found
