"""The interface of Gaussian filters, and the checks of their arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.errors import FeatureSpanError, InputError, InputTypeError
from densefield.filters.lattice_design import MAX_DIMENSION

A = TypeVar("A")  # numpy.ndarray or torch.Tensor
Array = npt.NDArray[Any]
Float32 = npt.NDArray[np.float32]

Method = Literal["lattice", "exact"]
Derivative = Literal["gaussian", "lattice"]

DENSE_LIMIT = 20_000  # points; their matrix takes 1.6 GB in float32


class GaussianFilter(ABC, Generic[A]):
    """The N×N kernel matrix K with k(i,j) ≈ exp(-½‖x_i - x_j‖²), as a linear operator on values.

    Features x are (N, d), already divided by the kernel's widths. Values are (N, C), or (B, N, C) for a batch filtered
    by the same K. A filter copies its features, so later changes of the array do not affect it.

    >>> import numpy as np
    >>> from densefield.filters import ExactFilter
    >>> k = ExactFilter(np.array([[0.0], [1.0]]))
    >>> k.num_points, k.dimension, k.to_dense().round(4).tolist()
    (2, 1, [[1.0, 0.6065], [0.6065, 1.0]])
    """

    _features: Any  # (N, d)

    @property
    def num_points(self) -> int:
        """N, the number of points."""
        return int(self._features.shape[0])

    @property
    def dimension(self) -> int:
        """d, the number of features of a point."""
        return int(self._features.shape[1])

    def apply(self, values: A, out: A | None = None) -> A:
        """Return K v.

        Parameters
        ----------
        values
            (N, C) or (B, N, C).
        out
            An array like `values` for the result, which may not share memory with them; a new one if None.

        >>> import numpy as np
        >>> from densefield.filters import LatticeFilter
        >>> LatticeFilter(np.zeros((3, 2))).apply(np.ones((3, 1), np.float32)).round(2).tolist()
        [[3.0], [3.0], [3.0]]
        """
        return self._filter(values, out, adjoint=False)

    def apply_adjoint(self, values: A, out: A | None = None) -> A:
        """Return Kᵀ v, which equals K v unless the operator is "pydensecrf"; parameters are those of `apply`."""
        return self._filter(values, out, adjoint=True)

    @abstractmethod
    def _filter(self, values: A, out: A | None, *, adjoint: bool) -> A:
        """K v, or Kᵀ v, in `out` if given."""

    @abstractmethod
    def gradients(self, cotangent: A, values: A, derivative: Derivative = "gaussian") -> tuple[A, A]:
        """Return the gradients Kᵀ g by values and ∂⟨g, K v⟩/∂x by features, (…, N, C) and (N, d).

        Parameters
        ----------
        cotangent
            g, of the shape of `values`.
        values
            v, (N, C) or (B, N, C).
        derivative
            "gaussian" differentiates the Gaussian and evaluates the sums by this filter. "lattice" differentiates the
            function that the lattice computes: cheaper, exact inside each simplex, but farther from the Gaussian's
            derivative.
        """

    @abstractmethod
    def diagonal(self) -> A:
        """Return k(i,i) of this approximation, (N,)."""

    def identity(self, first: int, last: int) -> A:
        """Return columns `first` to `last` - 1 of the N×N unit matrix, in this filter's array type."""
        columns = 0 * self._features[:, :1] + 0 * self._features[first:last, 0]
        columns[range(first, last), range(last - first)] = 1
        return columns  # type: ignore[no-any-return]

    def to_dense(self) -> A:
        """Return the matrix K, (N, N), for N up to 20,000."""
        if self.num_points > DENSE_LIMIT:
            raise InputError(
                f"to_dense() of {self.num_points} points would hold {self.num_points**2:.1e} numbers; "
                f"at most {DENSE_LIMIT} points are made dense. Use apply() on the columns you need."
            )
        return self.apply(self.identity(0, self.num_points))


def checked_features(features: object) -> Array:
    """Features as a C-contiguous (N, d) array of float32 or float64; NaN and infinity are not looked for."""
    if not isinstance(features, np.ndarray):
        raise InputTypeError(
            f"features are of type {type(features).__name__}, expected a numpy array (N, d). "
            "Use numpy.asarray(features), or densefield.filters.gaussian_filter for torch tensors."
        )
    if features.dtype not in (np.float32, np.float64):
        raise InputTypeError(
            f"features have dtype {features.dtype}, expected float32 or float64. "
            "Divide positions and colours by the kernel's widths; the result is floating point."
        )
    check_feature_shape(features.shape)
    return np.ascontiguousarray(features)


