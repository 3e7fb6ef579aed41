"""Message passing: one update, of which loopy, convex and tree-reweighted belief propagation are three weightings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from densefield.errors import InputError
from densefield.structured.beliefs import Beliefs, beliefs_after
from densefield.structured.convergence import Agreement, Progress, Slot, agreement, sweep_until
from densefield.structured.factor_graph import FactorGraph, Scores
from densefield.structured.factors import Factor, factor_of
from densefield.structured.log_domain import NEVER, difference, finite_or_zero, log_sum
from densefield.structured.schedule import Link, Schedule, Step, steps

Weights = Mapping[str, Tensor]  # ρ_r > 0 of each region, (R,) for each group of regions of two and more variables


@dataclass(frozen=True, eq=False)
class Messages:
    """μ (B, R, L_j) to each slot of each group, and log b_i up to a constant (B, N, L)."""

    to: dict[tuple[str, int], Tensor]
    totals: Tensor


@dataclass(frozen=True, eq=False)
class MessagePassing:
    """The update with the weights ρ, for given scores.

    With c_r = ρ_r and c_i = 1 − Σ_{r∋i} ρ_r the entropy of the model is taken for Σ_r c_r H(b_r) + Σ_i c_i H(b_i).
    Fixed points are the stationary points of the free energy that follows, and

        μ_{r→i}(y_i) = log Σ_{y_r∖y_i} exp(f_r(y_r)/ρ_r + Σ_{j≠i} ν_{j→r}(y_j)),
        ν_{i→r}(y_i) = t_i(y_i) − μ_{r→i}(y_i),  t_i = f_i + Σ_{r∋i} ρ_r μ_{r→i},

    so that b_i ∝ exp t_i and b_r ∝ exp(f_r/ρ_r + Σ_i ν_{i→r}). A step replaces all messages to some variables.
    """

    graph: FactorGraph
    unary: Tensor  # (B, N, L)
    factors: dict[str, Factor]
    weights: dict[str, Tensor]
    maximise: bool
    _parts: dict[int, Factor] = field(default_factory=dict)  # of a link, by its id

    @classmethod
    def of(cls, graph: FactorGraph, scores: Scores, weights: Weights, maximise: bool = False) -> MessagePassing:
        """For scores at full size."""
        first = next(iter(scores.values()))
        rho = {name: weights[name].to(first) for name in graph.factors}
        factors = {}
        for name, group in graph.factors.items():
            share = rho[name].reshape(-1, *[1] * (scores[name].ndim - 2))
            factors[name] = factor_of(group, scores[name] / share)
        return cls(graph, graph.unary(scores), factors, rho, maximise)

    def start(self) -> Messages:
        """Messages of zeros."""
        batch = self.unary.shape[0]
        to = {
            (name, slot): self.unary.new_zeros(batch, len(group.variables), count)
            for name, group in self.graph.factors.items()
            for slot, count in enumerate(group.labels)
        }
        return Messages(to, self.unary)

    def update(self, messages: Messages, step: Step, damping: float = 0.0) -> Messages:
        """Messages to the step's variables, all of them found from the old ones."""
        to = dict(messages.to)
        variables = step.variables.to(self.unary.device)
        totals = self.unary.index_select(1, variables)
        for link in step.links:
            key = link.group, link.slot
            rows = None if link.rows is None else link.rows.to(self.unary.device)
            old = messages.to[key] if rows is None else messages.to[key].index_select(1, rows)
            new = self._message(messages, link, rows)
            if damping:
                new = (1 - damping) * new + damping * old
            to[key] = new if rows is None else messages.to[key].index_copy(1, rows, new)
            share = self.weights[link.group] if rows is None else self.weights[link.group][rows]
            padded = torch.nn.functional.pad(share[:, None] * new, (0, totals.shape[2] - new.shape[2]))
            totals = totals.index_add(1, link.places.to(self.unary.device), padded)
        if len(variables) < self.unary.shape[1]:
            totals = messages.totals.index_copy(1, variables, totals)
        return Messages(to, totals)

    def _message(self, messages: Messages, link: Link, rows: Tensor | None) -> Tensor:
        slots = range(len(self.graph.factors[link.group].labels))
        incoming = [None if s == link.slot else self.sent(messages, link.group, s, rows) for s in slots]
        if id(link) not in self._parts:
            self._parts[id(link)] = self.factors[link.group].rows(rows)
        message = self._parts[id(link)].message(link.slot, incoming, self.maximise)
        # No belief depends on this constant; without its gradient that of all constants would grow with the sweeps.
        return message - finite_or_zero(message.amax(-1, keepdim=True))

    def sent(self, messages: Messages, name: str, slot: int, rows: Tensor | None) -> Tensor:
        """ν (B, r, L) from the variables in a slot of regions."""
        group = self.graph.factors[name]
        to, variables = messages.to[name, slot], group.variables[:, slot].to(self.unary.device)
        if rows is not None:
            to, variables = to.index_select(1, rows), variables[rows]
        return difference(messages.totals.index_select(1, variables)[..., : group.labels[slot]], to)

    def log_beliefs(self, messages: Messages) -> tuple[Tensor, Tensor]:
        """log b_i (B, N, L) of every variable, and the logarithm (B, N) of what t_i was divided by."""
        norms = log_sum(messages.totals, -1)
        return difference(messages.totals, norms.unsqueeze(-1)), norms

    def slots(self, messages: Messages) -> Iterator[Slot]:
        """All regions and their variables, with the messages as they are and as they would be next."""
        with torch.no_grad():
            renewed = self.update(messages, steps(self.graph, "parallel")[0]).to
            for (name, slot), message in messages.to.items():
                group = self.graph.factors[name]
                index = group.variables[:, slot].to(self.unary.device)
                totals = messages.totals.index_select(1, index)[..., : group.labels[slot]]
                yield Slot(self.weights[name], totals, message, renewed[name, slot])


