"""When message passing is done: beliefs that agree with each other, and a log Z that agrees with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from densefield.structured.log_domain import difference, finite_or_zero

M = TypeVar("M")

_FIRST_WAIT, _SHARE = 4, 10  # a measure that failed is repeated after 4 sweeps, or a tenth of all sweeps so far


@dataclass(frozen=True, eq=False)
class Slot:
    """One slot of some regions: the variables there, and what the regions and they tell each other.

    The messages are known up to a constant.
    """

    weights: Tensor  # ρ (R,), of any shape that the regions have
    totals: Tensor  # t of the variable in the slot, (B, R, L): log b_i up to a constant
    message: Tensor  # μ to it
    renewed: Tensor  # μ found from the messages as they are


@dataclass(frozen=True)
class Agreement:
    """How far beliefs are from those of a fixed point.

    * ``inconsistency``: the largest difference between a variable's marginal and that of a region that contains it.
    * ``gap``: the difference between log Z by the messages (the dual) and by the beliefs (the primal), for each
      variable.
    """

    inconsistency: float
    gap: float

    def within(self, tolerance: float) -> bool:
        """Whether both are; NaN, where scores contradict each other, counts as such, since no sweep changes it."""
        return not (self.inconsistency > tolerance or self.gap > tolerance)


@dataclass(frozen=True)
class Progress:
    """How iterative inference ended."""

    sweeps: int
    residual: float
    agreement: Agreement
    converged: bool


def agreement(slots: Iterable[Slot], batch: int, variables: int) -> Agreement:
    """Of beliefs b_r ∝ exp(f_r/ρ_r + Σ_i ν_{i→r}) and b_i ∝ exp t_i, with ν = t − μ, by messages alone.

    The marginal of b_r is ∝ exp(ν + μ') with the renewed message μ'. The dual exceeds the primal by
    Σ_r ρ_r Σ_{i∈r} Σ_y (b_r(y_i) − b_i(y_i)) ν_{i→r}(y_i).

    >>> same = torch.zeros(1, 1, 2, dtype=torch.float64)
    >>> round(agreement([Slot(torch.ones(1), same, same, torch.tensor([[[0.0, 1.0]]]))], 1, 1).inconsistency, 4)
    0.2311
    """
    worst = 0.0
    gap = torch.zeros(batch, dtype=torch.float64)
    with torch.no_grad():
        for slot in slots:
            if not slot.totals.numel():
                continue
            log_b = slot.totals.log_softmax(-1)  # its size is that of the messages, which keeps digits in float32
            sent = difference(log_b, slot.message)
            apart = (sent + slot.renewed).softmax(-1) - log_b.exp()
            worst = _larger(worst, float(apart.abs().max()))
            terms = slot.weights * (apart * finite_or_zero(sent)).sum(-1)
            gap = gap + terms.flatten(1).double().sum(1).cpu()
    largest = float(gap.abs().max()) if gap.numel() else 0.0
    return Agreement(worst, largest / max(variables, 1))


def sweep_until(
    start: M,
    sweep: Callable[[M], M],
    change: Callable[[M, M], float],  # the largest change of a marginal from the second to the first
    measure: Callable[[M], Agreement],
    sweeps: int,
    tolerance: float,
) -> tuple[M, Progress]:
    """Sweeps until the change and the agreement are within the tolerance, or there were enough.

    Agreement costs about as much as a parallel sweep, so it is measured only where the change is small, and then
    rarely. A tolerance of 0 makes all sweeps and measures no agreement, which is NaN then.

    >>> def halve(x): return x / 2
    >>> def difference(x, y): return abs(x - y)
    >>> value, progress = sweep_until(1.0, halve, difference, lambda x: Agreement(x, 0.0), 100, 0.1)
    >>> value, progress.sweeps, progress.converged
    (0.0625, 4, True)
    """
    messages, next_measure = start, 0
    found: Agreement | None = None
    for made in range(1, sweeps + 1):
        last, messages, found = messages, sweep(messages), None
        if not (tolerance or made == sweeps):
            continue
        residual = change(messages, last)
        if tolerance and not residual > tolerance and made >= next_measure:
            found = measure(messages)
            if found.within(tolerance):
                break
            next_measure = made + max(_FIRST_WAIT, made // _SHARE)
    if found is None:
        found = measure(messages) if tolerance else Agreement(math.nan, math.nan)
    return messages, Progress(made, residual, found, residual <= tolerance and found.within(tolerance))


def _larger(a: float, b: float) -> float:
    """The larger number; NaN where one is."""
    return b if math.isnan(b) or b > a else a
