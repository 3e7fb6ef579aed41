"""The exact O(N²) Gaussian sum, with which approximations are compared."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Generic, TypeVar

import numpy as np

from densefield.errors import InputError, InputTypeError
from densefield.filters.operator import (
    Derivative,
    GaussianFilter,
    check_feature_shape,
    check_finite,
    check_out,
    check_same_shape,
    check_value_shape,
)

A = TypeVar("A")  # numpy.ndarray or torch.Tensor

_BLOCK_BYTES = 1 << 26  # of one block of rows of the kernel matrix


class ExactFilter(GaussianFilter[A], Generic[A]):
    """K v = Σ_j exp(-½‖x_i - x_j‖²) v_j, summed over all pairs in O(N²).

    N = 20,000 takes seconds and less than 1 GB. Values are arrays of the type and dtype of the features.

    Parameters
    ----------
    features
        (N, d) numpy array or torch tensor, float32 or float64, already divided by the kernel's widths.

    >>> import numpy as np
    >>> ExactFilter(np.array([[0.0], [1.0]])).apply(np.array([[1.0], [0.0]])).round(4).tolist()
    [[1.0], [0.6065]]
    """

    def __init__(self, features: A) -> None:
        self._xp = _library(features)
        array: Any = features
        if array.dtype not in (self._xp.float32, self._xp.float64):
            raise InputTypeError(f"features have dtype {array.dtype}, expected float32 or float64.")
        check_feature_shape(tuple(array.shape))
        self._features = array.copy() if self._xp is np else array.detach().clone()
        check_finite(self._features if self._xp is np else self._features.cpu().numpy())

    def _filter(self, values: A, out: A | None, *, adjoint: bool) -> A:
        batch = self._checked(values, "values")
        if out is not None:
            check_out(out, values)
        result: Any = self._xp.empty_like(batch) if out is None else out
        for rows in self._blocks():
            result[..., rows, :] = self._kernel(rows) @ batch
        return result  # type: ignore[no-any-return]

    def diagonal(self) -> A:
        """Return k(i,i) = 1, (N,)."""
        return self._xp.ones_like(self._features[:, 0])  # type: ignore[no-any-return]

    def gradients(self, cotangent: A, values: A, derivative: Derivative = "gaussian") -> tuple[A, A]:
        """Return Kᵀ g and ∂⟨g, K v⟩/∂x_i = -Σ_j (g_i·v_j + v_i·g_j) k(i,j) (x_i - x_j)."""
        if derivative != "gaussian":
            raise InputError(f"derivative is {derivative!r}, but an exact filter has no lattice: use 'gaussian'.")
        v: Any = self._checked(values, "values")
        g: Any = self._checked(cotangent, "the cotangent")
        check_same_shape(tuple(g.shape), tuple(v.shape))
        x = self._features
        if len(x):  # differences do not depend on the origin; near it rounding errors are smaller
            x = x - x.mean(0)
        v_rows, g_rows = (a if a.ndim == 3 else a[None] for a in (v, g))
        back, slope = self._xp.empty_like(g), self._xp.empty_like(x)
        for rows in self._blocks():
            kernel = self._kernel(rows)
            back[..., rows, :] = kernel @ g
            coupling = self._xp.zeros_like(kernel)  # Σ over the batch of g_i·v_j + v_i·g_j
            for v_item, g_item in zip(v_rows, g_rows, strict=True):
                coupling += g_item[rows] @ v_item.T + v_item[rows] @ g_item.T
            coupling *= kernel
            slope[rows] = coupling @ x - coupling.sum(-1)[:, None] * x[rows]
        return back, slope

    def _kernel(self, rows: slice) -> Any:
        """exp(-½‖x_i - x_j‖²) for i in rows and every j, from differences to avoid cancellation."""
        x = self._features
        distance = self._xp.zeros_like(x[rows, :1]) + self._xp.zeros_like(x[:, 0])
        for axis in range(x.shape[1]):
            difference = x[rows, axis, None] - x[None, :, axis]
            difference *= difference
            distance += difference
        distance *= -0.5
        return self._xp.exp(distance)

    def _blocks(self) -> list[slice]:
        size = max(1, _BLOCK_BYTES // (8 * max(self.num_points, 1)))
        return [slice(first, min(first + size, self.num_points)) for first in range(0, self.num_points, size)]

    def _checked(self, values: A, name: str) -> Any:
        if _library(values) is not self._xp:
            raise InputTypeError(
                f"{name} are of type {type(values).__name__} but the features of type {type(self._features).__name__}: "
                "give both as numpy arrays or both as torch tensors."
            )
        array: Any = values
        if array.dtype != self._features.dtype:
            raise InputTypeError(
                f"{name} have dtype {array.dtype} but the features {self._features.dtype}: convert one to the other's."
            )
        check_value_shape(tuple(array.shape), self.num_points)
        return array


def _library(array: object) -> ModuleType:
    """The module numpy for an array, torch for a tensor, without importing torch."""
    if isinstance(array, np.ndarray):
        return np
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return torch
    raise InputTypeError(f"got an object of type {type(array).__name__}, expected a numpy array or a torch tensor.")
