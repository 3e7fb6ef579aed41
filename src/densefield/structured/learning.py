"""Maximum likelihood through any inference: the gradient is predicted less empirical marginals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, get_args

import torch
from torch import Tensor

from densefield.errors import InputError, InputTypeError
from densefield.filters.once import once
from densefield.structured.beliefs import Beliefs
from densefield.structured.factor_graph import Scores

Reduction = Literal["mean", "sum"]


class Model(Protocol):
    """What learning needs of a graph: FactorGraph and GridGraph have it."""

    def checked(self, scores: Scores) -> dict[str, Tensor]:
        """Scores at full size."""

    def score(self, scores: Scores, labels: Tensor) -> Tensor:
        """F(x, y) (B,), with gradients."""


M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class MarginalDifference:
    """The gradient of log Z is taken to be the marginals: exact where those are, and at fixed points.

    Inference keeps nothing for the way back. Where it has not converged, this is the gradient of the approximate log Z
    at the fixed point that is being approached, as far as the last marginals tell.
    """


@dataclass(frozen=True)
class Unrolled:
    """The gradient of what was computed, back through every sweep, which keeps their messages."""


Adjoint = MarginalDifference | Unrolled


def negative_log_likelihood(
    graph: M,
    scores: Scores,
    labels: Tensor,  # (B, N) integers; (B, H, W) for a grid
    inference: Callable[[M, Scores], Beliefs],
    *,
    adjoint: Adjoint = MarginalDifference(),  # noqa: B008
    reduction: Reduction = "mean",
) -> Tensor:  # ()
    """log Z(x) − F(x, y), whose gradient by f_r is b_r less the true labels' indicator (paper, Eq. 2, and Fig. 2).

    * ``inference``: where log Z and the marginals come from: ``junction_tree``, ``loopy_belief_propagation``, … With
      options, as ``functools.partial(loopy_belief_propagation, sweeps=20)``.
    * ``reduction``: "sum" over items; "mean" divides it by the number of all their variables, as the loss of the dense
      CRF does.

    The likelihood is exact with exact inference. With mean field it is a bound from above, with ``tree_reweighted`` one
    from below, on the negative log-likelihood's log Z.

    >>> import torch
    >>> from densefield.structured import FactorGraph, junction_tree
    >>> graph = FactorGraph([2, 2], {"pair": [[0, 1]]})
    >>> scores = torch.zeros(1, 1, 2, 2, requires_grad=True)
    >>> loss = negative_log_likelihood(graph, {"pair": scores}, torch.tensor([[0, 1]]), junction_tree, reduction="sum")
    >>> loss.backward()
    >>> loss, scores.grad[0, 0]
    (tensor(1.3863, grad_fn=<SumBackward0>), tensor([[ 0.2500, -0.7500],
            [ 0.2500,  0.2500]]))
    """
    if reduction not in get_args(Reduction):
        raise InputError(f"reduction is {reduction!r}, expected one of {', '.join(get_args(Reduction))}.")
    full = graph.checked(scores)
    truth = graph.score(full, labels)
    losses = log_partition(graph, full, inference, adjoint=adjoint) - truth
    return losses.sum() if reduction == "sum" else losses.sum() / max(labels.numel(), 1)


def log_partition(
    graph: M,
    scores: Scores,
    inference: Callable[[M, Scores], Beliefs],
    *,
    adjoint: Adjoint = MarginalDifference(),  # noqa: B008
) -> Tensor:  # (B,)
    """log Z, or its approximation, with a gradient: the marginals of every region."""
    if isinstance(adjoint, Unrolled):
        return inference(graph, scores).log_partition
    if not isinstance(adjoint, MarginalDifference):
        raise InputTypeError(f"adjoint is {adjoint!r}, expected MarginalDifference() or Unrolled().")
    full = graph.checked(scores)
    found: Tensor = _LogPartition.apply(graph, inference, tuple(full), *full.values())  # type: ignore[no-untyped-call]
    return found


class _LogPartition(torch.autograd.Function):
    """∂ log Z / ∂f_r = b_r."""

    @staticmethod
    def forward(
        ctx: Any,
        graph: Any,
        inference: Callable[[Any, Mapping[str, Tensor]], Beliefs],
        names: tuple[str, ...],
        *scores: Tensor,
    ) -> Tensor:
        beliefs = inference(graph, dict(zip(names, scores, strict=True)))
        ctx.save_for_backward(*(beliefs.log_marginals[name] for name in names), *scores)
        return beliefs.log_partition

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        needs = ctx.needs_input_grad[3:]
        log_marginals, scores = ctx.saved_tensors[: len(needs)], ctx.saved_tensors[len(needs) :]
        g = gradient.detach()
        marginals = [
            log_b.detach().exp().mul_(g.reshape(-1, *[1] * (log_b.ndim - 1))) if needed else None
            for log_b, needed in zip(log_marginals, needs, strict=True)
        ]
        return None, None, None, *once(tuple(marginals), gradient, *scores)
