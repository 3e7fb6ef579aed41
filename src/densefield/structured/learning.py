"""Maximum likelihood with any inference: the gradient is predicted minus empirical marginals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeVar, get_args

import torch
from torch import Tensor

from densefield.errors import InputError
from densefield.filters.torch_modes import forbid_second_derivatives
from densefield.structured.beliefs import Beliefs
from densefield.structured.factor_graph import Scores

Adjoint = Literal["marginals", "unrolled"]
Reduction = Literal["mean", "sum"]


class Model(Protocol):
    """The methods of FactorGraph and GridGraph that learning uses."""

    def checked(self, scores: Scores) -> dict[str, Tensor]:
        """The scores expanded to full size."""

    def score(self, scores: Scores, labels: Tensor) -> Tensor:
        """The score F(x, y) (B,), with gradients."""


M = TypeVar("M", bound=Model)


def negative_log_likelihood(
    graph: M,
    scores: Scores,
    labels: Tensor,  # (B, N) integers; (B, H, W) for a grid
    inference: Callable[[M, Scores], Beliefs],
    *,
    adjoint: Adjoint = "marginals",
    reduction: Reduction = "mean",
) -> Tensor:  # ()
    """log Z(x) − F(x, y); the gradient of f_r is b_r minus the indicator of the true labels (paper, Eq. 2, Fig. 2).

    The likelihood is exact with exact inference. Mean field replaces log Z by a lower bound, ``tree_reweighted`` by an
    upper bound.

    Parameters
    ----------
    graph
        A ``FactorGraph`` or a ``GridGraph``.
    scores
        The scores of each group of regions.
    labels
        The true labels, (B, N) integers; (B, H, W) for a grid.
    inference
        Function that computes the marginals: ``junction_tree``, ``loopy_belief_propagation``, …; set its options with
        ``functools.partial(loopy_belief_propagation, iterations=20)``.
    adjoint
        As in ``log_partition``.
    reduction
        "sum" over items, or "mean", the sum divided by the number of variables of all items.

    Examples
    --------
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
    adjoint: Adjoint = "marginals",
) -> Tensor:  # (B,)
    """log Z or its approximation, with gradients.

    Parameters
    ----------
    graph
        A ``FactorGraph`` or a ``GridGraph``.
    scores
        The scores of each group of regions.
    inference
        Function that computes the marginals, as in ``negative_log_likelihood``.
    adjoint
        "marginals" takes the marginals as the gradient. This is exact for exact inference and at a fixed point, and
        stores no messages. "unrolled" differentiates the computation through every iteration and stores all messages;
        it is exact without convergence too.

    Examples
    --------
    >>> import torch
    >>> from densefield.structured import FactorGraph, junction_tree
    >>> graph = FactorGraph([2, 2], {"pair": [[0, 1]]})
    >>> log_partition(graph, {"pair": torch.zeros(1, 1, 2, 2)}, junction_tree)
    tensor([1.3863])
    """
    if adjoint not in get_args(Adjoint):
        raise InputError(f"adjoint is {adjoint!r}, expected one of {', '.join(get_args(Adjoint))}.")
    if adjoint == "unrolled":
        return inference(graph, scores).log_partition
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
        return None, None, None, *forbid_second_derivatives(tuple(marginals), gradient, *scores)
