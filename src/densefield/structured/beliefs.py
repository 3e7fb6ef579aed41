"""The result of inference: marginals, log Z and whether they have converged."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from densefield.errors import InputError
from densefield.structured.log_domain import NEG_INF


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Marginals of a structured model, exact or approximate, with log Z and convergence diagnostics.

    Inference functions return it. Exact inference has converged after 0 iterations with a residual of 0. Mean field
    measures the residual alone, since its marginals are always consistent. With a tolerance of 0 message passing
    measures the residual alone, and ``inconsistency`` and ``gap`` are NaN.

    Parameters
    ----------
    log_marginals
        log b_r(y_r) by group name, in the shapes of the scores; for Potts, the log-probability that the two labels are
        equal. They are the gradient of ``log_partition`` with respect to the scores, exactly or at a fixed point.
    variable_log_marginals
        log b_i(y_i), (B, N, L); −inf for states that a variable does not have.
    log_partition
        log Z or its approximation, (B,).
    iterations
        Number of iterations made.
    residual
        Largest change of a marginal in the last iteration.
    converged
        Whether residual, inconsistency and gap are within the tolerance.
    inconsistency
        Largest difference between a variable's marginal and the marginal of a region that contains it.
    gap
        Difference per variable between ``log_partition``, the dual value, and the primal value of the marginals,
        E_b F + Σ_r ρ_r H(b_r) + Σ_i (1 − Σ_{r∋i} ρ_r) H(b_i).

    Examples
    --------
    >>> import torch
    >>> from densefield.structured import FactorGraph, junction_tree
    >>> graph = FactorGraph([2, 2], {"pair": [[0, 1]]})
    >>> beliefs = junction_tree(graph, {"pair": torch.tensor([[[[0.0, 1.0], [2.0, 0.0]]]])})
    >>> beliefs.labels, beliefs.converged
    (tensor([[1, 0]]), True)
    """

    log_marginals: dict[str, Tensor]
    variable_log_marginals: Tensor
    log_partition: Tensor
    iterations: int = 0
    residual: float = 0.0
    converged: bool = True
    inconsistency: float = 0.0
    gap: float = 0.0

    @property
    def labels(self) -> Tensor:
        """The most probable label of every variable, (B, N)."""
        return self.variable_log_marginals.argmax(-1)


def check_possible(log_values: Tensor) -> None:
    """Raise if an item, the first axis of (B, …), has a value of −inf: no configuration is possible."""
    impossible = log_values.detach() == NEG_INF
    if bool(impossible.any()):
        item = impossible.nonzero()[0].tolist()[0]
        raise InputError(f"item {item} has no possible configuration: scores of −inf forbid all of them.")
