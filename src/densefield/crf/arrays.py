"""Arrays from users: NumPy arrays, Pillow images, CPU tensors, xarray, and anything else with `__array__`."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError, InputTypeError

Array = npt.NDArray[Any]

# Modes of Pillow whose pixels are colours; others hold palette indices, for instance.
_COLOUR_MODES = ("L", "LA", "RGB", "RGBA", "I", "F", "I;16", "I;16L", "I;16B", "I;16N")


def as_array(given: object, subject: str, expected: str, cure: str = "") -> Array:
    """The argument as an array, without a copy if it is one.

    `subject` begins the error message ("labels are"), `expected` says what is expected ("an array (rows, columns)"),
    and `cure` what to do.

    >>> as_array(np.zeros(3), "the image is", "an array").shape
    (3,)
    """
    if isinstance(given, np.ma.MaskedArray):
        raise InputTypeError(
            f"{subject} a masked array, whose mask would be lost. Pass its data, and the mask as ignore=."
        )
    if isinstance(given, np.ndarray):
        return given
    if isinstance(given, str | bytes | os.PathLike):
        path = os.fsdecode(given)
        raise InputTypeError(
            f"{subject} the path {path!r}, expected {expected}. Open the file first: "
            f"numpy.asarray(PIL.Image.open({path!r}))."
        )
    if hasattr(given, "__array__") or hasattr(given, "__array_interface__"):
        try:
            return np.asarray(given)
        except (TypeError, ValueError, RuntimeError) as error:  # a tensor on a GPU, or one that requires a gradient
            raise InputTypeError(
                f"{subject} of type {type(given).__name__}, which NumPy cannot read: {error} For a torch tensor use "
                "tensor.detach().float().cpu().numpy()."
            ) from error
    raise InputTypeError(f"{subject} of type {type(given).__name__}, expected {expected}. {cure}".rstrip())


def image_array(image: object) -> Array:
    """An image as an array; Pillow images in other modes than _COLOUR_MODES are converted to RGB."""
    mode = getattr(image, "mode", None)
    if isinstance(mode, str) and mode not in _COLOUR_MODES and hasattr(image, "convert"):
        image = image.convert("RGB")
    return as_array(image, "the image is", "a numpy array (rows, columns, channels)", "Use numpy.asarray(image).")


def checked_ignore(ignore: object, shape: tuple[int, ...] | None = None) -> npt.NDArray[np.bool_] | None:
    """The mask of ignored pixels as a boolean array, checked; None if there is none.

    >>> checked_ignore(np.array([[False, True]]), (1, 2)).tolist()
    [[False, True]]
    """
    if ignore is None:
        return None
    expected = f"a boolean array{'' if shape is None else f' {shape}'}, True for pixels to leave out"
    array = as_array(ignore, "ignore is", expected, "Use numpy.asarray(ignore, dtype=bool).")
    if array.dtype != np.bool_ or (shape is not None and array.shape != shape):
        raise InputError(f"ignore is {array.dtype} {array.shape}, expected {expected}.")
    return array


def split_mask(given: object) -> tuple[Any, npt.NDArray[np.bool_] | None]:
    """The data and the mask of a masked array; any other argument unchanged, and None.

    >>> split_mask(np.ma.masked_equal([1, 0], 0))[1].tolist()
    [False, True]
    """
    if not isinstance(given, np.ma.MaskedArray):
        return given, None
    return given.data, np.ma.getmaskarray(given)


def checked_numbers(value: object, name: str, expected: str) -> npt.NDArray[np.float64]:
    """Numbers of any shape as a new array.

    >>> checked_numbers([1, 2.5], "sigma", "a width, or one per axis")
    array([1. , 2.5])
    """
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.asarray("")
    if array.dtype.kind not in "iuf":
        raise InputTypeError(f"{name} is {value!r}, expected {expected}.")
    return array.astype(np.float64)
