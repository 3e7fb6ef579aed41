"""What a group of regions says to its variables: any table of scores, and Potts' in O(L)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from densefield.structured.factor_graph import Group
from densefield.structured.log_domain import NEVER, difference, log_sum


class Factor(ABC):
    """The regions of a group with their scores. ``incoming`` has ν_j (B, R, L_j) from the variable of every slot."""

    @abstractmethod
    def rows(self, rows: Tensor | None) -> Factor:
        """The same for some of the regions."""

    @abstractmethod
    def message(self, slot: int, incoming: Sequence[Tensor | None], maximise: bool) -> Tensor:
        """log Σ exp (f + Σ_j ν_j) over all variables but that of the slot, which sent nothing; or the maximum."""

    @abstractmethod
    def belief(self, incoming: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Log marginals as the scores have them, and the logarithm (B, R) of what they were divided by."""


class TableFactor(Factor):
    """Scores (B, R, L_1, …, L_k) of any kind."""

    def __init__(self, tables: Tensor) -> None:
        self._tables = tables

    def rows(self, rows: Tensor | None) -> TableFactor:
        """The same for some of the regions."""
        return self if rows is None else TableFactor(self._tables.index_select(1, rows))

    def message(self, slot: int, incoming: Sequence[Tensor | None], maximise: bool) -> Tensor:
        """In O(L_1 ⋯ L_k)."""
        total = self._with(incoming)
        others = tuple(axis + 2 for axis in range(len(incoming)) if axis != slot)
        return total.amax(others) if maximise else log_sum(total, others)

    def belief(self, incoming: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Log marginals (B, R, L_1, …, L_k)."""
        total = self._with(incoming)
        norm = log_sum(total, tuple(range(2, total.ndim)))
        return difference(total, norm.reshape(*norm.shape, *[1] * len(incoming))), norm

    def _with(self, incoming: Sequence[Tensor | None]) -> Tensor:
        total = self._tables
        for axis, nu in enumerate(incoming):
            if nu is not None:
                shape = [1] * len(incoming)
                shape[axis] = nu.shape[2]
                total = total + nu.reshape(*nu.shape[:2], *shape)
        return total


class PottsFactor(Factor):
    """Weights (B, R) that count where the two labels are equal."""

    def __init__(self, weights: Tensor) -> None:
        self._weights = weights

    def rows(self, rows: Tensor | None) -> PottsFactor:
        """The same for some of the regions."""
        return self if rows is None else PottsFactor(self._weights.index_select(1, rows))

    def message(self, slot: int, incoming: Sequence[Tensor | None], maximise: bool) -> Tensor:
        """In O(L)."""
        nu = incoming[1 - slot]
        assert nu is not None  # only the receiving slot sent nothing
        if maximise:
            return potts_maximum(self._weights.unsqueeze(-1), nu)
        return log_add(log_others(nu), self._weights.unsqueeze(-1) + nu)

    def belief(self, incoming: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """The logarithm (B, R) of the probability of equal labels."""
        log_equal = log_sum(incoming[0] + incoming[1], -1) + self._weights
        log_unequal = log_sum(incoming[0] + log_others(incoming[1]), -1)
        norm = log_add(log_equal, log_unequal)
        return difference(log_equal, norm), norm


def factor_of(group: Group, scores: Tensor) -> Factor:
    """The factor for a group's scores."""
    return PottsFactor(scores) if group.potts else TableFactor(scores)


def log_others(nu: Tensor) -> Tensor:
    """log Σ_{y≠x} exp ν(y) for every label x (…, L), in O(L) and without cancellation.

    What is left of the whole without a label is accurate for all labels but the greatest, whose others are added up.

    >>> import torch
    >>> log_others(torch.tensor([3.0, 0.0, 0.0]))
    tensor([0.6931, 3.0486, 3.0486])
    """
    norm = log_sum(nu, -1, keepdim=True)
    greatest = torch.zeros_like(nu, dtype=torch.bool).scatter_(-1, nu.argmax(-1, keepdim=True), True)
    p = difference(nu, norm).exp().masked_fill(greatest, 0)
    return torch.where(greatest, log_sum(nu.masked_fill(greatest, NEVER), -1, keepdim=True), norm + torch.log1p(-p))


def log_add(a: Tensor, b: Tensor) -> Tensor:
    """log(exp a + exp b)."""
    return log_sum(torch.stack([a, b]), 0)


def potts_maximum(
    weight: Tensor,  # (…, 1)
    nu: Tensor,  # (…, L)
) -> Tensor:
    """max over y of ν(y) + w [x = y] for every label x, in O(L)."""
    if nu.shape[-1] == 1:
        return nu + weight
    top = nu.topk(2, dim=-1)
    first = torch.arange(nu.shape[-1], device=nu.device) == top.indices[..., :1]
    unequal = torch.where(first, top.values[..., 1:], top.values[..., :1])
    return torch.maximum(nu + weight, unequal)
