"""What inference returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]


@dataclass(frozen=True, repr=False)
class Solution:
    """Marginals of the CRF and how they were reached.

    `marginals` and `log_marginals` are (L, …) over the pixels. `residuals` holds the largest change of a marginal in
    each step; `energies` the free energy G of q⁰, q¹, … where asked for. `converged` says whether the last residual
    is within the tolerance, and is None where none was given.
    """

    marginals: Array
    log_marginals: Array
    steps: int
    residuals: tuple[float, ...]
    energies: tuple[float, ...] | None
    converged: bool | None

    def __repr__(self) -> str:
        labels, *shape = self.marginals.shape
        parts = [f"{labels} labels at {' × '.join(map(str, shape))} pixels", f"{self.steps} steps"]
        if self.residuals:
            parts.append(f"last change {self.residuals[-1]:.2g}")
        if self.energies:
            parts.append(f"free energy {self.energies[-1]:.6g}")
        if self.converged is not None:
            parts.append("converged" if self.converged else "not converged")
        return f"Solution: {', '.join(parts)}"

    @property
    def labels(self) -> npt.NDArray[np.intp]:
        """The most probable label of every pixel."""
        best: npt.NDArray[np.intp] = self.log_marginals.argmax(axis=0)
        return best
