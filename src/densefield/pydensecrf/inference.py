"""The one place where the drop-in infers: scores (L, N) and kernels in, marginals (L, N) out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from densefield.crf.binding import Bound
from densefield.crf.native import native_mean_field, new_array
from densefield.crf.walk import Walk
from densefield.filters.threads import default_threads
from densefield.pydensecrf.buffers import Float32


def infer(
    scores: Float32,  # (L, N)
    kernels: Sequence[Bound],
    iterations: int,
    start: Float32 | None = None,  # (L, N): the marginals to begin with; softmax of the scores where there are none
    walk: Walk | None = None,  # in whose order the kernels have the points
) -> Float32:
    """Marginals (L, N) after T parallel updates (paper, Eq. 5).

    >>> infer(np.array([[0.0, 0.0], [0.0, 9.0]], np.float32), [], 3).round(3).tolist()
    [[0.5, 0.0], [0.5, 1.0]]
    """
    q = new_array(*scores.shape)
    native_mean_field(kernels, scores, iterations, default_threads(), marginals=q, start=start, walk=walk)
    return q


def kl_divergence(
    scores: Float32,  # (L, N)
    kernels: Sequence[Bound],
    q: Float32,  # (L, N)
    walk: Walk | None = None,  # in whose order the kernels have the points
) -> float:
    """The number that pydensecrf calls so: Σ q log q - Σ q·f - Σ_m Σ_ij q_iᵀ μ_m q_j k̂_m(i,j).

    It lacks log Z, so it is no divergence; and it counts each pair twice, so it is not the free energy either: that
    one is densefield.crf.energy.free_energy, with half the last sum.
    """
    rows = np.ascontiguousarray(q.T if walk is None else q.T[walk.order])
    pairwise = sum(
        float(np.einsum("nl,nl->", rows, kernel.coupling.message(rows), dtype=np.float64)) for kernel in kernels
    )
    log_q = np.log(np.maximum(q, np.float32(1e-20)))  # as there
    return float(np.einsum("ln,ln->", q, log_q - scores, dtype=np.float64)) - pairwise
