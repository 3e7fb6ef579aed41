"""Label compatibility μ(l, l′): one weight (Potts), one per label, or a symmetric matrix.

All three are scores: positive numbers on the diagonal make similar pixels agree.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from densefield.crf.arrays import checked_numbers
from densefield.errors import InputError

A = TypeVar("A")  # numpy.ndarray or torch.Tensor

Weight = float | npt.ArrayLike  # (), (L,) or (L, L)

MOST_WEIGHT = 1e12  # sums over all pixels, and squares in gradients, stay within single precision


def checked_weight(weight: Weight, num_classes: int | None = None) -> npt.NDArray[np.float64]:
    """The weight as an array: () for Potts, (L,) for one per label, (L, L) for a symmetric matrix.

    >>> checked_weight(3).shape, checked_weight([1.0, 2.0], num_classes=2).shape
    ((), (2,))
    """
    mu = checked_numbers(weight, "the weight", "a number, one per label (L,), or a symmetric matrix (L, L)")
    if mu.ndim > 2 or (mu.ndim == 2 and mu.shape[0] != mu.shape[1]):
        raise InputError(f"the weight has shape {mu.shape}, expected (), (L,) or (L, L).")
    if num_classes is not None and mu.ndim and len(mu) != num_classes:
        raise InputError(
            f"the weight has shape {mu.shape}, which is for {len(mu)} classes, but there are {num_classes}."
        )
    if not np.isfinite(mu).all():
        raise InputError("the weight holds NaN or infinity, expected finite numbers.")
    if (np.abs(mu) > MOST_WEIGHT).any():
        raise InputError(f"the weight holds {np.abs(mu).max():.3g}, expected no number beyond {MOST_WEIGHT:g}.")
    if mu.ndim == 2 and not np.allclose(mu, mu.T, rtol=1e-5, atol=1e-8):
        raise InputError(
            "the weight is a matrix that is not symmetric; a pair of pixels has one score. Use (w + w.T) / 2."
        )
    return (mu + mu.T) / 2 if mu.ndim == 2 else mu


def mix(values: A, mu: Any) -> A:
    """Σ_l′ μ(l, l′) v_il′ for values (…, L) and μ of shape (), (L,) or (L, L).

    >>> import numpy as np
    >>> mix(np.array([[1.0, 2.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])).tolist()
    [[2.0, 1.0]]
    """
    v: Any = values
    result: A = v @ mu.T if mu.ndim == 2 else v * mu
    return result


def is_positive_semidefinite(mu: npt.NDArray[np.floating]) -> bool:
    """Whether μ is positive semi-definite, as convergent inference requires.

    >>> is_positive_semidefinite(np.array([[1.0, -1.0], [-1.0, 1.0]])), is_positive_semidefinite(np.array(-1.0))
    (True, False)
    """
    if mu.ndim < 2:
        return bool((mu >= 0).all())
    values = np.linalg.eigvalsh(mu.astype(np.float64))
    # Rounding may turn an eigenvalue of 0 negative.
    rounding = 4 * len(mu) * float(np.finfo(mu.dtype).eps)
    return bool(values.min() >= -rounding * abs(values).max())
