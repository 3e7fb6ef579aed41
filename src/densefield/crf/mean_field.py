"""Mean field as the paper writes it, for any filter and either array library: the twin that the native loop equals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from densefield.crf.coupling import Coupling
from densefield.crf.softmax import exponential, log_softmax

A = TypeVar("A")  # numpy.ndarray or torch.Tensor


@dataclass(frozen=True)
class Step(Generic[A]):
    """The state after one update: marginals (N, L), their logarithms, and the largest change of a marginal."""

    q: A
    log_q: A
    residual: float


def update(
    scores: A,  # (N, L)
    couplings: Sequence[Coupling[A]],
    q: A,  # (N, L)
) -> A:
    """z = f + Σ_m K̂_m q μ_mᵀ, of which the next marginals are the softmax (paper, Eq. 5).

    >>> import numpy as np
    >>> from densefield.crf.coupling import couple
    >>> pair = couple(lambda v: np.ones((2, 2)) @ v, "after", np.array(2.0), np.ones((2, 1)))
    >>> update(np.zeros((2, 2)), [pair], np.array([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    z: Any = scores
    for coupling in couplings:
        z = z + coupling.message(q)
    return z  # type: ignore[no-any-return]


def mean_field(scores: A, couplings: Sequence[Coupling[A]], iterations: int) -> A:
    """log q^T of T parallel updates from q⁰ = softmax(f), (N, L); torch differentiates it (paper, Eq. 5)."""
    log_q = log_softmax(scores)
    for _ in range(iterations):
        log_q = log_softmax(update(scores, couplings, exponential(log_q)))
    return log_q


def mean_field_steps(scores: A, couplings: Sequence[Coupling[A]], damping: float = 0.0) -> Iterator[Step[A]]:
    """q⁰, q¹, q², … without end.

    With damping α the next log marginals are (1-α) of the update and α of the last ones, which calms oscillation
    where compatibility repels.
    """
    log_q: Any = log_softmax(scores)
    q: Any = exponential(log_q)
    yield Step(q, log_q, float("inf"))
    while True:
        z: Any = update(scores, couplings, q)
        log_q = log_softmax(z if damping == 0 else (1 - damping) * z + damping * log_q)
        last, q = q, exponential(log_q)
        yield Step(q, log_q, largest_change(q, last))


def largest_change(q: A, last: A) -> float:
    """max_il of the change of a marginal; 0 where there are no pixels."""
    change: Any = abs(q - last)  # type: ignore[operator]
    return float(change.max()) if len(change) else 0.0
