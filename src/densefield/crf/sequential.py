"""Sequential mean field: the update of the paper as it is written, one variable after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from densefield.crf.compatibility import mix
from densefield.crf.mean_field import Step, largest_change, log_softmax
from densefield.crf.pairwise import Pairwise
from densefield.errors import InputError

Array = npt.NDArray[np.floating]

MOST_POINTS = 20_000  # the kernel matrices take 3.2 GB each in float64


def sequential_steps(
    scores: Array,  # (N, L)
    pairwise: Sequence[Pairwise[Array]],
) -> Iterator[Step[Array]]:
    """q⁰, q¹, q², … without end; an iteration updates every pixel once, in order (paper, Eq. 5).

    Pixel i gets q_i = softmax(f_i + Σ_m μ_m Σ_{j≠i} k̂_m(i,j) q_j) with the newest q_j. For symmetric K̂ it is the
    minimum of the free energy over q_i, so the free energy never rises, whatever the weights. It needs the matrices K̂,
    O(N²) numbers, and a Python loop over pixels: a yardstick for faster updates.

    >>> import numpy as np
    >>> from densefield.crf.pairwise import normalized
    >>> pair = normalized(lambda v: np.ones((2, 2)) @ v, "none", np.array(3.0), np.ones((2, 1)), np.ones(2))
    >>> steps = sequential_steps(np.array([[0.2, 0.0], [0.0, 0.1]]), [pair])
    >>> [next(steps).q[:, 0].round(3).tolist() for _ in range(2)]
    [[0.55, 0.475], [0.513, 0.494]]
    """
    if len(scores) > MOST_POINTS:
        raise InputError(
            f"sequential inference of {len(scores)} pixels needs their kernel matrices, expected at most {MOST_POINTS} "
            "pixels. Use inference='convergent', or a smaller image."
        )
    for number, term in enumerate(pairwise, start=1):
        if term.own is None:
            raise InputError(
                f"sequential inference is for pixels that send nothing to themselves, but kernel {number} of "
                f"{len(pairwise)} has its diagonal. Use exclude_self=True."
            )
    return _update_in_turn(scores, pairwise)


def _update_in_turn(scores: Array, pairwise: Sequence[Pairwise[Array]]) -> Iterator[Step[Array]]:
    log_q = log_softmax(scores)
    q = np.exp(log_q)
    yield Step(q, log_q, float("inf"))
    # K̂ without its diagonal, and μ.
    terms = [(term.smooth(np.eye(len(scores), dtype=scores.dtype)), term.mu) for term in pairwise]
    for matrix, _ in terms:
        np.fill_diagonal(matrix, 0)
    while True:
        last, q, log_q = q, q.copy(), log_q.copy()
        for i, f in enumerate(scores):
            z = f + sum(mix(matrix[i : i + 1] @ q, mu)[0] for matrix, mu in terms)
            log_q[i] = log_softmax(z)
            q[i] = np.exp(log_q[i])
        yield Step(q, log_q, largest_change(q, last))
