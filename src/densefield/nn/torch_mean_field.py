"""Mean field of a whole batch in torch operations, on any device, with back-tracking written by hand (paper, Learning).

All images are one lattice, so the number of operations does not depend on the number of images. `reference` is the
readable twin, image by image, in which autograd finds the gradients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from densefield.crf.implicit import RESIDUAL, STOP_CHANGE, warn_of_change, warn_of_residual
from densefield.crf.kernels import Normalization
from densefield.crf.linear_solver import solve_linear
from densefield.crf.options import CRFOptions
from densefield.filters.torch_modes import forbid_second_derivatives, is_transformed
from densefield.nn.hand_over import without_autocast
from densefield.nn.inference import Adjoint, numpy_dtype
from densefield.nn.programs import check_convergent_terms, numpy_terms, program_slope, solve_programs
from densefield.nn.torch_terms import BatchTerm, KernelSums, bind_batch

_FIXED = 5  # arguments of _MeanField before the scores


def torch_mean_field(
    scores: Tensor,  # (B, L, N)
    features: Sequence[Tensor],  # per kernel (B, N, d), or (1, N, d) for all images: positions, colours, …
    shapes: Sequence[Tensor],  # per kernel widths (d,), features become p/σ; or a matrix W (d, d), they become W p
    weights: Sequence[Tensor],  # per kernel μ: (), (L,) or (L, L)
    normalizations: Sequence[Normalization],
    options: CRFOptions,
    present: Tensor | None = None,  # (B, N): 0 for ignored pixels, 1 for others
    adjoint: Adjoint = "store",
) -> Tensor:
    """log q^T of T iterations, (B, L, N), with gradients to scores, features, shapes and weights (paper, Eq. 5).

    Back-tracking needs q⁰ … q^(T-1). "store" keeps them and the lattices from the forward pass; "recompute" repeats the
    forward pass of one image at a time, with lattices of its own. "implicit" keeps the lattices: the last marginals are
    a fixed point, and one linear system for the batch gives the gradient.

    >>> import torch
    >>> scores = torch.tensor([[[2.0, 0.0], [0.0, 0.5]]])  # two classes, two pixels close together
    >>> positions, width, weight = torch.tensor([[[0.0], [1.0]]]), torch.tensor([5.0]), torch.tensor(3.0)
    >>> torch_mean_field(scores, [positions], [width], [weight], ["after"], CRFOptions()).argmax(1)
    tensor([[0, 0]])
    """
    if scores.numel() == 0:
        zero = sum((each.sum() for each in (*features, *shapes, *weights)), scores.new_zeros(())) * 0
        return scores.log_softmax(1) + zero.to(scores.dtype)  # with gradients, which are zero
    result: Tensor = _MeanField.apply(  # type: ignore[no-untyped-call]
        present, normalizations, options, adjoint, torch.is_grad_enabled(), scores, *features, *shapes, *weights
    )
    return result


@dataclass(frozen=True)
class _Problem:
    """A batch of images: tensors without a graph in the precision of the scores, and what has no gradient."""

    scores: Tensor  # (B, L, N)
    features: Sequence[Tensor]
    shapes: Sequence[Tensor]
    weights: Sequence[Tensor]
    present: Tensor | None
    normalizations: Sequence[Normalization]
    options: CRFOptions

    def image(self, number: int) -> _Problem:
        """One image, as a batch of one."""

        def only(each: Tensor) -> Tensor:
            return each if len(each) == 1 else each[number : number + 1]

        present = None if self.present is None else only(self.present)
        return replace(self, scores=only(self.scores), features=[only(p) for p in self.features], present=present)

    def programs(self, terms: Sequence[BatchTerm]) -> list[tuple[Tensor, Tensor]]:
        """K̂(i,i) and μ of the convex programs of convergent inference; none if its update is the parallel one."""
        if self.options.inference != "convergent":
            return []
        return [(term.own, term.mu) for term in terms if term.own is not None]

    def bind(self) -> list[BatchTerm]:
        """The pairwise terms of all kernels."""
        images, _, points = self.scores.shape
        present = self.scores.new_ones(images * points, 1)
        if self.present is not None:
            present = self.present.reshape(-1, 1).to(present)
        kernels = zip(self.features, self.shapes, self.weights, self.normalizations, strict=True)
        terms = [
            bind_batch(_scaled(p, shape), images, normalization, mu, self.options, present)
            for p, shape, mu, normalization in kernels
        ]
        if self.options.inference == "convergent":
            check_convergent_terms(terms)
        return terms


def mean_field(problem: _Problem, terms: Sequence[BatchTerm], states: list[Tensor] | None) -> Tensor:
    """log q^T, (P, L); q⁰ … q^(T-1) are appended to `states` if given."""
    z = f = _rows(problem.scores)
    for _ in range(problem.options.iterations):
        q = z.softmax(1)
        if states is not None:
            states.append(q)
        z = _next(problem, terms, f, q)
    return z.log_softmax(1)


def fixed_point(problem: _Problem, terms: Sequence[BatchTerm], warns: bool) -> Tensor:
    """log q, (P, L), after up to T iterations; `warns` if the last still changed it."""
    z = f = _rows(problem.scores)
    q, change = z.softmax(1), math.inf
    for _ in range(problem.options.iterations):
        z = _next(problem, terms, f, q)
        last, q = q, z.softmax(1)
        change = float((q - last).abs().max())
        if change <= STOP_CHANGE[numpy_dtype(f)]:
            break
    if warns:
        warn_of_change(change, problem.options, numpy_terms(terms))
    return z.log_softmax(1)


def _next(problem: _Problem, terms: Sequence[BatchTerm], f: Tensor, q: Tensor) -> Tensor:
    """What the next q is the softmax of, (P, L)."""
    own = problem.programs(terms)
    z = f.clone()
    for term in terms:
        (replace(term, own=None) if own else term).add_message(z, q)
    return solve_programs(z, own, q) if own else z


def back_track(
    problem: _Problem,
    terms: Sequence[BatchTerm],
    states: Sequence[Tensor],  # q⁰ … q^(T-1)
    log_q: Tensor,  # (B, L, N)
    cotangent: Tensor,  # (B, L, N)
    wanted: Sequence[bool],  # of all features, then of all shapes, then of all weights
) -> list[Tensor | None]:
    """The gradients by scores, features, shapes and weights; None for those not wanted (paper, Learning)."""
    kernels = len(terms)
    sums = [
        KernelSums(term, features=wanted[m], shape=wanted[kernels + m], weight=wanted[2 * kernels + m])
        for m, term in enumerate(terms)
    ]
    own = problem.programs(terms)
    last = _rows(log_q).exp()
    g = program_slope(_rows(cotangent), last, own if states else ())  # 1. g^T
    solved = last if own else None  # q^t, which what a pixel would send to itself depends on
    del last
    to_scores = g.clone()
    for step, q in enumerate(reversed(states), start=1):  # 2. from g^t to g^(t-1)
        h = torch.zeros_like(g)
        for each in sums:
            each.add(g, q, h, solved)
        g = program_slope(h.mul_(q), q, own if step < len(states) else ())
        to_scores += g  # 3. ∂loss/∂f
        solved = q if own else None
    found: list[Tensor | None] = [_planes(to_scores, problem.scores)]
    for each, p, shape, want in zip(sums, problem.features, problem.shapes, wanted, strict=False):
        found.append(_to_features(each.to_features(), p, shape) if want else None)
    for each, shape, want in zip(sums, problem.shapes, wanted[kernels:], strict=False):
        found.append(_to_shape(each.to_moments(), shape) if want else None)
    found += [each.to_weight() if want else None for each, want in zip(sums, wanted[2 * kernels :], strict=True)]
    return found


def implicit_back_track(
    problem: _Problem, terms: Sequence[BatchTerm], log_q: Tensor, cotangent: Tensor, wanted: Sequence[bool]
) -> list[Tensor | None]:
    """back_track() at a fixed point, after infinitely many iterations: the twin of densefield.crf.implicit.

    Those of convergent inference are the fixed points of the parallel update too.
    """
    problem = replace(problem, options=replace(problem.options, inference="parallel"))
    state, none = [_rows(log_q).exp()], [False] * len(wanted)

    def back(g: Tensor, states: Sequence[Tensor]) -> Tensor:
        (slope, *_) = back_track(problem, terms, states, log_q, g, none)
        assert slope is not None
        return slope

    g = back(cotangent, [])
    tolerance = RESIDUAL[numpy_dtype(g)]
    solution = solve_linear(lambda x: 2 * x - back(x, state), g, tolerance)
    warn_of_residual(solution, tolerance)
    return [solution.x, *back_track(problem, terms, state, log_q, solution.x, wanted)[1:]]


def recomputed_back_track(
    problem: _Problem, log_q: Tensor, cotangent: Tensor, wanted: Sequence[bool]
) -> list[Tensor | None]:
    """back_track() of one image at a time, after a forward pass of its own."""
    found: list[list[Tensor | None]] = []
    for number in range(len(log_q)):
        one = problem.image(number)
        terms, states = one.bind(), list[Tensor]()
        mean_field(one, terms, states)
        here = slice(number, number + 1)
        found.append(back_track(one, terms, states, log_q[here], cotangent[here], wanted))
    kernels = len(problem.features)
    separate = [True, *(len(p) > 1 for p in problem.features), *[False] * (2 * kernels)]
    joined: list[Tensor | None] = []
    for parts, apart in zip(zip(*found, strict=True), separate, strict=True):
        slopes = [part for part in parts if part is not None]
        joined.append(None if not slopes else torch.cat(slopes) if apart else torch.stack(slopes).sum(0))
    return joined


class _MeanField(torch.autograd.Function):
    """Forward mean_field(), backward back_track()."""

    @staticmethod
    def forward(
        ctx: Any,
        present: Tensor | None,
        normalizations: Sequence[Normalization],
        options: CRFOptions,
        adjoint: Adjoint,
        enabled: bool,  # whether gradients are computed, if an input needs one
        scores: Tensor,
        *tensors: Tensor,
    ) -> Tensor:
        ctx.fixed = present, normalizations, options
        problem = _problem(scores, tensors, *ctx.fixed)
        terms, states = problem.bind(), list[Tensor]()
        ctx.implicit = adjoint == "implicit" and options.iterations > 0 and bool(terms)
        ctx.terms = terms if adjoint != "recompute" and any(ctx.needs_input_grad) else None
        if ctx.implicit:
            rows = fixed_point(problem, terms, enabled and any(ctx.needs_input_grad))
        else:
            rows = mean_field(problem, terms, None if ctx.terms is None else states)
        log_q = _planes(rows, scores)
        ctx.save_for_backward(log_q, scores, *tensors, *states)
        return log_q

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, ...]:
        if is_transformed(cotangent):
            raise NotImplementedError(
                "mean field takes one cotangent at a time: call torch.autograd.grad once for each, without "
                "is_grads_batched=True and vectorize=True."
            )
        wanted = ctx.needs_input_grad[_FIXED + 1 :]
        log_q, scores, *saved = ctx.saved_tensors
        tensors, states = saved[: len(wanted)], saved[len(wanted) :]
        problem, c = _problem(scores, tensors, *ctx.fixed), cotangent.detach()
        with without_autocast(c.device):  # which may be active again in the backward pass
            if ctx.terms is None:
                found = recomputed_back_track(problem, log_q, c, wanted)
            elif ctx.implicit:
                found = implicit_back_track(problem, ctx.terms, log_q, c, wanted)
            else:
                found = back_track(problem, ctx.terms, states, log_q, c, wanted)
        slopes = tuple(
            None if slope is None else slope.to(like) for slope, like in zip(found, (scores, *tensors), strict=True)
        )
        return (None,) * _FIXED + forbid_second_derivatives(slopes, cotangent, scores, *tensors)


def _problem(
    scores: Tensor,
    tensors: Sequence[Tensor],  # features, shapes and weights of all kernels
    present: Tensor | None,
    normalizations: Sequence[Normalization],
    options: CRFOptions,
) -> _Problem:
    kernels = len(normalizations)
    features, shapes, weights = (
        [each.detach().to(scores.dtype) for each in tensors[group * kernels : (group + 1) * kernels]]
        for group in range(3)
    )
    return _Problem(scores.detach(), features, shapes, weights, present, normalizations, options)


def _rows(planes: Tensor) -> Tensor:
    """(B, L, N) → (B·N, L)."""
    return planes.detach().transpose(1, 2).reshape(-1, planes.shape[1])


def _planes(rows: Tensor, like: Tensor) -> Tensor:
    """(B·N, L) → (B, L, N)."""
    images, num_classes, points = like.shape
    return rows.reshape(images, points, num_classes).transpose(1, 2).contiguous()


def _scaled(features: Tensor, shape: Tensor) -> Tensor:
    """p/σ or W p, of which the kernel is exp(-½‖x_i - x_j‖²)."""
    return features / shape if shape.ndim == 1 else features @ shape.T


def _to_features(slopes: Tensor, features: Tensor, shape: Tensor) -> Tensor:
    """From ∂loss/∂x (P, d) to features p of the shape (B, N, d) or (1, N, d), with x = p/σ or W p."""
    slopes = slopes / shape if shape.ndim == 1 else slopes @ shape
    by_image = slopes.reshape(-1, *features.shape[1:])
    return by_image if len(features) > 1 else by_image.sum(0, keepdim=True)


def _to_shape(moments: Tensor, shape: Tensor) -> Tensor:
    """From the second moments (d, d), float64 on the CPU, to widths σ or to W."""
    exact = shape.cpu().double()
    return moments.diagonal() / exact if shape.ndim == 1 else -torch.linalg.solve(exact, moments.T).T
