"""The native mean field as torch operators: in the graph, in compiled and in exported models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from densefield.crf.kernels import Normalization
from densefield.crf.native import KernelGradient, Wanted, native_back_track, native_mean_field, new_array, state_floats
from densefield.filters.autograd import torch_threads
from densefield.filters.lattice_design import Operator
from densefield.filters.torch_modes import SECOND_DERIVATIVES, is_transformed
from densefield.nn.batch import BatchOptions, BoundBatch, live, ticket_of

Adjoint = Literal["keep", "recompute"]


def torch_mean_field(
    scores: Tensor,  # (B, L, N) float32 on the CPU
    features: Sequence[Tensor],  # per kernel (B, N, d) or (1, N, d), not yet divided by widths
    shapes: Sequence[Tensor],  # per kernel: widths (d,), or the matrix W (d, d) of features W p
    weights: Sequence[Tensor],  # per kernel μ: (), (L,) or (L, L)
    *,
    normalizations: Sequence[Normalization],
    iterations: int,
    exclude_self: bool = False,
    present: Tensor | None = None,  # (B, N): 1 for pixels that take part, 0 for others
    operator: Operator = "symmetric",
    halo: int = 0,
    adjoint: Adjoint = "keep",
    threads: int | None = None,
) -> Tensor:  # (B, L, N)
    """log q^T by the native loop, with every gradient (paper, Eq. 5 and Learning).

    Back-tracking needs q⁰ … q^(T-1): "keep" holds them from the forward pass on, T·B·N·L numbers; "recompute" runs the
    forward pass of one image again when its turn comes, which takes longer and holds T·N·L.
    """
    tensors = (scores, *features, *shapes, *weights)
    differentiates = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
    log_q: Tensor = _forward_op(
        scores,
        list(features),
        list(shapes),
        list(weights),
        present,
        ",".join(normalizations),
        iterations,
        exclude_self,
        operator,
        halo,
        differentiates and adjoint == "keep",
        threads or 0,
    )[0]
    return log_q


def _forward(
    scores: Tensor,
    features: list[Tensor],
    shapes: list[Tensor],
    weights: list[Tensor],
    present: Tensor | None,
    normalizations: str,
    iterations: int,
    exclude_self: bool,
    operator: str,
    halo: int,
    keep: bool,
    threads: int,
) -> tuple[Tensor, Tensor, Tensor]:
    images, labels, points = scores.shape
    options = _options(normalizations, iterations, exclude_self, operator, halo, threads)
    batch = BoundBatch(features, shapes, weights, present, (images, points), options)
    f = scores.detach().contiguous().numpy()
    log_q = new_array(*f.shape)
    states = new_array(images if keep else 0, iterations, state_floats(points, labels))
    batch.each(
        images,
        lambda item: native_mean_field(
            batch.items[item],
            f[item],
            iterations,
            batch.threads,
            log_marginals=log_q[item],
            states=states[item] if keep else None,
        ),
    )
    return torch.from_numpy(log_q), torch.from_numpy(states), ticket_of(batch)


def _backward(
    cotangent: Tensor,
    log_q: Tensor,
    states: Tensor,
    ticket: Tensor,
    scores: Tensor,
    features: list[Tensor],
    shapes: list[Tensor],
    weights: list[Tensor],
    present: Tensor | None,
    normalizations: str,
    iterations: int,
    exclude_self: bool,
    operator: str,
    halo: int,
    threads: int,
    wanted: list[bool],  # of all features, then of all shapes, then of all weights
) -> list[Tensor]:
    images, labels, points = scores.shape
    options = _options(normalizations, iterations, exclude_self, operator, halo, threads)
    batch = live.get(int(ticket))
    if batch is None or len(batch.items) != images or batch.points != points:
        batch = BoundBatch(features, shapes, weights, present, (images, points), options)
    held = batch
    kernels = len(features)
    wants = [Wanted(wanted[2 * kernels + m], wanted[kernels + m], wanted[m]) for m in range(kernels)]
    c, log_marginals = cotangent.contiguous().numpy(), log_q.contiguous().numpy()

    to_scores = new_array(*c.shape)
    # Marginals that are found again are there for one image at a time, which then has all threads.
    recomputes = len(states) == 0
    threads_each = options.threads if recomputes else held.threads

    def track(item: int) -> list[KernelGradient]:
        if recomputes:
            own = new_array(iterations, state_floats(points, labels))
            f = scores[item].detach().contiguous().numpy()
            native_mean_field(held.items[item], f, iterations, options.threads, states=own)
        else:
            own = states[item].numpy()
        return native_back_track(
            held.items[item],
            options.normalizations,
            wants,
            c[item],
            log_marginals[item],
            own,
            threads_each,
            out=to_scores[item],
        )[1]

    found = [track(item) for item in range(images)] if recomputes else held.each(images, track)
    per_kernel = [[gradients[m] for gradients in found] for m in range(kernels)]
    return [
        torch.from_numpy(to_scores),
        *[_to_features(per_kernel[m], features[m], shapes[m]) if wanted[m] else torch.empty(0) for m in range(kernels)],
        *[_to_shape(per_kernel[m], shapes[m]) if wanted[kernels + m] else torch.empty(0) for m in range(kernels)],
        *[_to_weight(per_kernel[m], weights[m]) if wanted[2 * kernels + m] else torch.empty(0) for m in range(kernels)],
    ]


def _to_features(gradients: list[KernelGradient], features: Tensor, shape: Tensor) -> Tensor:
    """Of x = p/σ or W p back to p."""
    slopes = torch.zeros_like(features)
    for item, each in enumerate(gradients):
        slopes[item if len(features) > 1 else 0] += torch.from_numpy(each.features)
    exact = shape.to(slopes.dtype)
    return slopes / exact if shape.ndim == 1 else slopes @ exact


def _to_shape(gradients: list[KernelGradient], shape: Tensor) -> Tensor:
    """Of the second moments to widths σ or to W."""
    moments = torch.zeros(shape.shape[-1], shape.shape[-1], dtype=torch.float64)
    for each in gradients:
        moments += torch.from_numpy(each.moments)
    exact = shape.double()
    slope = moments.diagonal() / exact if shape.ndim == 1 else -torch.linalg.solve(exact, moments.T).T
    return slope.to(shape.dtype)


def _to_weight(gradients: list[KernelGradient], weight: Tensor) -> Tensor:
    total = torch.zeros(weight.shape, dtype=torch.float64)
    for each in gradients:
        total += torch.from_numpy(np.asarray(each.mu))
    return total.to(weight.dtype)


def _options(
    normalizations: str, iterations: int, exclude_self: bool, operator: str, halo: int, threads: int
) -> BatchOptions:
    names: Any = tuple(normalizations.split(",")) if normalizations else ()
    kind: Any = operator
    # How many threads there are by default is found out when the operator runs, not when it is compiled.
    return BatchOptions(names, iterations, exclude_self, kind, halo, torch_threads(threads or None))


_forward_op = torch.library.custom_op("densefield::mean_field", _forward, mutates_args=(), device_types="cpu")
_backward_op = torch.library.custom_op("densefield::back_track", _backward, mutates_args=(), device_types="cpu")


@_forward_op.register_fake
def _(scores: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    images, labels, points = scores.shape
    iterations, keep = arguments[5], arguments[9]
    states = scores.new_empty(images if keep else 0, iterations, state_floats(points, labels))
    return (
        torch.empty_like(scores, memory_format=torch.contiguous_format),
        states,
        scores.new_empty(1, dtype=torch.int64),
    )


@_backward_op.register_fake
def _(cotangent: Tensor, *arguments: Any) -> list[Tensor]:
    features, shapes, weights = arguments[4:7]
    wanted = arguments[-1]
    likes = [*features, *shapes, *weights]
    slopes = [torch.empty_like(like) if want else like.new_empty(0) for like, want in zip(likes, wanted, strict=True)]
    return [torch.empty_like(cotangent, memory_format=torch.contiguous_format), *slopes]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    scores, features, shapes, weights, present, *options = inputs
    log_q, states, ticket = output
    ctx.mark_non_differentiable(states, ticket)
    ctx.set_materialize_grads(False)
    ctx.kernels, ctx.options = len(features), options
    ctx.save_for_backward(log_q, states, ticket, scores, present, *features, *shapes, *weights)


def _differentiate(ctx: Any, cotangent: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
    kernels = ctx.kernels
    rest = (None,) * (1 + len(ctx.options))
    if cotangent is None:
        none = [None] * kernels
        return (None, none, none, none, *rest)
    if not torch.compiler.is_compiling() and is_transformed(cotangent):
        raise NotImplementedError(
            "mean field takes one cotangent at a time: call torch.autograd.grad once for each, without "
            "is_grads_batched=True and vectorize=True."
        )
    log_q, states, ticket, scores, present, *tensors = ctx.saved_tensors
    features, shapes, weights = (tensors[i * kernels : (i + 1) * kernels] for i in range(3))
    *options, _keep, threads = ctx.options
    wanted = [bool(need) for group in ctx.needs_input_grad[1:4] for need in group]
    to_scores, *slopes = _backward_op(
        cotangent, log_q, states, ticket, scores, features, shapes, weights, present, *options, threads, wanted
    )
    found = [slope if want else None for slope, want in zip(slopes, wanted, strict=True)]
    return (to_scores, *(found[i * kernels : (i + 1) * kernels] for i in range(3)), *rest)


_forward_op.register_autograd(_differentiate, setup_context=_remember)


def _refuse(ctx: Any, *cotangents: object) -> None:
    raise NotImplementedError(SECOND_DERIVATIVES)


_backward_op.register_autograd(_refuse)
