"""Scores and an image, checked and bound to kernels: what inference works on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.crf.arrays import as_array, checked_ignore
from densefield.crf.binding import Bound, FilterChoice, bind
from densefield.crf.coupling import Coupling
from densefield.crf.features import AxisOrder, checked_spacing, gather_sites
from densefield.crf.image_range import in_image_units
from densefield.crf.kernels import Kernel
from densefield.errors import InputError, InputTypeError
from densefield.filters.pixel_order import PixelOrder, pixel_order

Array = npt.NDArray[np.floating]

MOST_ITERATIONS = 1 << 20

# Bound kernels of positions alone by their place in the list, and what they were bound for.
Kept = dict[int, tuple[tuple[object, ...], Bound]]


@dataclass(frozen=True)
class Problem:
    """Scores (L, N) of the pixels of a grid, and the kernels that couple them."""

    scores: Array
    shape: tuple[int, ...]  # of the grid
    kernels: tuple[Bound, ...]
    order: PixelOrder | None  # in whose order the kernels have the pixels; None where it is that of the grid

    @property
    def rows(self) -> Array:
        """Scores as (N, L), in the order of the kernels."""
        return np.ascontiguousarray(self.scores.T if self.order is None else self.scores.T[self.order.indices])

    @property
    def couplings(self) -> list[Coupling[Array]]:
        """The kernels without their filters' extras."""
        return [bound.coupling for bound in self.kernels]

    def on_grid(self, rows: Array) -> Array:
        """(N, …) in the order of the kernels, in that of the grid."""
        return rows if self.order is None else rows[self.order.inverse]

    def unflatten(self, rows: Array) -> Array:
        """(N, L) in the order of the kernels, as (L, …)."""
        return np.ascontiguousarray(self.on_grid(rows).T).reshape(self.scores.shape[0], *self.shape)


def pose(
    kernels: Sequence[Kernel],
    choice: FilterChoice,
    scores: object,  # (L, …)
    image: object,
    *,
    features: Mapping[str, Array] | None,
    spacing: Sequence[float] | None,
    ignore: object,
    exclude_self: bool,
    data_range: npt.NDArray[np.float64] | None,  # of the image: what 255 levels are in its unit
    axis_order: AxisOrder,
    kept: Kept,
) -> Problem:
    """Checks everything and builds the filters; those of positions alone are looked for in `kept`, and left there."""
    left_out = checked_ignore(ignore)
    f = checked_scores(scores, choice.method == "exact", choice.threads, left_out)
    labels, shape = f.shape[0], f.shape[1:]
    order = pixel_order(shape) if choice.method == "lattice" else None
    present = _present(checked_ignore(left_out, shape), shape, f.dtype)
    sites = gather_sites(kernels, shape, image, features, spacing, axis_order, labels)
    if ignore is not None:
        sites = {part: values if part == "position" else _hidden(values, present) for part, values in sites.items()}
    if data_range is not None and data_range.ndim and "channel" in sites:
        channels = sites["channel"].shape[1]
        if len(data_range) != channels:
            raise InputError(f"data_range has {len(data_range)} numbers, but the image has {channels} channels.")
    if order is not None and ignore is not None:
        present = present[order.indices]
    steps = None if spacing is None else checked_spacing(spacing, len(shape))
    bounds = []
    for index, kernel in enumerate(kernels):
        # Kernels of positions alone are the same for every image of a size.
        purpose = (kernel, exclude_self, shape, steps, labels, f.dtype.str)
        found = kept.get(index) if ignore is None else None
        if found is not None and found[0] == purpose:
            bounds.append(found[1])
            continue
        try:
            bound = bind(
                in_image_units(kernel, data_range, len(shape)), sites, labels, present, choice, exclude_self, order
            )
        except InputError:
            _check_finite_sites(kernel, sites, shape)
            raise
        if ignore is None and set(kernel.widths_of_parts()) == {"position"}:
            kept[index] = purpose, bound
        bounds.append(bound)
    return Problem(f.reshape(labels, -1), shape, tuple(bounds), order)


