"""The objects that pydensecrf hands out: float32 buffers that numpy reads and writes in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from densefield.pydensecrf.buffers import Float32, checked_buffer


class _Buffer(np.ndarray[Any, np.dtype[np.float32]]):
    """Memory with a shape; what numpy computes from it is an ordinary array, as with pydensecrf's buffers."""

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return np.asarray(array)[()]

    def __array_function__(
        self, function: Callable[..., Any], types: Iterable[type], arguments: Any, options: Mapping[str, Any]
    ) -> Any:
        result = super().__array_function__(function, types, arguments, options)
        return np.asarray(result) if isinstance(result, _Buffer) else result


class MatrixXf(_Buffer):
    """Marginals (L, N) as inference returns them; empty unless made from an array.

    >>> q = matrixXf(np.array([[0.25, 0.5], [0.75, 0.5]], np.float32))
    >>> q.shape, memoryview(q).format, type(np.array(q)).__name__, np.argmax(q, axis=0).tolist()
    ((2, 2), 'f', 'ndarray', [1, 0])
    """

    def __new__(cls, array: Float32 | None = None) -> MatrixXf:
        """A view of the array."""
        return (np.empty((0, 0), np.float32) if array is None else array).view(cls)


class VectorXf(_Buffer):
    """A vector; empty unless made from an array."""

    def __new__(cls, array: Float32 | None = None) -> VectorXf:
        """A view of the array."""
        return (np.empty(0, np.float32) if array is None else array).view(cls)


def matrixXf(arr: object) -> MatrixXf:
    """A copy of a float32 array of two axes."""
    return MatrixXf(checked_buffer(arr, "arr", ("rows", "columns")).copy())


def vectorXf(arr: object) -> VectorXf:
    """A copy of a float32 array of one axis.

    >>> np.asarray(vectorXf(np.ones(3, np.float32))).tolist()
    [1.0, 1.0, 1.0]
    """
    return VectorXf(checked_buffer(arr, "arr", ("elements",)).copy())
