"""Features of pixels before scaling: positions, image channels, and the arrays of Custom kernels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from densefield.crf.arrays import checked_numbers, image_array
from densefield.crf.kernels import Kernel
from densefield.crf.options import AxisOrder
from densefield.errors import InputError, InputTypeError

Array = npt.NDArray[np.floating]

MOST_CHANNELS = 16  # the most dimensions of a lattice


def grid_positions(shape: Sequence[int], spacing: Sequence[float] | None = None, axis_order: AxisOrder = "xy") -> Array:
    """Positions of the pixels of a grid, (N, axes), times the spacing along x, y(, z).

    Columns are x, y(, z), or in reverse order for "yx".

    >>> grid_positions((2, 3)).tolist()
    [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]
    """
    # Integers are exact in single precision, multiples of a spacing are not.
    positions = np.empty((*shape, len(shape)), np.float32 if spacing is None else np.float64)
    for axis, (line, column) in enumerate(reversed(grid_lines(shape, spacing, axis_order))):
        positions[..., column] = line.reshape(-1, *[1] * axis)
    return positions.reshape(-1, len(shape))


def grid_lines(
    shape: Sequence[int], spacing: Sequence[float] | None = None, axis_order: AxisOrder = "xy"
) -> list[tuple[Array, int]]:
    """Positions along each axis of the array, and their column in grid_positions().

    >>> [(line.tolist(), column) for line, column in grid_lines((2, 3))]
    [([0.0, 1.0], 1), ([0.0, 1.0, 2.0], 0)]
    """
    axes = len(shape)
    steps = checked_spacing(spacing, axes)[::-1]
    columns = range(axes) if axis_order == "yx" else range(axes)[::-1]
    return [(np.arange(count) * step, column) for count, step, column in zip(shape, steps, columns, strict=True)]


def checked_spacing(spacing: Sequence[float] | None, axes: int) -> tuple[float, ...]:
    """The size of a pixel along x, y(, z), by default 1."""
    if spacing is None:
        return (1.0,) * axes
    expected = f"{axes} numbers above 0, one per axis in the order x, y(, z)"
    steps = checked_numbers(spacing, "spacing", expected)
    if steps.shape != (axes,) or not (np.isfinite(steps).all() and (steps > 0).all()):
        raise InputError(f"spacing is {spacing!r}, expected {expected}.")
    return tuple(steps.tolist())


def image_channels(given: object, shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
    """The image (…, C), or (…) for one channel, as (N, C)."""
    image = image_array(given)
    if image.dtype == np.bool_ or not np.issubdtype(image.dtype, np.number) or np.iscomplexobj(image):
        raise InputTypeError(
            f"the image has dtype {image.dtype}, expected integers or floating point numbers. "
            "Use image.astype(numpy.float32)."
        )
    if image.shape[: len(shape)] != shape or image.ndim not in (len(shape), len(shape) + 1):
        raise InputError(_size_message(image.shape, shape))
    channels = image.shape[-1] if image.ndim > len(shape) else 1
    if not 1 <= channels <= MOST_CHANNELS:
        raise InputError(f"the image has {channels} channels, expected 1 to {MOST_CHANNELS}.")
    return image.reshape(math.prod(shape), channels)


def _size_message(image: tuple[int, ...], shape: tuple[int, ...]) -> str:
    expected = ", ".join(str(n) for n in shape)
    message = f"the image has shape {image}, but the scores are for ({expected}): expected ({expected}, channels)."
    if len(image) == len(shape) + 1 and image[1:] == shape:
        return f"{message} Its channels come first: use numpy.moveaxis(image, 0, -1)."
    if len(shape) == 2 and image[:2] == shape[::-1]:
        return f"{message} Rows and columns are swapped: scores are (classes, rows, columns)."
    if len(image) >= len(shape) and all(large > small for large, small in zip(image, shape, strict=False)):
        return (
            f"{message} The scores are smaller than the image: upsample them first, such as by "
            "torch.nn.functional.interpolate(scores[None], size=image.shape[:2], mode='bilinear', align_corners=False)."
        )
    return message


def pixel_features(
    kernels: Iterable[Kernel],
    shape: tuple[int, ...],
    image: object = None,
    features: Mapping[str, Array] | None = None,
    num_classes: int | None = None,  # of the scores, for the error if their axes are swapped
) -> dict[str, npt.NDArray[np.generic]]:
    """The features that the kernels compare besides positions, by name, each (N, d)."""
    kernels = tuple(kernels)
    given = dict(features or {})
    found: dict[str, npt.NDArray[np.generic]] = {}
    needed = {name for kernel in kernels for name in kernel.widths_of_parts()} - {"position"}
    for name in sorted(needed):
        if name == "channel":
            if image is None:
                raise InputError("a bilateral kernel compares colours, but no image was given: pass image=.")
            found[name] = _without_alpha(image_channels(image, shape), kernels)
        elif name in given:
            found[name] = _checked_feature(name, given[name], shape, num_classes)
        else:
            raise InputError(
                f"a kernel compares {name!r}, but features= has {', '.join(sorted(given)) or 'nothing'}: pass "
                f"features={{{name!r}: array}}."
            )
    unused = sorted(set(given) - needed)
    if unused:
        raise InputError(
            f"features= has {', '.join(unused)}, which no kernel compares: add a Custom kernel of that name."
        )
    return found


def _without_alpha(channels: npt.NDArray[np.generic], kernels: Iterable[Kernel]) -> npt.NDArray[np.generic]:
    """Channels (N, C) without a constant alpha, the last of two or four, unless a kernel has widths for all channels.

    A constant does not change distances, but one more dimension makes the lattice slower and less accurate.

    >>> _without_alpha(np.array([[10, 20, 30, 255], [11, 21, 31, 255]]), []).shape
    (2, 3)
    """
    count = channels.shape[1]
    if count not in (2, 4) or not len(channels) or not (channels[:, -1] == channels[0, -1]).all():
        return channels
    for kernel in kernels:
        widths = kernel.widths_of_parts().get("channel")
        if widths is not None and (kernel.covariance is not None or np.size(widths) == count):
            return channels
    return channels[:, :-1]


def _near_origin(feature: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Features of more digits than single precision has, minus those of the first pixel: only differences matter.

    >>> _near_origin(np.array([[5_000_000.25], [5_000_001.5]])).tolist()
    [[0.0], [1.25]]
    """
    if np.can_cast(feature.dtype, np.float32) or not len(feature):
        return feature
    origin = np.nan_to_num(feature[0].astype(np.float64), posinf=0, neginf=0)
    return np.subtract(feature, origin, dtype=np.float64)  # type: ignore[no-any-return]


