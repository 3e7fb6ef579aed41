"""One kernel bound to its points: filtering, normalisation, compatibility."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from densefield.crf.compatibility import mix
from densefield.crf.kernels import Normalization

A = TypeVar("A")  # numpy.ndarray or torch.Tensor
Array = npt.NDArray[Any]

TINY = 1e-20  # added to sums that are divided by, as pydensecrf does


@dataclass(frozen=True)
class Coupling(Generic[A]):
    """A_m = μ ⊗ K̂ of one kernel, K̂ = diag(after) K diag(before), without its diagonal where `own` is given."""

    filtering: Callable[[A], A]  # K v for values (N, L)
    before: A | None  # (N, 1)
    after: A | None  # (N, 1)
    own: A | None  # (N, 1): K̂(i,i), taken away from what a pixel receives
    mu: A  # (), (L,) or (L, L)

    @property
    def is_symmetric(self) -> bool:
        """Whether K̂ is symmetric where K is: the same factors on both sides."""
        return self.before is self.after

    @property
    def is_plain(self) -> bool:
        """Whether the message is K̂ q times one number."""
        mu: Any = self.mu
        return mu.ndim == 0 and self.own is None

    def smooth(self, q: A) -> A:
        """K̂ q for marginals (N, L): the second summand of the update (paper, Eq. 5) before compatibility."""
        values: Any = q
        result: Any = self.filtering(values if self.before is None else values * self.before)
        if self.after is not None:
            result = result * self.after
        if self.own is not None:
            result = result - values * self.own
        return result  # type: ignore[no-any-return]

    def message(self, q: A) -> A:
        """Σ_j Σ_l′ μ(l, l′) k̂(i,j) q_j(l′), (N, L)."""
        return mix(self.smooth(q), self.mu)


def couple(
    filtering: Callable[[A], A],
    normalization: Normalization,
    mu: A,
    present: A,  # (N, 1): 1 for pixels that take part, 0 for those that neither send nor receive
    diagonal: A | None = None,  # (N,): k(i,i), where pixels are to send nothing to themselves
) -> Coupling[A]:
    """Binds a kernel: D = K·1 over the pixels present, and the factors of the normalisation.

    symmetric D^-½ K D^-½, after D⁻¹ K, before K D⁻¹, none K.
    """
    here: Any = present
    before, after = here, here
    if normalization != "none":
        total: Any = filtering(present)
        total = total + TINY
        if normalization == "symmetric":
            # Where no pixel is present the sum may be nothing but rounding, of either sign.
            before = after = here / (here * total + (1 - here)) ** 0.5
        else:
            factor = here / (here * total + (1 - here))
            before, after = (factor, here) if normalization == "before" else (here, factor)
    own: Any = None if diagonal is None else before * after * diagonal[:, None]  # type: ignore[index]
    return Coupling(filtering, before, after, own, mu)


def couple_everyone(
    filtering: Callable[[Array], Array],
    normalization: Normalization,
    mu: Array,
    ones: Array,  # (N, 1)
) -> Coupling[Array]:
    """couple() where every pixel is present, in place: the same numbers in a quarter of the time."""
    if normalization == "none":
        return Coupling(filtering, ones, ones, None, mu)
    factor = filtering(ones)
    factor += TINY
    if normalization == "symmetric":
        np.sqrt(factor, out=factor)
    np.divide(1, factor, out=factor)
    before = ones if normalization == "after" else factor
    after = ones if normalization == "before" else factor
    return Coupling(filtering, before, after, None, mu)
