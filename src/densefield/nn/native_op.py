"""Native mean field as a torch operator: in the autograd graph, in compiled and in exported models."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from densefield.crf.convergent import check_convergent
from densefield.crf.implicit import STOP_CHANGE, native_implicit_back_track, warn_of_change
from densefield.crf.native import KernelGradient, Wanted, native_back_track, native_mean_field, new_array, state_floats
from densefield.filters.torch_modes import SECOND_DERIVATIVES, is_transformed
from densefield.nn.batch import BatchTerms, OpOptions, live, ticket_of
from densefield.nn.inference import Adjoint


def native_op(
    scores: Tensor,  # (B, L, …) float32 on the CPU
    parts: Sequence[Tensor],  # (B, d, …) or (1, d, …) float32, in the order of the names in `options`
    shapes: Sequence[Tensor],  # per kernel: widths (d,), or the matrix W (d, d) of features W p
    weights: Sequence[Tensor],  # per kernel μ: (), (L,) or (L, L)
    present: Tensor | None,  # (B, N): 0 for ignored pixels, 1 for others
    spacing: Sequence[Sequence[float]] | None,  # one for all images, or one for each
    options: str,  # OpOptions.encode()
    adjoint: Adjoint = "store",
) -> Tensor:  # (B, L, …)
    """log q^T by the native loop, with every gradient (paper, Eq. 5 and Learning).

    Back-tracking needs q⁰ … q^(T-1). "store" keeps them from the forward pass, T·B·N·L numbers; "recompute" repeats the
    forward pass of one image at a time, which is slower and stores T·N·L. "implicit" needs q^T alone, which must be a
    fixed point.
    """
    differentiates = torch.is_grad_enabled() and any(each.requires_grad for each in (scores, *parts, *shapes, *weights))
    widths_change = torch.is_grad_enabled() and any(each.requires_grad for each in shapes)
    log_q: Tensor = _forward_op(
        scores,
        list(parts),
        list(shapes),
        list(weights),
        present,
        None if spacing is None else [step for each in spacing for step in each],
        options,
        adjoint,
        differentiates,
        not widths_change,
    )[0]
    return log_q


def _forward(
    scores: Tensor,
    parts: list[Tensor],
    shapes: list[Tensor],
    weights: list[Tensor],
    present: Tensor | None,
    spacing: list[float] | None,
    options: str,
    adjoint: str,
    differentiates: bool,
    cached: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    settings = OpOptions.decode(options)
    stores, implicit = differentiates and adjoint == "store", adjoint == "implicit"
    batch = BatchTerms(scores, parts, shapes, weights, present, spacing, settings, cached)
    f = scores.detach().contiguous().flatten(2).numpy()
    images, num_classes, points = f.shape
    iterations, convergent = settings.options.iterations, _is_convergent(batch)
    log_q = new_array(*f.shape)
    states = new_array(images if stores else 0, iterations, state_floats(points, num_classes))

    def infer(item: int) -> float:
        changes = np.zeros(iterations, np.float32) if implicit else None
        done = native_mean_field(
            batch.items[item],
            f[item],
            iterations,
            batch.threads,
            convergent=convergent,
            log_marginals=log_q[item],
            states=states[item] if stores else None,
            residuals=changes,
            tolerance=STOP_CHANGE[f.dtype] if implicit else None,
            order=batch.order,
        )
        return float(changes[done - 1]) if changes is not None and done else 0.0

    change = max(batch.each(infer), default=0.0)
    if implicit and differentiates:
        warn_of_change(change, settings.options, batch.items[0] if batch.items else [])
    return torch.from_numpy(log_q.reshape(scores.shape)), torch.from_numpy(states), ticket_of(batch)


def _is_convergent(batch: BatchTerms) -> bool:
    """Whether programs are solved; raises if the terms do not allow it."""
    if batch.settings.options.inference != "convergent":
        return False
    for terms in batch.items[:1]:  # weights and normalizations are those of all items
        check_convergent(terms)
    return True


def _backward(
    cotangent: Tensor,
    log_q: Tensor,
    states: Tensor,
    ticket: Tensor,
    scores: Tensor,
    parts: list[Tensor],
    shapes: list[Tensor],
    weights: list[Tensor],
    present: Tensor | None,
    spacing: list[float] | None,
    options: str,
    implicit: bool,
    wanted: list[bool],  # of all parts, then of all shapes, then of all weights
) -> list[Tensor]:
    settings = OpOptions.decode(options)
    found = live.get(int(ticket))
    if found is None or found.size != tuple(scores.shape):
        found = BatchTerms(scores, parts, shapes, weights, present, spacing, settings, cached=False)
    batch = found
    kernels, iterations = settings.kernels, settings.options.iterations
    to_parts, of_shapes, of_weights = _split(wanted, (len(parts), len(shapes), len(weights)))
    of_parts = dict(zip(settings.names, to_parts, strict=True))
    wants = [
        Wanted(of_weights[m], of_shapes[m], any(of_parts.get(name, False) for name in kernel.parts))
        for m, kernel in enumerate(kernels)
    ]
    c, log_marginals = (each.contiguous().flatten(2).numpy() for each in (cotangent, log_q))
    to_scores = new_array(*c.shape)
    convergent = settings.options.inference == "convergent"
    normalizations = [kernel.normalization for kernel in kernels]
    # Recomputed states exist for one image at a time, which then has all threads.
    recomputes = len(states) == 0
    threads = batch.all_threads if recomputes else batch.threads
    f = scores.detach().contiguous().flatten(2).numpy() if recomputes else None

    def track(item: int) -> list[KernelGradient]:
        terms = batch.items[item]
        if implicit and iterations:
            return native_implicit_back_track(
                terms, normalizations, wants, c[item], log_marginals[item], threads, to_scores[item], batch.order
            )
        if f is None:
            stored = states[item].numpy()
        else:
            stored = new_array(iterations, state_floats(c.shape[2], c.shape[1]))
            native_mean_field(
                terms, f[item], iterations, threads, convergent=convergent, states=stored, order=batch.order
            )
        return native_back_track(
            terms,
            normalizations,
            wants,
            c[item],
            log_marginals[item],
            stored,
            threads,
            convergent=convergent,
            out=to_scores[item],
            order=batch.order,
        )[1]

    per_item = [track(item) for item in range(len(c))] if recomputes else batch.each(track)
    per_kernel = [[gradients[m] for gradients in per_item] for m in range(len(kernels))]
    return [
        torch.from_numpy(to_scores.reshape(scores.shape)),
        *_to_parts(per_kernel, parts, shapes, batch, of_parts),
        *[_to_shape(per_kernel[m], shapes[m]) if of_shapes[m] else torch.empty(0) for m in range(len(kernels))],
        *[_to_weight(per_kernel[m], weights[m]) if of_weights[m] else torch.empty(0) for m in range(len(kernels))],
    ]


def _to_parts(
    gradients: list[list[KernelGradient]],
    parts: list[Tensor],
    shapes: list[Tensor],
    batch: BatchTerms,
    wanted: dict[str, bool],
) -> list[Tensor]:
    """Gradients with respect to the features p before scaling, from those of x = p/σ or W p in pixel order."""
    found = {
        name: torch.zeros_like(part, memory_format=torch.contiguous_format) if wanted[name] else torch.empty(0)
        for name, part in zip(batch.settings.names, parts, strict=True)
    }
    sizes = {name: part.shape[1] for name, part in zip(batch.settings.names, parts, strict=True)}
    for m, kernel in enumerate(batch.settings.kernels):
        if not any(wanted.get(name, False) for name in kernel.parts):
            continue
        shape = shapes[m].float()
        for item, each in enumerate(gradients[m]):
            slopes = torch.from_numpy(each.features)
            slopes = slopes / shape if shape.ndim == 1 else slopes @ shape
            if batch.order is not None:
                slopes = slopes[torch.from_numpy(batch.order.inverse)]
            first = 0
            for name in kernel.parts:
                last = first + sizes.get(name, len(batch.size) - 2)
                if wanted.get(name, False):
                    target = found[name]
                    target[item if len(target) > 1 else 0] += slopes[:, first:last].T.reshape(target.shape[1:])
                first = last
    return list(found.values())


def _to_shape(gradients: list[KernelGradient], shape: Tensor) -> Tensor:
    """From the second moments to widths σ or to W."""
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


_forward_op = torch.library.custom_op("densefield::mean_field", _forward, mutates_args=(), device_types="cpu")
_backward_op = torch.library.custom_op("densefield::back_track", _backward, mutates_args=(), device_types="cpu")


@_forward_op.register_fake
def _(scores: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    *_, options, adjoint, differentiates, _ = arguments
    images, num_classes, *grid = scores.shape
    iterations = OpOptions.decode(options).options.iterations
    stored = images if differentiates and adjoint == "store" else 0
    states = scores.new_empty(stored, iterations, state_floats(math.prod(grid), num_classes))
    log_q = torch.empty_like(scores, memory_format=torch.contiguous_format)
    return log_q, states, scores.new_empty(1, dtype=torch.int64)


@_backward_op.register_fake
def _(cotangent: Tensor, *arguments: Any) -> list[Tensor]:
    parts, shapes, weights = arguments[4:7]
    likes = [*parts, *shapes, *weights]
    return [
        torch.empty_like(cotangent, memory_format=torch.contiguous_format),
        *(
            torch.empty_like(like, memory_format=torch.contiguous_format) if want else like.new_empty(0)
            for like, want in zip(likes, arguments[-1], strict=True)
        ),
    ]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    scores, parts, shapes, weights, present, ctx.spacing, ctx.options, adjoint, _, _ = inputs
    ctx.implicit = adjoint == "implicit"
    log_q, states, ticket = output
    ctx.mark_non_differentiable(states, ticket)
    ctx.set_materialize_grads(False)
    ctx.counts = len(parts), len(shapes), len(weights)
    ctx.save_for_backward(log_q, states, ticket, scores, present, *parts, *shapes, *weights)


def _differentiate(ctx: Any, cotangent: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
    rest = (None,) * 6
    if cotangent is None:
        return (None, *([None] * count for count in ctx.counts), *rest)
    if not torch.compiler.is_compiling() and is_transformed(cotangent):
        raise NotImplementedError(
            "mean field takes one cotangent at a time: call torch.autograd.grad once for each, without "
            "is_grads_batched=True and vectorize=True."
        )
    log_q, states, ticket, scores, present, *tensors = ctx.saved_tensors
    groups = _split(tensors, ctx.counts)
    wanted = [bool(need) for group in ctx.needs_input_grad[1:4] for need in group]
    to_scores, *slopes = _backward_op(
        cotangent, log_q, states, ticket, scores, *groups, present, ctx.spacing, ctx.options, ctx.implicit, wanted
    )
    found = [slope if want else None for slope, want in zip(slopes, wanted, strict=True)]
    return (to_scores, *_split(found, ctx.counts), *rest)


def _split(values: list[Any], counts: Sequence[int]) -> list[list[Any]]:
    ends = list(itertools.accumulate(counts))
    return [values[end - count : end] for end, count in zip(ends, counts, strict=True)]


_forward_op.register_autograd(_differentiate, setup_context=_setup_context)


def _refuse(ctx: Any, *cotangents: object) -> None:
    raise NotImplementedError(SECOND_DERIVATIVES)


_backward_op.register_autograd(_refuse)
