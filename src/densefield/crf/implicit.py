"""Implicit gradients at a fixed point of mean field, by native code: memory does not depend on the iterations.

At a fixed point q = softmax(f + A q), the gradient by the scores is λ with λ = g + S A λ, where g = ∂loss/∂f at
constant messages and S = diag q - q qᵀ for every pixel. It is the sum of back-tracking after infinite iterations. All
other gradients follow from λ by one step of back-tracking. A is without its diagonal if pixels send nothing to
themselves; then the fixed points of convergent inference are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from densefield.crf.convergent import check_convergent
from densefield.crf.kernels import Normalization
from densefield.crf.linear_solver import LinearSolution, solve_linear
from densefield.crf.native import (
    Float32,
    KernelGradient,
    Terms,
    Wanted,
    native_back_track,
    native_mean_field,
    new_array,
    state_floats,
)
from densefield.crf.options import CRFOptions, check_inference
from densefield.crf.pairwise import Pairwise
from densefield.errors import InputError, warn
from densefield.filters.pixel_order import PixelOrder

# Inference stops when no marginal changes by more, and is not called converged if it ends above the second number.
STOP_CHANGE = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-13}
CONVERGED_CHANGE = 1e-4
# Of the relative residual of the linear system.
RESIDUAL = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-11}


def native_implicit_back_track(
    pairwise: Terms,
    normalizations: Sequence[Normalization],
    wanted: Sequence[Wanted],
    cotangent: Float32,  # (L, N): ∂loss/∂log q
    log_marginals: Float32,  # (L, N): of a fixed point
    threads: int,
    out: Float32,  # (L, N), for the gradient with respect to the scores
    order: PixelOrder | None = None,  # of the pixels in the pairwise terms, if not that of the other arrays
) -> list[KernelGradient]:
    """Gradients with respect to the scores and to every kernel at a fixed point."""
    num_classes, points = cotangent.shape
    state = new_array(1, state_floats(points, num_classes))
    marginals = np.exp(log_marginals)
    native_mean_field(pairwise, marginals, 1, threads, start=marginals, states=state, order=order)  # in tiles
    none = [Wanted(False, False, False)] * len(pairwise)

    def back(g: Float32) -> Float32:
        """g + S A g, for g that sum to zero over the classes."""
        return native_back_track(pairwise, normalizations, none, g, log_marginals, state, threads, order=order)[0]

    g = native_back_track(pairwise, normalizations, none, cotangent, log_marginals, state[:0], threads, order=order)[0]
    solution = solve_linear(lambda x: 2 * x - back(x), g, RESIDUAL[g.dtype])
    warn_of_residual(solution, RESIDUAL[g.dtype])
    out[:] = solution.x
    return native_back_track(pairwise, normalizations, wanted, solution.x, log_marginals, state, threads, order=order)[
        1
    ]


def warn_of_change(change: float, options: CRFOptions, pairwise: Sequence[Pairwise[Any]]) -> None:
    """Warns if inference has not converged."""
    if not change <= CONVERGED_CHANGE:
        convergent = "inference='convergent', " if _may_be_convergent(options, pairwise) else ""
        warn(
            f"adjoint='implicit' expects a fixed point, but the last of {options.iterations} iterations changed a "
            f"marginal by {change:.2g}, so gradients are not those of the result. Use more iterations, {convergent}or "
            "adjoint='store'."
        )


def _may_be_convergent(options: CRFOptions, pairwise: Sequence[Pairwise[Any]]) -> bool:
    """Whether convergent inference is possible, and another update."""
    if options.inference == "convergent" or not options.exclude_self:
        return False
    try:
        check_inference("convergent", options)
        check_convergent(pairwise)
    except InputError:
        return False
    return True


def warn_of_residual(solution: LinearSolution[Any], expected: float) -> None:
    """Warns if the linear system is not solved."""
    if not solution.residual <= 10 * expected:  # rounding may end the method above the tolerance
        warn(
            f"the linear system of adjoint='implicit' has a relative residual of {solution.residual:.2g} after "
            f"{solution.products} products, expected {expected:g}, so gradients are inaccurate: the fixed point is not "
            "stable, or close to another. Use adjoint='store'."
        )