def pass_messages(
    graph: FactorGraph,
    scores: Scores,
    weights: Weights,
    *,
    sweeps: int,
    schedule: Schedule,
    damping: float,
    tolerance: float,
) -> Beliefs:
    """Sweeps until marginals stay, agree with each other and with log Z, or there were enough; 0 makes all of them."""
    check_options(sweeps, damping, tolerance)
    passing = MessagePassing.of(graph, graph.checked(scores), checked_weights(graph, weights))
    messages, progress = run(passing, sweeps, schedule, damping, tolerance)
    variables, norms = passing.log_beliefs(messages)
    _check_possible(norms)
    log_marginals: dict[str, Tensor] = {}
    log_partition = ((1 - total_weights(graph, passing.weights)) * norms).sum(1)
    for name, group in graph.groups.items():
        if len(group.labels) == 1:
            chosen = variables[:, group.variables[:, 0].to(variables.device)]
            log_marginals[name] = chosen[..., : group.labels[0]]
        else:
            incoming = [passing.sent(messages, name, slot, None) for slot in range(len(group.labels))]
            log_marginals[name], norm = passing.factors[name].belief(incoming)
            _check_possible(norm)
            log_partition = log_partition + (passing.weights[name] * norm).sum(1)
    return beliefs_after(progress, log_marginals, variables, log_partition)


def run(
    passing: MessagePassing, sweeps: int, schedule: Schedule, damping: float, tolerance: float
) -> tuple[Messages, Progress]:
    """The last messages, and how they were reached. With maxima in place of sums there are no beliefs to agree."""
    order = steps(passing.graph, schedule)

    def sweep(messages: Messages) -> Messages:
        for step in order:
            messages = passing.update(messages, step, damping)
        return messages

    def change(messages: Messages, last: Messages) -> float:
        return largest_change(messages.totals, last.totals)

    def measure(messages: Messages) -> Agreement:
        batch, count = passing.unary.shape[:2]
        return agreement(() if passing.maximise else passing.slots(messages), batch, count)

    return sweep_until(passing.start(), sweep, change, measure, sweeps, tolerance)


def largest_change(totals: Tensor, last: Tensor) -> float:
    """Of a marginal; 0 where there are none."""
    with torch.no_grad():
        change = (totals.softmax(-1) - last.softmax(-1)).abs()
        return float(change.max()) if change.numel() else 0.0


def total_weights(graph: FactorGraph, weights: Weights) -> Tensor:
    """Σ_{r∋i} ρ_r of every variable, (N,)."""
    first = next(iter(weights.values()), None)
    total = torch.zeros(len(graph.labels)) if first is None else first.new_zeros(len(graph.labels))
    for name, group in graph.factors.items():
        index = group.variables.flatten().to(total.device)
        total = total.index_add(0, index, weights[name].repeat_interleave(len(group.labels)))
    return total


def checked_weights(graph: FactorGraph, weights: Weights) -> Weights:
    """Weights as they are; raises for what does not fit."""
    for name, group in graph.factors.items():
        given = weights.get(name)
        if not isinstance(given, Tensor) or tuple(given.shape) != (len(group.variables),):
            raise InputError(
                f"the weights of {name!r} are {given!r}, expected a tensor of {len(group.variables)} numbers."
            )
        if not bool(((given > 0) & given.isfinite()).all()):
            raise InputError(f"the weights of {name!r} reach {float(given.min())}, expected positive numbers.")
    return weights


def check_options(sweeps: int, damping: float, tolerance: float) -> None:
    """Raises for options of iterative inference that make no sense."""
    if isinstance(sweeps, bool) or not isinstance(sweeps, int) or sweeps < 1:
        raise InputError(f"sweeps is {sweeps!r}, expected an integer, 1 or more.")
    if not 0 <= damping < 1:
        raise InputError(f"damping is {damping!r}, expected a share of the old messages from 0 to below 1.")
    if not tolerance >= 0:
        raise InputError(f"tolerance is {tolerance!r}, expected 0 or more.")


def _check_possible(norms: Tensor) -> None:
    if bool((norms.detach() == NEVER).any()):
        item = int((norms.detach() == NEVER).nonzero()[0, 0])
        raise InputError(f"item {item} has no configuration left: scores of −inf contradict each other.")
