"""Message passing: one update serves loopy, convex and tree-reweighted belief propagation by different weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from densefield.structured.beliefs import Beliefs, check_possible
from densefield.structured.counting_numbers import Weights, checked_weights, total_weights
from densefield.structured.factor_graph import FactorGraph, Group, Scores
from densefield.structured.iteration import (
    Agreement,
    Convergence,
    Link,
    Schedule,
    Slot,
    UpdateGroup,
    check_options,
    iterate_until,
    largest_change,
    measure_agreement,
    steps,
)
from densefield.structured.log_domain import difference, finite_or_zero, log_add, log_others, log_sum


class Factor(ABC):
    """The regions of a group with their scores; ``incoming`` has ν_j (B, R, L_j) from the variable in each slot."""

    @abstractmethod
    def rows(self, rows: Tensor | None) -> Factor:
        """The factor of some of the regions; all of them for None."""

    @abstractmethod
    def message(self, slot: int, incoming: Sequence[Tensor | None], maximise: bool) -> Tensor:
        """log Σ exp(f + Σ_j ν_j), or the maximum, over all variables but the slot's, whose incoming message is None."""

    @abstractmethod
    def belief(self, incoming: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Log marginals in the shape of the scores, and their log-normalisers (B, R)."""


class TableFactor(Factor):
    """Tables of scores (B, R, L_1, …, L_k)."""

    def __init__(self, tables: Tensor) -> None:
        self._tables = tables

    def rows(self, rows: Tensor | None) -> TableFactor:
        """The factor of some of the regions; all of them for None."""
        return self if rows is None else TableFactor(self._tables.index_select(1, rows))

    def message(self, slot: int, incoming: Sequence[Tensor | None], maximise: bool) -> Tensor:
        """In O(L_1 ⋯ L_k)."""
        total = self._plus(incoming)
        others = tuple(axis + 2 for axis in range(len(incoming)) if axis != slot)
        return total.amax(others) if maximise else log_sum(total, others)

    def belief(self, incoming: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Log marginals (B, R, L_1, …, L_k)."""
        total = self._plus(incoming)
        norm = log_sum(total, tuple(range(2, total.ndim)))
        return difference(total, norm.reshape(*norm.shape, *[1] * len(incoming))), norm

    def _plus(self, incoming: Sequence[Tensor | None]) -> Tensor:
        total = self._tables
        for axis, nu in enumerate(incoming):
            if nu is not None:
                shape = [1] * len(incoming)
                shape[axis] = nu.shape[2]
                total = total + nu.reshape(*nu.shape[:2], *shape)
        return total


class PottsFactor(Factor):
    """Weights (B, R) that are added if the two labels are equal."""

    def __init__(self, weights: Tensor) -> None:
        self._weights = weights

    def rows(self, rows: Tensor | None) -> PottsFactor:
        """The factor of some of the regions; all of them for None."""
        return self if rows is None else PottsFactor(self._weights.index_select(1, rows))

    def message(self, slot: int, incoming: Sequence[Tensor | None], maximise: bool) -> Tensor:
        """In O(L)."""
        nu = incoming[1 - slot]
        assert nu is not None  # None for the receiving slot alone
        if maximise:
            return potts_maximum(self._weights.unsqueeze(-1), nu)
        return log_add(log_others(nu), self._weights.unsqueeze(-1) + nu)

    def belief(self, incoming: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Log-probabilities (B, R) of equal labels."""
        log_equal = log_sum(incoming[0] + incoming[1], -1) + self._weights
        log_unequal = log_sum(incoming[0] + log_others(incoming[1]), -1)
        norm = log_add(log_equal, log_unequal)
        return difference(log_equal, norm), norm


def factor_of(group: Group, scores: Tensor) -> Factor:
    """The factor for a group's scores."""
    return PottsFactor(scores) if group.potts else TableFactor(scores)


def potts_maximum(
    weight: Tensor,  # (…, 1)
    nu: Tensor,  # (…, L)
) -> Tensor:
    """max over y of ν(y) + w [x = y] for every state x, in O(L)."""
    if nu.shape[-1] == 1:
        return nu + weight
    top = nu.topk(2, dim=-1)
    first = torch.arange(nu.shape[-1], device=nu.device) == top.indices[..., :1]
    unequal = torch.where(first, top.values[..., 1:], top.values[..., :1])
    return torch.maximum(nu + weight, unequal)


@dataclass(frozen=True, eq=False)
class Messages:
    """μ (B, R, L_j) to each slot of each group, and log b_i up to a constant (B, N, L)."""

    to: dict[tuple[str, int], Tensor]
    totals: Tensor


@dataclass(frozen=True, eq=False)
class MessagePassing:
    """The update with the weights ρ, for given scores.

    The entropy of the model is approximated by Σ_r c_r H(b_r) + Σ_i c_i H(b_i), with c_r = ρ_r and
    c_i = 1 − Σ_{r∋i} ρ_r. Fixed points are the stationary points of the resulting free energy:

        μ_{r→i}(y_i) = log Σ_{y_r∖y_i} exp(f_r(y_r)/ρ_r + Σ_{j≠i} ν_{j→r}(y_j)),
        ν_{i→r}(y_i) = t_i(y_i) − μ_{r→i}(y_i),  t_i = f_i + Σ_{r∋i} ρ_r μ_{r→i},

    where b_i ∝ exp t_i and b_r ∝ exp(f_r/ρ_r + Σ_i ν_{i→r}). A step replaces all messages to some variables.
    """

    graph: FactorGraph
    unary: Tensor  # (B, N, L)
    factors: dict[str, Factor]
    weights: dict[str, Tensor]
    maximise: bool
    _rows: dict[int, Factor] = field(default_factory=dict)  # the factor of each link's rows, by the link's id

    @classmethod
    def of(cls, graph: FactorGraph, scores: Scores, weights: Weights, maximise: bool = False) -> MessagePassing:
        """The update for scores that are already expanded."""
        first = next(iter(scores.values()))
        rho = {name: weights[name].to(first) for name in graph.factors}
        factors = {}
        for name, group in graph.factors.items():
            share = rho[name].reshape(-1, *[1] * (scores[name].ndim - 2))
            factors[name] = factor_of(group, scores[name] / share)
        return cls(graph, graph.unary(scores), factors, rho, maximise)

    def start(self) -> Messages:
        """Messages of 0."""
        batch = self.unary.shape[0]
        to = {
            (name, slot): self.unary.new_zeros(batch, len(group.variables), count)
            for name, group in self.graph.factors.items()
            for slot, count in enumerate(group.num_states)
        }
        return Messages(to, self.unary)

    def update(self, messages: Messages, step: UpdateGroup, damping: float = 0.0) -> Messages:
        """Replace the messages to the step's variables, all computed from the old ones."""
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
        slots = range(len(self.graph.factors[link.group].num_states))
        incoming = [None if s == link.slot else self.sent(messages, link.group, s, rows) for s in slots]
        if id(link) not in self._rows:
            self._rows[id(link)] = self.factors[link.group].rows(rows)
        message = self._rows[id(link)].message(link.slot, incoming, self.maximise)
        # Beliefs do not depend on this constant, but its gradient would grow with the iterations if it stayed.
        return message - finite_or_zero(message.amax(-1, keepdim=True))

    def sent(self, messages: Messages, name: str, slot: int, rows: Tensor | None) -> Tensor:
        """ν (B, r, L) from the variables in a slot of some regions."""
        group = self.graph.factors[name]
        to, variables = messages.to[name, slot], group.variables[:, slot].to(self.unary.device)
        if rows is not None:
            to, variables = to.index_select(1, rows), variables[rows]
        return difference(messages.totals.index_select(1, variables)[..., : group.num_states[slot]], to)

    def log_beliefs(self, messages: Messages) -> tuple[Tensor, Tensor]:
        """log b_i (B, N, L) of every variable, and the log-normalisers (B, N) of t_i."""
        norms = log_sum(messages.totals, -1)
        return difference(messages.totals, norms.unsqueeze(-1)), norms

    def slots(self, messages: Messages) -> Iterator[Slot]:
        """All slots of all regions, with the current messages and the ones computed anew."""
        with torch.no_grad():
            updated = self.update(messages, steps(self.graph, "parallel")[0]).to
            for (name, slot), message in messages.to.items():
                group = self.graph.factors[name]
                index = group.variables[:, slot].to(self.unary.device)
                totals = messages.totals.index_select(1, index)[..., : group.num_states[slot]]
                yield Slot(self.weights[name], totals, message, updated[name, slot])


def pass_messages(
    graph: FactorGraph,
    scores: Scores,
    weights: Weights,
    iterations: int,
    schedule: Schedule,
    damping: float,
    tolerance: float,
) -> Beliefs:
    """Marginals and log Z by sum-product messages with the weights ρ."""
    check_options(iterations, damping, tolerance)
    passing = MessagePassing.of(graph, graph.checked(scores), checked_weights(graph, weights))
    messages, convergence = run(passing, iterations, schedule, damping, tolerance)
    log_b, norms = passing.log_beliefs(messages)
    check_possible(norms)
    log_marginals: dict[str, Tensor] = {}
    log_partition = ((1 - total_weights(graph, passing.weights)) * norms).sum(1)
    for name, group in graph.groups.items():
        if len(group.num_states) == 1:
            chosen = log_b[:, group.variables[:, 0].to(log_b.device)]
            log_marginals[name] = chosen[..., : group.num_states[0]]
        else:
            incoming = [passing.sent(messages, name, slot, None) for slot in range(len(group.num_states))]
            log_marginals[name], norm = passing.factors[name].belief(incoming)
            check_possible(norm)
            log_partition = log_partition + (passing.weights[name] * norm).sum(1)
    return Beliefs(log_marginals, log_b, log_partition, **vars(convergence))


def run(
    passing: MessagePassing, iterations: int, schedule: Schedule, damping: float, tolerance: float
) -> tuple[Messages, Convergence]:
    """The last messages and their convergence; for max-product the residual alone is measured."""
    order = steps(passing.graph, schedule)

    def iterate(messages: Messages) -> Messages:
        for step in order:
            messages = passing.update(messages, step, damping)
        return messages

    def change(messages: Messages, last: Messages) -> float:
        return largest_change(messages.totals, last.totals)

    def measure(messages: Messages) -> Agreement:
        batch, count = passing.unary.shape[:2]
        return measure_agreement(() if passing.maximise else passing.slots(messages), batch, count)

    return iterate_until(passing.start(), iterate, change, measure, iterations, tolerance)
