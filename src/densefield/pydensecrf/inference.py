"""The one place where the drop-in infers: energies (L, N) and kernels in, marginals (L, N) out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from densefield import _core
from densefield.crf.binding import Bound
from densefield.crf.native import native_coupling, native_mean_field, new_array
from densefield.filters.pixel_order import PixelOrder
from densefield.filters.threads import check_threads
from densefield.pydensecrf.buffers import Float32, checked_energies


class Scores:
    """Minus energies (L, N), as inference reads them: in rows, in pixel order if given.

    >>> Scores(np.array([[2.0, 1.0], [3.0, 4.0]], np.float32)).planes().tolist()
    [[-2.0, -1.0], [-3.0, -4.0]]
    """

    def __init__(self, energies: Float32, order: PixelOrder | None = None, threads: int | None = None) -> None:
        self.shape = energies.shape
        self.threads = check_threads(threads)
        self.order = order
        self._native = self._rows(np.ascontiguousarray(energies))
        if not self._native.finite:
            self._native = self._rows(np.ascontiguousarray(checked_energies(energies)))

    def _rows(self, energies: Float32) -> _core.ScoreRows:
        order = None if self.order is None else self.order.native
        return _core.ScoreRows(energies, order, self.threads, "auto")

    def planes(self) -> Float32:
        """(L, N), as the energies were."""
        scores = new_array(*self.shape)
        self._native.fill_scores(scores, self.threads, "auto")
        return scores

    def infer(
        self,
        kernels: Sequence[Bound],
        iterations: int,
        start: Float32 | None = None,  # (L, N): the marginals to begin with; softmax of the scores where there are none
    ) -> Float32:
        """Marginals (L, N) after T parallel updates (paper, Eq. 5).

        >>> Scores(np.array([[0.0, 0.0], [0.0, -9.0]], np.float32)).infer([], 3).round(3).tolist()
        [[0.5, 0.0], [0.5, 1.0]]
        """
        q, threads = new_array(*self.shape), self.threads
        if len(q) > 1 and all(kernel.coupling.is_plain for kernel in kernels):
            couplings = [native_coupling(kernel) for kernel in kernels]
            self._native.infer(couplings, start, iterations, q, threads, "auto")
        else:
            native_mean_field(kernels, self.planes(), iterations, threads, marginals=q, start=start, order=self.order)
        return q

    def kl_divergence(
        self,
        kernels: Sequence[Bound],
        q: Float32,  # (L, N)
    ) -> float:
        """The number that pydensecrf calls so: Σ q log q - Σ q·f - Σ_m Σ_ij q_iᵀ μ_m q_j k̂_m(i,j).

        It lacks log Z, so it is no divergence; and it counts each pair twice, so it is not the free energy either: that
        one is densefield.crf.energy.free_energy, with half the last sum.
        """
        rows = np.ascontiguousarray(q.T if self.order is None else q.T[self.order.indices])
        pairwise = sum(
            float(np.einsum("nl,nl->", rows, kernel.coupling.message(rows), dtype=np.float64)) for kernel in kernels
        )
        log_q = np.log(np.maximum(q, np.float32(1e-20)))  # as there
        return float(np.einsum("ln,ln->", q, log_q - self.planes(), dtype=np.float64)) - pairwise
