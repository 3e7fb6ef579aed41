"""Iterative inference: which variables are updated together, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar, get_args

import torch
from torch import Tensor

from densefield.errors import InputError
from densefield.structured.factor_graph import FactorGraph
from densefield.structured.log_domain import difference, finite_or_zero

Schedule = Literal["parallel", "sequential"]
M = TypeVar("M")

# If beliefs disagree, they are measured again after 4 iterations or a tenth of all iterations so far.
_FIRST_WAIT, _SHARE = 4, 10


@dataclass(frozen=True, eq=False)
class Link:
    """Where some regions of a group hold variables of a step: in slot `slot` of the regions `rows`."""

    group: str
    slot: int
    rows: Tensor | None  # (r,); None for all regions of the group
    places: Tensor  # (r,): the index of each row's variable among the step's variables


@dataclass(frozen=True, eq=False)
class UpdateGroup:
    """Variables that are updated together, and every slot of a region that holds one of them."""

    variables: Tensor  # (n,)
    links: tuple[Link, ...]


@lru_cache(maxsize=64)
def steps(graph: FactorGraph, schedule: Schedule) -> tuple[UpdateGroup, ...]:
    """The steps of one iteration: all variables together, or one colour after another.

    Variables of one colour share no region, so updating them together equals updating them one after another. A chain
    and a grid have two colours; a complete graph has a colour for each variable.

    >>> cycle = FactorGraph([2] * 5, {"pair": [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]]})
    >>> [step.variables.tolist() for step in steps(cycle, "sequential")]
    [[0, 2], [1, 3], [4]]
    """
    check_schedule(schedule)
    if schedule == "parallel":
        return (_step(graph, torch.arange(len(graph.num_states))),)
    colours = _colouring(graph)
    return tuple(_step(graph, (colours == colour).nonzero()[:, 0]) for colour in range(int(colours.max()) + 1))


def _colouring(graph: FactorGraph) -> Tensor:
    """Greedy colours 0, 1, … (N,): two variables of one region never have the same."""
    colours = [-1] * len(graph.num_states)
    for variable, neighbours in enumerate(graph.neighbours):
        taken = {colours[other] for other in neighbours}
        colours[variable] = next(colour for colour in range(len(taken) + 1) if colour not in taken)
    return torch.tensor(colours)


def _step(graph: FactorGraph, variables: Tensor) -> UpdateGroup:
    place = torch.full((len(graph.num_states),), -1)
    place[variables] = torch.arange(len(variables))
    links = []
    for name, group in graph.factors.items():
        for slot in range(len(group.num_states)):
            here = place[group.variables[:, slot]]
            rows = (here >= 0).nonzero()[:, 0]
            if len(rows):
                links.append(Link(name, slot, None if len(rows) == len(here) else rows, here[rows]))
    return UpdateGroup(variables, tuple(links))


@dataclass(frozen=True, eq=False)
class Slot:
    """The variables in one slot of some regions, with the messages to them up to a constant."""

    weights: Tensor  # ρ (R,), or of another shape that the regions have
    totals: Tensor  # t of the variable in the slot, (B, R, L): log b_i up to a constant
    message: Tensor  # μ to the variable
    updated: Tensor  # μ computed anew from the current messages


@dataclass(frozen=True)
class Agreement:
    """How well beliefs satisfy the fixed-point conditions; ``Beliefs`` defines both numbers."""

    inconsistency: float
    gap: float

    def within(self, tolerance: float) -> bool:
        """Whether both are; NaN, from contradicting scores, counts as within, since no iteration changes it."""
        return not (self.inconsistency > tolerance or self.gap > tolerance)


@dataclass(frozen=True)
class Convergence:
    """How iterative inference ended; ``Beliefs`` has the same fields."""

    iterations: int
    residual: float
    converged: bool
    inconsistency: float
    gap: float


def measure_agreement(slots: Iterable[Slot], batch: int, variables: int) -> Agreement:
    """Inconsistency and gap of beliefs b_r ∝ exp(f_r/ρ_r + Σ_i ν_{i→r}) and b_i ∝ exp t_i, with ν = t − μ.

    Messages suffice: the marginal of b_r is ∝ exp(ν + μ') with the updated message μ', and the dual exceeds the primal
    by Σ_r ρ_r Σ_{i∈r} Σ_y (b_r(y_i) − b_i(y_i)) ν_{i→r}(y_i).

    >>> same = torch.zeros(1, 1, 2, dtype=torch.float64)
    >>> slot = Slot(torch.ones(1), same, same, updated=torch.tensor([[[0.0, 1.0]]]))
    >>> round(measure_agreement([slot], 1, 1).inconsistency, 4)
    0.2311
    """
    worst = 0.0
    gap = torch.zeros(batch, dtype=torch.float64)
    with torch.no_grad():
        for slot in slots:
            if not slot.totals.numel():
                continue
            log_b = slot.totals.log_softmax(-1)  # of the size of the messages, which keeps digits in float32
            sent = difference(log_b, slot.message)
            apart = (sent + slot.updated).softmax(-1) - log_b.exp()
            largest = float(apart.abs().max())
            worst = largest if math.isnan(largest) or largest > worst else worst  # NaN stays
            terms = slot.weights * (apart * finite_or_zero(sent)).sum(-1)
            gap = gap + terms.flatten(1).double().sum(1).cpu()
    largest_gap = float(gap.abs().max()) if gap.numel() else 0.0
    return Agreement(worst, largest_gap / max(variables, 1))


def iterate_until(
    start: M,
    iterate: Callable[[M], M],
    change: Callable[[M, M], float],  # the largest change of a marginal from the second to the first
    measure: Callable[[M], Agreement],
    iterations: int,
    tolerance: float,
) -> tuple[M, Convergence]:
    """Iterate until change and agreement are within the tolerance, or for the given number of iterations.

    Measuring agreement costs about as much as a parallel iteration, so it is done only while the change is small, and
    then rarely. A tolerance of 0 makes all iterations and measures no agreement: it is NaN.

    >>> def halve(x): return x / 2
    >>> def distance(x, y): return abs(x - y)
    >>> value, convergence = iterate_until(1.0, halve, distance, lambda x: Agreement(x, 0.0), 100, 0.1)
    >>> value, convergence.iterations, convergence.converged
    (0.0625, 4, True)
    """
    messages, next_measure = start, 0
    found: Agreement | None = None
    for made in range(1, iterations + 1):
        last, messages, found = messages, iterate(messages), None
        if not (tolerance or made == iterations):
            continue
        residual = change(messages, last)
        if tolerance and not residual > tolerance and made >= next_measure:
            found = measure(messages)
            if found.within(tolerance):
                break
            next_measure = made + max(_FIRST_WAIT, made // _SHARE)
    if found is None:
        found = measure(messages) if tolerance else Agreement(math.nan, math.nan)
    converged = residual <= tolerance and found.within(tolerance)
    return messages, Convergence(made, residual, converged, found.inconsistency, found.gap)


def largest_change(totals: Tensor, last: Tensor) -> float:
    """The largest change of a marginal; 0 for an empty batch."""
    with torch.no_grad():
        change = (totals.softmax(-1) - last.softmax(-1)).abs()
        return float(change.max()) if change.numel() else 0.0


def check_options(iterations: int, damping: float = 0.0, tolerance: float = 0.0) -> None:
    """Raise for invalid options of iterative inference."""
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1:
        raise InputError(f"iterations is {iterations!r}, expected an integer, 1 or more.")
    if not 0 <= damping < 1:
        raise InputError(f"damping is {damping!r}, expected the weight of the old messages, 0 or more and below 1.")
    if not tolerance >= 0:
        raise InputError(f"tolerance is {tolerance!r}, expected 0 or more.")


def check_schedule(schedule: object) -> None:
    """Raise for an unknown schedule."""
    if schedule not in get_args(Schedule):
        raise InputError(f"schedule is {schedule!r}, expected one of {', '.join(get_args(Schedule))}.")
