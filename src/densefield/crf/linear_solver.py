"""Linear systems of implicit gradients: a Krylov method in constant memory, for arrays and tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

A = TypeVar("A")  # numpy.ndarray or torch.Tensor


@dataclass(frozen=True)
class LinearSolution(Generic[A]):
    """x, its relative residual ‖b - M x‖/‖b‖ and the number of products with M."""

    x: A
    residual: float
    products: int


def solve_linear(
    apply: Callable[[A], A], right_hand_side: A, tolerance: float, most_products: int = 500
) -> LinearSolution[A]:
    """M x = b by BiCGSTAB (van der Vorst 1992), for a function that multiplies by M.

    M need not be symmetric. Nine arrays of the size of b are held. The recursion is started again from the true
    residual whenever it ends or breaks down, so that rounding errors do not accumulate; the best x is returned.

    >>> matrix = np.array([[1.0, -0.5], [0.2, 1.0]])
    >>> solve_linear(lambda x: matrix @ x, np.array([1.0, 2.0]), 1e-12).x.round(6).tolist()
    [1.818182, 1.636364]
    """
    b: Any = right_hand_side
    multiply: Callable[[Any], Any] = apply
    size = _norm(b)
    best, least, products = b * 0, 1.0, 0
    if size == 0:
        return LinearSolution(best, 0.0, 0)
    x, r = b * 0, b
    while products < most_products and np.isfinite(least):
        x, used = _run(multiply, x, r, tolerance * size, most_products - products)
        r = b - multiply(x)
        products += used + 1
        residual = _norm(r) / size
        if not residual < least:  # no progress, or not finite
            break
        best, least = x, residual
        if residual <= tolerance:
            break
    return LinearSolution(best, float(least), products)


def _run(multiply: Callable[[Any], Any], x: Any, r: Any, goal: float, most_products: int) -> tuple[Any, int]:
    """x after steps from the residual r, until the residual of the recursion is below the goal; and products used."""
    shadow, p = r, r
    rho = _inner(shadow, r)
    products = 0
    while products + 2 <= most_products:
        v = multiply(p)
        products += 1
        across = _inner(shadow, v)
        if rho == 0 or across == 0:
            break
        alpha = rho / across
        s = r - alpha * v
        t = multiply(s)
        products += 1
        square = _inner(t, t)
        omega = _inner(t, s) / square if square > 0 else 0.0
        x = x + alpha * p + omega * s
        r = s - omega * t
        last, rho = rho, _inner(shadow, r)
        if _norm(r) <= goal or omega == 0 or not np.isfinite(rho):
            break
        p = r + (rho / last * alpha / omega) * (p - omega * v)
    return x, products


def _inner(a: Any, b: Any) -> float:
    if isinstance(a, np.ndarray):
        return float(np.dot(a.ravel(), b.ravel()))
    return float((a * b).sum())


def _norm(a: Any) -> float:
    return float(np.sqrt(_inner(a, a)))
