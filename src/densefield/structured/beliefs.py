"""What inference returns."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from densefield.errors import InputError
from densefield.structured.convergence import Progress
from densefield.structured.log_domain import NEVER


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Marginals of a structured model, exact or approximate, and how they were reached.

    * ``log_marginals``: by the names of the scores and in their shapes, log b_r(y_r); for Potts the logarithm of the
      probability that the two labels are equal. They are the gradient of ``log_partition`` by the scores, exactly or at
      a fixed point.
    * ``variables``: log b_i(y_i) (B, N, L), −inf for labels that a variable does not have.
    * ``log_partition``: log Z, or its approximation, (B,).
    * ``sweeps`` that were made; ``residual``, the largest change of a marginal in the last of them.
    * ``inconsistency``: the largest difference between a variable's marginal and that of a region that contains it.
    * ``gap``: the difference between ``log_partition``, the dual value, and the primal value of the marginals, E_b F +
      Σ_r ρ_r H(b_r) + Σ_i (1 − Σ_{r∋i} ρ_r) H(b_i), for each variable.
    * ``converged``: whether these three are within the tolerance. A tolerance of 0 measures only the residual; the
      other two are NaN then. Exact inference has none of them, and mean field has the residual alone: its marginals are
      always consistent.
    """

    log_marginals: dict[str, Tensor]
    variables: Tensor
    log_partition: Tensor
    sweeps: int = 0
    residual: float = 0.0
    converged: bool = True
    inconsistency: float = 0.0
    gap: float = 0.0

    @property
    def labels(self) -> Tensor:
        """The most probable label of every variable, (B, N)."""
        return self.variables.argmax(-1)


def beliefs_after(
    progress: Progress, log_marginals: dict[str, Tensor], variables: Tensor, log_partition: Tensor
) -> Beliefs:
    """With what is known of the messages that gave them."""
    return Beliefs(
        log_marginals,
        variables,
        log_partition,
        progress.sweeps,
        progress.residual,
        progress.converged,
        progress.agreement.inconsistency,
        progress.agreement.gap,
    )


def check_possible(log_partition: Tensor) -> None:
    """Raises where an item has no configuration at all."""
    impossible = log_partition.detach() == NEVER
    if bool(impossible.any()):
        item = impossible.nonzero()[0].tolist()[0]
        raise InputError(f"item {item} has no configuration left: scores of −inf forbid all of them.")
