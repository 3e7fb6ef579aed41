"""Mean field on factor graphs; the dense CRF is the case in which all pairs are regions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from densefield.errors import InputError
from densefield.structured.beliefs import Beliefs, check_possible
from densefield.structured.factor_graph import FactorGraph, Scores
from densefield.structured.iteration import Schedule, UpdateGroup, check_options, largest_change, steps
from densefield.structured.log_domain import difference, log_sum


def mean_field(
    graph: FactorGraph,
    scores: Scores,
    *,
    iterations: int = 100,
    schedule: Schedule = "sequential",
    damping: float = 0.0,
    tolerance: float = 1e-6,
) -> Beliefs:
    """Marginals of the nearest fully factorised distribution, and a lower bound of log Z (paper, Eq. 4 and 5).

    The update is q_i ∝ exp(f_i + Σ_{r∋i} Σ_{y_r∖y_i} f_r(y_r) Π_{j≠i} q_j(y_j)), from q⁰ = softmax(f).

    Parameters
    ----------
    graph
        The factor graph.
    scores
        The scores of each group of regions. Regions of several variables need finite scores, since a factorised
        distribution cannot forbid a combination of labels.
    iterations
        Maximum number of iterations; each updates every variable once.
    schedule
        "sequential" updates one colour of variables after another and never lowers the bound; "parallel" is the update
        of the dense CRF and may oscillate, which damping reduces.
    damping
        Weight of the old log q, 0 or more and below 1.
    tolerance
        Stop once no marginal changes by more than this in an iteration. 0 makes all iterations.

    Examples
    --------
    >>> import torch
    >>> graph = FactorGraph([2, 2], {"unary": [[0], [1]], "pair": [[0, 1]]})
    >>> scores = {"unary": torch.tensor([[[1.0, 0.0], [0.0, 0.5]]]), "pair": torch.eye(2)[None, None]}
    >>> mean_field(graph, scores).variable_log_marginals.exp()
    tensor([[[0.7264, 0.2736],
             [0.4882, 0.5118]]])
    """
    check_options(iterations, damping, tolerance)
    full = graph.checked(scores)
    for name in graph.factors:
        if not bool(full[name].detach().isfinite().all()):
            raise InputError(
                f"the scores {name!r} hold −inf, and mean field cannot forbid combinations of labels. Use "
                "loopy_belief_propagation, or a large negative score."
            )
    field = MeanField(graph, full)
    log_q = field.start()
    order = steps(graph, schedule)
    for made in range(1, iterations + 1):
        last = log_q
        for step in order:
            log_q = field.update(log_q, step, damping)
        if tolerance or made == iterations:
            residual = largest_change(log_q, last)
            if residual <= tolerance:
                break
    return field.beliefs(log_q, made, residual, residual <= tolerance)


@dataclass(frozen=True, eq=False)
class MeanField:
    """The update for scores that are already expanded."""

    graph: FactorGraph
    scores: Scores

    def start(self) -> Tensor:
        """log q⁰ (B, N, L)."""
        return _normalised(self.graph.unary(self.scores))

    def update(self, log_q: Tensor, step: UpdateGroup, damping: float = 0.0) -> Tensor:
        """log q with new marginals of the step's variables."""
        variables = step.variables.to(log_q.device)
        z = self.graph.unary(self.scores).index_select(1, variables)
        for link in step.links:
            rows = None if link.rows is None else link.rows.to(log_q.device)
            expected = self._expected(log_q.exp(), link.group, link.slot, rows)
            padded = torch.nn.functional.pad(expected, (0, z.shape[2] - expected.shape[2]))
            z = z.index_add(1, link.places.to(log_q.device), padded)
        new = _normalised(z)
        if damping:
            new = _normalised((1 - damping) * new + damping * log_q.index_select(1, variables))
        return log_q.index_copy(1, variables, new)

    def _expected(self, q: Tensor, name: str, slot: int | None, rows: Tensor | None) -> Tensor:
        """Σ f_r Π_{j≠i} q_j for every state of the slot, (B, r, L); for slot None the expected score (B, r)."""
        group, scores = self.graph.groups[name], self.scores[name]
        variables = group.variables.to(q.device)
        if rows is not None:
            scores, variables = scores.index_select(1, rows), variables[rows]
        marginals = [q[:, variables[:, axis], :count] for axis, count in enumerate(group.num_states)]
        if group.potts:
            if slot is not None:
                return scores.unsqueeze(-1) * marginals[1 - slot]
            return scores * (marginals[0] * marginals[1]).sum(-1)
        total = scores
        for axis in reversed(range(len(marginals))):
            if axis != slot:
                shape = [1] * len(marginals)
                shape[axis] = group.num_states[axis]
                product = total * marginals[axis].reshape(*marginals[axis].shape[:2], *shape)
                total = product.sum(axis + 2, keepdim=True)
        return total.flatten(2).squeeze(2) if slot is None else total.flatten(2)

    def beliefs(self, log_q: Tensor, iterations: int, residual: float, converged: bool) -> Beliefs:
        """Products of marginals for regions, and the bound E_q F + H(q)."""
        q = log_q.exp()
        # 0 · ∞ counts as 0: both 0 log 0 and a forbidden score of probability 0.
        unary = self.graph.unary(self.scores)
        bound = torch.where(q > 0, q * (unary - log_q), 0.0).sum((1, 2))
        log_marginals: dict[str, Tensor] = {}
        for name, group in self.graph.groups.items():
            parts = [
                log_q[:, group.variables[:, axis].to(q.device), :count] for axis, count in enumerate(group.num_states)
            ]
            if group.potts:
                log_marginals[name] = log_sum(parts[0] + parts[1], -1)
            else:
                shapes = [
                    [1] * axis + [count] + [1] * (len(parts) - axis - 1) for axis, count in enumerate(group.num_states)
                ]
                views = [part.reshape(*part.shape[:2], *shape) for part, shape in zip(parts, shapes, strict=True)]
                log_marginals[name] = sum(views[1:], views[0])
            if len(parts) > 1:
                bound = bound + self._expected(q, name, None, None).sum(1)
        return Beliefs(log_marginals, log_q, bound, iterations, residual, converged)


def _normalised(z: Tensor) -> Tensor:
    norm = log_sum(z, -1, keepdim=True)
    check_possible(norm)
    return difference(z, norm)
