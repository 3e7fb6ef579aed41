"""Arrays as users have them: NumPy's, Pillow images, CPU tensors, xarray, and anything else with `__array__`."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError, InputTypeError

Array = npt.NDArray[Any]

# Modes of Pillow whose pixels are values; those of the others, such as indices of a palette, are not colours.
_COLOUR_MODES = ("L", "LA", "RGB", "RGBA", "I", "F", "I;16", "I;16L", "I;16B", "I;16N")


def as_array(given: object, subject: str, expected: str, cure: str = "") -> Array:
    """What is given as an array, without a copy where it is one; raises for what is none.

    * ``subject``: how the error begins, such as "labels are".
    * ``expected``: what it should have been, such as "an array (rows, columns)".
    * ``cure``: what to do where it is something else.

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
                f"{subject} a {type(given).__name__} that NumPy cannot read: {error} For a torch tensor use "
                "tensor.detach().float().cpu().numpy()."
            ) from error
    raise InputTypeError(f"{subject} a {type(given).__name__}, expected {expected}. {cure}".rstrip())


def image_array(image: object) -> Array:
    """An image as an array; a Pillow image in a mode without colours of its own is converted to RGB."""
    mode = getattr(image, "mode", None)
    if isinstance(mode, str) and mode not in _COLOUR_MODES and hasattr(image, "convert"):
        image = image.convert("RGB")
    return as_array(image, "the image is", "a numpy array (rows, columns, channels)", "Use numpy.asarray(image).")


def checked_ignore(ignore: object, shape: tuple[int, ...] | None = None) -> npt.NDArray[np.bool_] | None:
    """Which pixels to leave out, as a boolean array of this shape; None where none are.

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
    """The data of a masked array and its mask; anything else as it is, and None.

    >>> split_mask(np.ma.masked_equal([1, 0], 0))[1].tolist()
    [False, True]
    """
    if not isinstance(given, np.ma.MaskedArray):
        return given, None
    return given.data, np.ma.getmaskarray(given)
