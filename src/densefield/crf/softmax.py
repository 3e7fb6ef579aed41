"""log softmax over labels, for numpy arrays and torch tensors alike."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

A = TypeVar("A")  # numpy.ndarray or torch.Tensor


def log_softmax(scores: A) -> A:
    """log (exp f_il / Σ_l′ exp f_il′) over the last axis; no score is too large for it.

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
