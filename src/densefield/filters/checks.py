"""Checks at the boundary: what came, what was expected, what to do."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.errors import InputError, InputTypeError
from densefield.filters.lattice_design import MAX_DIMENSION
from densefield.filters.operator import Derivative

Array = npt.NDArray[Any]


def checked_features(features: object) -> Array:
    """Features as a C-contiguous (N, d) array of float32 or float64; their values are not looked at."""
    if not isinstance(features, np.ndarray):
        raise InputTypeError(
            f"features are a {type(features).__name__}, expected a numpy array (N, d). "
            "Use numpy.asarray(features), or densefield.gaussian_filter for torch tensors."
        )
    if features.dtype not in (np.float32, np.float64):
        raise InputTypeError(
            f"features have dtype {features.dtype}, expected float32 or float64. "
            "Divide positions and colours by the kernel's widths; the result is floating point."
        )
    check_feature_shape(features.shape)
    return np.ascontiguousarray(features)


def check_feature_shape(shape: tuple[int, ...]) -> None:
    """Raises unless the shape is (N, d) with d from 1 to 16."""
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
    """Raises, and says where, if features hold NaN or infinity."""
    finite = np.isfinite(features).all(axis=1)
    if not finite.all():
        point = int(np.argmin(finite))
        raise InputError(
            f"features hold NaN or infinity at {int((~finite).sum())} of {len(features)} points, "
            f"first at point {point}: {features[point].tolist()}. Widths must be positive and images finite."
        )


def check_value_shape(shape: tuple[int, ...], num_points: int) -> None:
    """Raises unless the shape is (N, C) or (B, N, C)."""
    if len(shape) not in (2, 3) or shape[-2] != num_points:
        hint = ""
        if len(shape) == 1 and shape[0] == num_points:
            hint = " Use values[:, None] for one channel."
        elif len(shape) == 2 and shape[1] == num_points:
            hint = " Are the axes swapped? Use values.T."
        raise InputError(f"values have shape {tuple(shape)}, expected ({num_points}, C) or (B, {num_points}, C).{hint}")


def checked_values(values: object, num_points: int, name: str = "values") -> npt.NDArray[np.float32]:
    """Values as a C-contiguous (B, N, C) array of float32."""
    if not isinstance(values, np.ndarray):
        raise InputTypeError(
            f"{name} are a {type(values).__name__}, expected a numpy array. Use numpy.asarray({name}), "
            "or densefield.gaussian_filter for torch tensors."
        )
    if values.dtype != np.float32:
        raise InputTypeError(
            f"{name} have dtype {values.dtype}, expected float32. Use {name}.astype(numpy.float32), "
            "or ExactFilter for float64."
        )
    check_value_shape(values.shape, num_points)
    array = np.ascontiguousarray(values)
    return array if array.ndim == 3 else array[None]


def check_pair(
    values: Array, cotangent: Array, num_points: int, derivative: str
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Values and cotangent of equal shape as (B, N, C), for a derivative that there is."""
    check_derivative(derivative)
    pair = checked_values(values, num_points), checked_values(cotangent, num_points, "the cotangent")
    check_same_shape(tuple(cotangent.shape), tuple(values.shape))
    return pair


def check_derivative(derivative: str) -> None:
    """Raises for a derivative that there is not."""
    if derivative not in get_args(Derivative):
        raise InputError(f"derivative is {derivative!r}, expected one of {', '.join(get_args(Derivative))}.")


def check_same_shape(cotangent: tuple[int, ...], values: tuple[int, ...]) -> None:
    """Raises unless both are the same."""
    if cotangent != values:
        raise InputError(f"the cotangent has shape {cotangent}, expected that of the values, {values}.")


def check_simd(simd: str) -> None:
    """Raises for an instruction set that this processor does not run."""
    known = ["auto", *_core.available_simd()]
    if simd not in known:
        raise InputError(f"simd is {simd!r}, expected one that this processor runs: {', '.join(known)}.")


def checked_out(out: Array | None, values: Array) -> Array:
    """`out` if it can take the result for `values`, a new array where it is None."""
    if out is None:
        return np.empty(values.shape, values.dtype)
    check_out(out, values)
    return out


def check_out(out: Any, values: Any) -> None:
    """Raises unless `out` is an array or tensor like the values, contiguous, writable, and with memory of its own."""
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
