"""Mean field as in the paper, for NumPy arrays and tensors: the readable twin of the native loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from densefield.crf.pairwise import Pairwise

A = TypeVar("A")  # numpy.ndarray or torch.Tensor

LEAST_LOG = -1e30  # finite, and below the logarithm of any positive float


@dataclass(frozen=True)
class Step(Generic[A]):
    """The state after one iteration: marginals (N, L), their logarithms, and the largest change of a marginal."""

    q: A
    log_q: A
    residual: float


def update(
    scores: A,  # (N, L)
    pairwise: Sequence[Pairwise[A]],
    q: A,  # (N, L)
) -> A:
    """z = f + Σ_m K̂_m q μ_mᵀ, whose softmax is the next q (paper, Eq. 5).

    >>> import numpy as np
    >>> from densefield.crf.pairwise import normalized
    >>> pair = normalized(lambda v: np.ones((2, 2)) @ v, "after", np.array(2.0), np.ones((2, 1)))
    >>> update(np.zeros((2, 2)), [pair], np.array([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    z: Any = scores
    for term in pairwise:
        z = z + term.message(q)
    return z  # type: ignore[no-any-return]


def mean_field(scores: A, pairwise: Sequence[Pairwise[A]], iterations: int) -> A:
    """log q^T of T parallel updates from q⁰ = softmax(f), (N, L); torch differentiates it (paper, Eq. 5)."""
    log_q = log_softmax(scores)
    for _ in range(iterations):
        log_q = log_softmax(update(scores, pairwise, exponential(log_q)))
    return log_q


def mean_field_steps(scores: A, pairwise: Sequence[Pairwise[A]], damping: float = 0.0) -> Iterator[Step[A]]:
    """q⁰, q¹, q², … without end.

    With damping α the next log marginals are 1-α times the update plus α times the last ones. It reduces oscillation
    if compatibilities repel.
    """
    log_q: Any = log_softmax(scores)
    q: Any = exponential(log_q)
    yield Step(q, log_q, float("inf"))
    while True:
        z: Any = update(scores, pairwise, q)
        log_q = log_softmax(z if damping == 0 else (1 - damping) * z + damping * log_q)
        last, q = q, exponential(log_q)
        yield Step(q, log_q, largest_change(q, last))


def largest_change(q: A, last: A) -> float:
    """The largest change of a marginal; 0 if there are no pixels."""
    change: Any = abs(q - last)  # type: ignore[operator]
    return float(change.max()) if len(change) else 0.0


def free_energy(
    q: A,  # (N, L)
    log_q: A,
    scores: A,  # (N, L)
    pairwise: Sequence[Pairwise[A]],
) -> float:
    """G(q) = Σ_i q_i·log q_i - Σ_i q_i·f_i - ½ Σ_ij Σ_m q_iᵀ μ_m q_j k̂_m(i,j) = KL(q‖p) - log Z (paper, Eq. 4).

    The sum is over j ≠ i if the terms exclude their diagonals, else over all j.
    """
    logs: Any = log_q
    negentropy = _inner(q, logs.clip(min=LEAST_LOG))  # q log q is 0 at q = 0, where log q may be -∞
    return negentropy - _inner(q, scores) - sum(_inner(q, term.message(q)) for term in pairwise) / 2


def _inner(a: A, b: A) -> float:
    """Σ a·b; NumPy sums in double precision, which not every torch device has."""
    products: Any = a * b  # type: ignore[operator]
    return float(products.sum(dtype=np.float64) if isinstance(products, np.ndarray) else products.sum())


def log_softmax(scores: A) -> A:
    """log (exp f_il / Σ_l′ exp f_il′) over the last axis, without overflow.

    >>> import numpy as np
    >>> log_softmax(np.array([[1e4, -1e4, 1e4]])).round(4).tolist()
    [[-0.6931, -20000.6931, -0.6931]]
    """
    f: Any = scores
    if not isinstance(scores, np.ndarray):
        result: A = f.log_softmax(-1)
        return result
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))  # type: ignore[no-any-return]


def exponential(values: A) -> A:
    """exp of every element."""
    result: Any = np.exp(values) if isinstance(values, np.ndarray) else values.exp()  # type: ignore[attr-defined]
    return result  # type: ignore[no-any-return]