def check_feature_shape(shape: tuple[int, ...]) -> None:
    """Raise unless the shape is (N, d) with d from 1 to 16."""
    if len(shape) != 2:
        raise InputError(
            f"features have shape {tuple(shape)}, expected (N, d): one row per point. "
            "Use features.reshape(-1, d) for an image of features."
        )
    if not 1 <= shape[1] <= MAX_DIMENSION:
        raise InputError(
            f"features have {shape[1]} dimensions (shape {tuple(shape)}), expected 1 to {MAX_DIMENSION}. "
            + ("Are the axes swapped? Features are (N, d)." if shape[1] > MAX_DIMENSION else "")
        )


def check_finite(features: Array) -> None:
    """Raise, naming the first point, if features contain NaN or infinity."""
    finite = np.isfinite(features).all(axis=1)
    if not finite.all():
        point = int(np.argmin(finite))
        raise FeatureSpanError(
            f"features hold NaN or infinity at {int((~finite).sum())} of {len(features)} points, "
            f"first at point {point}: {features[point].tolist()}. Widths must be positive and images finite."
        )


def check_value_shape(shape: tuple[int, ...], num_points: int) -> None:
    """Raise unless the shape is (N, C) or (B, N, C)."""
    if len(shape) not in (2, 3) or shape[-2] != num_points:
        hint = ""
        if len(shape) == 1 and shape[0] == num_points:
            hint = " Use values[:, None] for one channel."
        elif len(shape) == 2 and shape[1] == num_points:
            hint = " Are the axes swapped? Use values.T."
        raise InputError(f"values have shape {tuple(shape)}, expected ({num_points}, C) or (B, {num_points}, C).{hint}")


def checked_values(values: object, num_points: int, name: str = "values") -> Float32:
    """Values as a C-contiguous (B, N, C) array of float32."""
    if not isinstance(values, np.ndarray):
        raise InputTypeError(
            f"{name} are of type {type(values).__name__}, expected a numpy array. Use numpy.asarray({name}), "
            "or densefield.filters.gaussian_filter for torch tensors."
        )
    if values.dtype != np.float32:
        raise InputTypeError(
            f"{name} have dtype {values.dtype}, expected float32. Use {name}.astype(numpy.float32), "
            "or ExactFilter for float64."
        )
    check_value_shape(values.shape, num_points)
    array = np.ascontiguousarray(values)
    return array if array.ndim == 3 else array[None]


def check_derivative(derivative: str) -> None:
    """Raise for an unknown derivative."""
    if derivative not in get_args(Derivative):
        raise InputError(f"derivative is {derivative!r}, expected one of {', '.join(get_args(Derivative))}.")


def check_same_shape(cotangent: tuple[int, ...], values: tuple[int, ...]) -> None:
    """Raise unless the cotangent has the shape of the values."""
    if cotangent != values:
        raise InputError(f"the cotangent has shape {cotangent}, expected that of the values, {values}.")


def check_simd(simd: str) -> None:
    """Raise for an instruction set that this processor does not support."""
    known = ["auto", *_core.available_simd()]
    if simd not in known:
        raise InputError(f"simd is {simd!r}, expected one that this processor runs: {', '.join(known)}.")


def check_out(out: Any, values: Any) -> None:
    """Raise unless `out` is a contiguous, writable array or tensor like the values that shares no memory with them."""
    kind: Any = np.ndarray if isinstance(values, np.ndarray) else type(values)
    if not isinstance(out, kind) or out.dtype != values.dtype:
        raise InputTypeError(
            f"out is {getattr(out, 'dtype', type(out).__name__)}, expected {values.dtype} in the same kind of array "
            "as the values."
        )
    if out.shape != values.shape:
        raise InputError(f"out has shape {tuple(out.shape)}, expected that of the values, {tuple(values.shape)}.")
    if kind is np.ndarray:
        usable, shared = out.flags.c_contiguous and out.flags.writeable, np.may_share_memory(out, values)
    else:
        memory = [each.untyped_storage().data_ptr() for each in (out, values)]
        usable, shared = out.is_contiguous(), out.numel() > 0 and memory[0] == memory[1]
    if not usable:
        raise InputError("out must be C-contiguous and writable. Leave it out to get a new array.")
    if shared:
        raise InputError("out shares memory with the values. Give it memory of its own, or leave it out.")