def _hidden(values: npt.NDArray[np.generic], present: Array) -> npt.NDArray[np.generic]:
    """Values (N, d) with those of a pixel that takes part at the ignored ones: nothing depends on what they hold."""
    if not len(values):
        return values
    one = values[int(present.argmax())] if present.any() else np.zeros((), values.dtype)
    hidden: npt.NDArray[np.generic] = np.where(present == 0, one, values)
    return hidden


def checked_scores(
    given: object, keep_double: bool, threads: int, ignore: npt.NDArray[np.bool_] | None = None
) -> Array:
    """Scores (L, …) as float32, or as float64 where they are and that is to be kept.

    Those of ignored pixels may be NaN, and become 0.
    """
    scores = as_array(
        given,
        "the scores are",
        "a numpy array (labels, rows, columns)",
        "Use numpy.asarray(scores, dtype=numpy.float32).",
    )
    if not np.issubdtype(scores.dtype, np.floating):
        raise InputTypeError(
            f"the scores have dtype {scores.dtype}, expected floating point numbers (labels, rows, columns). "
            "For a mask of labels use refine(image, labels=mask)."
        )
    if scores.ndim not in (2, 3, 4):
        raise InputError(
            f"the scores have shape {scores.shape}, expected (labels, rows, columns), (labels, planes, rows, columns) "
            "or (labels, points)."
        )
    if scores.shape[0] < 1:
        raise InputError(f"the scores have shape {scores.shape}, expected at least one label.")
    dtype = np.float64 if keep_double and scores.dtype == np.float64 else np.float32
    with np.errstate(over="ignore"):  # what is too large for float32 becomes infinite, and is refused
        f = np.ascontiguousarray(scores, dtype)
    if ignore is not None and ignore.shape == f.shape[1:]:
        f = np.where(ignore & ~np.isfinite(f), f.dtype.type(0), f)
    check_finite_scores(f, threads)
    return f


def check_finite_scores(scores: Array, threads: int) -> None:
    """Raises, and says where, if scores hold NaN or infinity."""
    if scores.dtype == np.float32 and _core.all_finite(scores.reshape(-1), threads):
        return
    finite = np.isfinite(scores)
    if not finite.all():
        where = tuple(int(i) for i in np.unravel_index(int(finite.argmin()), scores.shape))
        raise InputError(
            f"the scores hold NaN or infinity at {int((~finite).sum())} of {scores.size} places, first at {where}. "
            "Leave pixels out with ignore=; for a label that is ruled out use a large negative score such as -1e4."
        )


def _check_finite_sites(kernel: Kernel, sites: Mapping[str, npt.NDArray[np.generic]], shape: tuple[int, ...]) -> None:
    """Raises, and says where, if what the kernel compares holds NaN or infinity."""
    for part in kernel.widths_of_parts():
        finite = np.isfinite(sites[part]).all(axis=1)
        if not finite.all():
            where = tuple(int(i) for i in np.unravel_index(int(finite.argmin()), shape))
            name = "the image" if part == "channel" else f"feature {part!r}"
            raise InputError(
                f"{name} holds NaN or infinity at {int((~finite).sum())} of {finite.size} pixels, first at {where}. "
                "Leave those pixels out with ignore=."
            ) from None


def _present(ignore: npt.NDArray[np.bool_] | None, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    points = math.prod(shape)
    return np.ones((points, 1), dtype) if ignore is None else (~ignore).astype(dtype).reshape(points, 1)


def checked_iterations(count: object) -> int:
    """The number of updates."""
    if isinstance(count, bool) or not isinstance(count, SupportsIndex) or not 0 <= count.__index__() <= MOST_ITERATIONS:
        raise InputError(f"iterations is {count!r}, expected an integer from 0 to {MOST_ITERATIONS}.")
    return count.__index__()
