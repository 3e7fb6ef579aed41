"""Images whose values are not in 0…255, the range that colour widths refer to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from densefield.crf.kernels import Kernel, channel_widths
from densefield.errors import warn

LEVELS = 255.0  # the range of colours that widths refer to


@dataclass(frozen=True)
class RangeProblem:
    """A suspected range other than 0…255, and the cure."""

    what: str
    cure: str


def range_problem(low: float, high: float, width: float, integers: bool) -> RangeProblem | None:
    """Why an image with values from `low` to `high` is probably not in 0…255; None if it may be.

    `width` is the smallest colour width. A width that fits the values counts as deliberate. Dark images are no problem:
    integers up to 1, and floats slightly above 1, may be black.

    >>> range_problem(0.0, 0.97, 10.0, integers=False).cure
    'Pass image * 255, or data_range=1.'
    >>> range_problem(0.0, 14.0, 10.0, integers=False) is range_problem(0, 1, 10.0, integers=True) is None
    True
    """
    span = high - low
    seen = f"the image has values from {low:.6g} to {high:.6g}"
    # A sharp resize overshoots by a tenth.
    if not integers and low >= -0.1 and 0 < high <= 1.1 and width >= 1:
        return RangeProblem(f"{seen}, which looks like colours from 0 to 1", "Pass image * 255, or data_range=1.")
    if not integers and low < 0 and span <= 8 and width >= 2:
        return RangeProblem(
            f"{seen}, which looks like a network's normalised input",
            "Pass the original image, 0…255, or data_range= with what 255 levels have become, per channel.",
        )
    if span > 2 * LEVELS and width < span / 100:
        full = next((2**bits - 1 for bits in (10, 12, 16) if low >= 0 and high < 2**bits), None)
        if full is None:
            return RangeProblem(
                seen, f"Pass data_range={span:.6g}, or data_range=255 if sigma_rgb has the image's unit."
            )
        return RangeProblem(
            f"{seen}, which looks like more than 8 bits",
            f"Pass data_range={full}, or data_range=255 if sigma_rgb has the image's unit.",
        )
    return None


def warn_of_range(low: float, high: float, width: float, integers: bool) -> None:
    """Warns at the user's call if the values are probably not in 0…255."""
    problem = range_problem(low, high, width, integers)
    if problem is not None:
        warn(f"{problem.what}, but sigma_rgb = {width:.4g} refers to colours from 0 to 255. {problem.cure}")


def warn_of_image(image: npt.NDArray[np.generic], channels: int, kernels: Iterable[Kernel]) -> None:
    """Warns if a kernel compares channels whose values are probably not in 0…255.

    8-bit images are not checked. Others take one pass over the image.
    """
    widths = [channel_widths(kernel, channels) for kernel in kernels if "channel" in kernel.widths_of_parts()]
    if not widths or image.dtype.itemsize == 1 or not image.size:
        return
    width = min(float(each.min()) for each in widths)
    integers = bool(np.issubdtype(image.dtype, np.integer))
    warn_of_range(float(image.min()), float(image.max()), width, integers)


def in_image_units(kernel: Kernel, data_range: npt.ArrayLike | None, axes: int) -> Kernel:
    """The kernel with its colour widths in the unit of the image, in which `data_range` stands for 255 levels.

    >>> from densefield.crf.kernels import Bilateral
    >>> in_image_units(Bilateral(60, 10), 1.0, axes=2).sigma_rgb.round(4).tolist()
    0.0392
    """
    widths = kernel.widths_of_parts()
    if data_range is None or "channel" not in widths:
        return kernel
    scale = np.asarray(data_range, np.float64) / LEVELS
    if kernel.covariance is None:
        return kernel.with_widths({"channel": np.asarray(widths["channel"], np.float64) * scale})
    covariance = np.array(kernel.covariance, np.float64)
    factors = np.ones(len(covariance))
    factors[axes if "position" in widths else 0 :] = scale
    return replace(kernel, covariance=covariance * factors * factors[:, None])