def _checked_feature(
    name: str, feature: object, shape: tuple[int, ...], num_classes: int | None
) -> npt.NDArray[np.generic]:
    points = math.prod(shape)
    expected = f"({points}, d)" if len(shape) == 1 else f"({', '.join(str(n) for n in shape)}, d) or ({points}, d)"
    if not isinstance(feature, np.ndarray) or feature.dtype.kind not in "iuf":
        came = feature.dtype if isinstance(feature, np.ndarray) else f"of type {type(feature).__name__}"
        raise InputTypeError(f"feature {name!r} is {came}, expected a numpy array {expected} of numbers.")
    if feature.shape[: len(shape)] == shape and feature.ndim == len(shape) + 1:
        return _near_origin(feature.reshape(points, feature.shape[-1]))
    if feature.ndim == 2 and len(feature) == points:
        return _near_origin(feature)
    hint = ""
    if feature.shape == shape:
        hint = " For one number per pixel use feature[..., None]."
    elif len(shape) == 1 and len(feature) == num_classes and num_classes > points:
        hint = " The axes of the scores are swapped: they are (classes, points), use scores.T."
    elif feature.ndim == 2 and feature.shape[1] == points:
        hint = " Its axes are swapped: use feature.T."
    raise InputError(f"feature {name!r} has shape {feature.shape}, expected {expected}.{hint}")
