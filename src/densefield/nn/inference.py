"""Inference in torch operations: parallel or convergent, differentiated through all iterations or at a fixed point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from densefield.crf.implicit import RESIDUAL, STOP_CHANGE, warn_of_change, warn_of_residual
from densefield.crf.linear_solver import solve_linear
from densefield.crf.mean_field import mean_field, update
from densefield.crf.options import CRFOptions
from densefield.crf.pairwise import Pairwise
from densefield.nn.programs import check_convergent_terms, convergent_mean_field, convergent_step, numpy_terms

Adjoint = Literal["store", "recompute", "implicit"]


def infer(scores: Tensor, pairwise: Sequence[Pairwise[Tensor]], options: CRFOptions, adjoint: Adjoint) -> Tensor:
    """log q^T, (N, L), with gradients (paper, Eq. 5 and Learning)."""
    if adjoint == "implicit" and options.iterations > 0 and pairwise:  # without kernels there is nothing to solve
        return implicit_mean_field(scores, pairwise, options)
    if options.inference == "convergent":
        return convergent_mean_field(scores, pairwise, options.iterations)
    return mean_field(scores, pairwise, options.iterations)


def implicit_mean_field(scores: Tensor, pairwise: Sequence[Pairwise[Tensor]], options: CRFOptions) -> Tensor:
    """log q at a fixed point, (N, L), whose gradient solves a linear system; the twin of densefield.crf.implicit.

    With F(log q) = log softmax(f + A q), the cotangent v of log q becomes that of F, the solution w of
    w - (∂F/∂log q)ᵀ w = v.
    """
    with torch.no_grad():
        log_q, change = _fixed_point(scores, pairwise, options)
    if not torch.is_grad_enabled():
        return log_q
    once_more = update(scores, pairwise, log_q.exp()).log_softmax(-1)
    if not once_more.requires_grad:
        return log_q
    warn_of_change(change, options, numpy_terms(pairwise))

    def solve(cotangent: Tensor | None) -> Tensor | None:
        if cotangent is None:  # torch's word for zero
            return None
        # A graph of its own: one that held `once_more` would never be freed, since the hook belongs to that tensor.
        with torch.enable_grad():
            q = log_q.exp().requires_grad_()
            image = update(scores, pairwise, q).log_softmax(-1)

        def product(w: Tensor) -> Tensor:
            (slope,) = torch.autograd.grad(image, q, w, retain_graph=True)
            return w - q.detach() * slope

        tolerance = RESIDUAL[numpy_dtype(scores)]
        solution = solve_linear(product, cotangent.detach(), tolerance)
        warn_of_residual(solution, tolerance)
        return solution.x

    once_more.register_hook(solve)  # type: ignore[no-untyped-call]
    return log_q + (once_more - once_more.detach())


def _fixed_point(scores: Tensor, pairwise: Sequence[Pairwise[Tensor]], options: CRFOptions) -> tuple[Tensor, float]:
    """log q after up to T iterations, and how much the last changed a marginal."""
    convergent = options.inference == "convergent"
    if convergent:
        check_convergent_terms(pairwise)
    log_q, change = scores.log_softmax(-1), float("inf")
    enough = STOP_CHANGE[numpy_dtype(scores)]
    for _ in range(options.iterations):
        last = log_q
        if convergent:
            log_q = convergent_step(scores, pairwise, last)
        else:
            log_q = update(scores, pairwise, last.exp()).log_softmax(-1)
        change = float((log_q.exp() - last.exp()).abs().max()) if log_q.numel() else 0.0
        if change <= enough:
            break
    return log_q, change


def numpy_dtype(tensor: Tensor) -> Any:
    """The type of a tensor's numbers in NumPy."""
    return torch.empty(0, dtype=tensor.dtype).numpy().dtype
