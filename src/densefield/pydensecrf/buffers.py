"""Checks of arguments, as strict as pydensecrf's, except that any memory layout is accepted."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any, SupportsFloat, SupportsIndex, SupportsInt

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError, InputTypeError

Float32 = npt.NDArray[np.float32]

SMALLEST_WIDTH, LARGEST_WIDTH = (float(limit) for limit in (np.finfo(np.float32).tiny, np.finfo(np.float32).max))
RULED_OUT = np.float32(1e30)  # an energy beside which every other vanishes
COMPAT = "a number, or float32 energies (labels,) or (labels, labels)"


def checked_buffer(
    value: object,
    name: str,
    axes: tuple[str, ...],  # what each axis counts, for the messages
    dtypes: tuple[type[np.generic], ...] = (np.float32,),
) -> npt.NDArray[Any]:
    """The array of an object with a buffer; raises unless it has one of these dtypes, and these axes.

    As in pydensecrf, another dtype or number of axes is a ValueError, and an object without a buffer is a TypeError.

    >>> checked_buffer(memoryview(np.zeros((2, 3), np.float32)), "u", ("labels", "points")).shape
    (2, 3)
    """
    expected = f"a {dtypes[0].__name__} array ({', '.join(axes)})"
    array = as_array(value, name, expected)
    if array.dtype not in dtypes:
        raise InputError(f"{name} has dtype {array.dtype}, expected {expected}: use .astype('{dtypes[0].__name__}').")
    if array.ndim != len(axes):
        raise InputError(f"{name} has shape {array.shape}, expected {expected}.")
    return array


def as_array(value: object, name: str, expected: str) -> npt.NDArray[Any]:
    """The array of an object with a buffer, which shares its memory."""
    try:
        return np.asarray(value if isinstance(value, np.ndarray) else memoryview(value))  # type: ignore[arg-type]
    except TypeError:
        raise InputTypeError(f"{name} is of type {type(value).__name__}, expected {expected}.") from None


def checked_integer(value: object, name: str) -> int:
    """An integer; as in pydensecrf, decimals are cut off.

    >>> checked_integer(np.int64(3), "nvar"), checked_integer(160.5, "w")
    (3, 160)
    """
    if type(value) is int:  # isinstance() with a protocol is slow
        return value
    if not isinstance(value, (SupportsInt, SupportsIndex)):
        raise InputTypeError(f"{name} is {value!r}, expected an integer.")
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} is {value!r}, expected an integer.") from None


def checked_energies(energies: Float32) -> Float32:
    """Energies (L, N) that leave every point a label; an infinite one rules its label out.

    Infinity becomes a number so large that no other counts, and no sum meets ∞ - ∞.

    >>> float(checked_energies(np.array([[0.0], [np.inf]], np.float32))[1, 0]) > 1e29
    True
    """
    if not (energies > -np.inf).all():  # NaN is not greater either
        raise InputError(
            "the unary energies hold NaN or minus infinity. An energy is -log(probability): are there NaN among the "
            "probabilities? Plus infinity rules a label out."
        )
    hopeless = np.isinf(energies).all(axis=0)
    if hopeless.any():
        raise InputError(
            f"the unary energies rule out every label of point {int(hopeless.argmax())}: leave at least one finite."
        )
    finite: Float32 = np.minimum(energies, RULED_OUT)
    return finite


def checked_widths(
    widths: object,  # a number, or one per axis and perhaps more, which are ignored
    name: str,
    axes: tuple[str, ...],
) -> tuple[float, ...]:
    """One width for all axes, or one for each; infinity switches an axis off.

    A negative width mirrors its axis, which changes nothing but rounding.

    >>> checked_widths(3, "sxy", ("x", "y")), checked_widths((5, 4), "sxy", ("x", "y"))
    ((3.0, 3.0), (5.0, 4.0))
    """
    expected = f"a number, or one for each of {', '.join(axes)}"
    given: Any = widths
    try:
        if isinstance(widths, Number) or (np.ndim(given) == 0 and not hasattr(widths, "keys")):
            used = [given] * len(axes)
        else:
            used = [given[axis] for axis in range(len(axes))]
    except (IndexError, KeyError, TypeError, ValueError):
        raise InputError(f"{name} is {widths!r}, expected {expected}.") from None
    if not all(isinstance(width, (SupportsFloat, SupportsIndex)) for width in used):
        raise InputTypeError(f"{name} is {widths!r}, expected {expected}.")
    try:
        numbers = [float(width) for width in used]
    except (TypeError, OverflowError):
        raise InputError(f"{name} is {widths!r}, expected {expected}.") from None
    if not all(abs(width) >= SMALLEST_WIDTH for width in numbers):  # NaN is not greater either
        raise InputError(f"{name} is {widths!r}, expected widths other than 0 and NaN.")
    return tuple(width if abs(width) <= LARGEST_WIDTH else math.copysign(math.inf, width) for width in numbers)


def checked_colours(rgbim: object, height: int, width: int) -> npt.NDArray[np.uint8]:
    """The colours (N, 3) of an image (height, width, 3)."""
    image = checked_buffer(rgbim, "rgbim", ("rows", "columns", "3"), (np.uint8, np.bool_))
    if image.shape[2] != 3:
        raise InputError(
            f"rgbim has shape {image.shape}, expected (rows, columns, 3). For other channels make features with "
            "utils.create_pairwise_bilateral and give them to addPairwiseEnergy."
        )
    if image.shape[:2] != (height, width):
        hint = " DenseCRF2D takes the width first." if image.shape[:2] == (width, height) else ""
        raise InputError(f"rgbim has shape {image.shape}, expected ({height}, {width}, 3).{hint}")
    return np.ascontiguousarray(image).reshape(-1, 3).view(np.uint8)


def score_of(compat: object, labels: int) -> Float32:
    """μ as a score, (), (L,) or (L, L): a number attracts equal labels, but arrays are energies, so they repel.

    >>> score_of(3, 2).tolist(), score_of(np.array([1, 2], np.float32), 2).tolist()
    (3.0, [-1.0, -2.0])
    """
    if isinstance(compat, Number):
        try:
            weights = np.asarray(float(compat), np.float32)  # type: ignore[arg-type]
        except TypeError:
            raise InputTypeError(f"compat is {compat!r}, expected {COMPAT}.") from None
    else:
        axes = as_array(compat, "compat", COMPAT).ndim
        if axes not in (1, 2):
            raise InputError(f"compat is an array of {axes} axes, expected {COMPAT}.")
        weights = checked_buffer(compat, "compat", ("labels",) * axes)
        if weights.shape != (labels,) * axes:
            raise InputError(f"compat has shape {weights.shape}, expected {COMPAT} for {labels} labels.")
    if not np.isfinite(weights).all():
        raise InputError("compat holds NaN or infinity, expected finite numbers.")
    if weights.ndim == 0:
        return weights
    return -weights if weights.ndim == 1 else -(weights + weights.T) / 2
