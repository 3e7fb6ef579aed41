"""The inference problem of one image (checked scores, and pairwise terms bound to its pixels) and its solution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.crf.arrays import as_array, checked_ignore
from densefield.crf.compatibility import checked_weight
from densefield.crf.features import checked_spacing, pixel_features
from densefield.crf.image_range import in_image_units
from densefield.crf.kernels import Kernel
from densefield.crf.options import CRFOptions
from densefield.crf.pairwise import Pairwise, PixelGrid
from densefield.errors import InputError, InputTypeError
from densefield.filters.pixel_order import PixelOrder, pixel_order
from densefield.filters.threads import check_threads

Array = npt.NDArray[np.floating]
Parts = Mapping[str, npt.NDArray[np.generic]]


@dataclass(frozen=True)
class Problem:
    """Scores (L, N) of the pixels of a grid, and the pairwise terms that couple them."""

    scores: Array
    shape: tuple[int, ...]  # of the grid
    pairwise: tuple[Pairwise[Array], ...]
    order: PixelOrder | None  # order of the pixels in the pairwise terms; None for that of the grid

    @property
    def rows(self) -> Array:
        """Scores as (N, L), in the order of the pairwise terms."""
        return np.ascontiguousarray(self.scores.T if self.order is None else self.scores.T[self.order.indices])

    def on_grid(self, rows: Array) -> Array:
        """(N, …) from the order of the pairwise terms to that of the grid."""
        return rows if self.order is None else rows[self.order.inverse]

    def unflatten(self, rows: Array) -> Array:
        """(N, L) in the order of the pairwise terms, as (L, …)."""
        return np.ascontiguousarray(self.on_grid(rows).T).reshape(self.scores.shape[0], *self.shape)


@dataclass(frozen=True, repr=False)
class Solution:
    """The result of inference.

    Parameters
    ----------
    marginals, log_marginals
        (L, …) over the pixels.
    iterations
        Number of iterations made.
    residuals
        The largest change of a marginal in each iteration.
    energies
        The free energy of q⁰, q¹, …; None unless requested.
    converged
        Whether the last residual is within the tolerance; None without a tolerance.
    """

    marginals: Array
    log_marginals: Array
    iterations: int
    residuals: tuple[float, ...]
    energies: tuple[float, ...] | None
    converged: bool | None

    def __repr__(self) -> str:
        num_classes, *shape = self.marginals.shape
        parts = [f"{num_classes} classes at {' × '.join(map(str, shape))} pixels", f"{self.iterations} iterations"]
        if self.residuals:
            parts.append(f"last change {self.residuals[-1]:.2g}")
        if self.energies:
            parts.append(f"free energy {self.energies[-1]:.6g}")
        if self.converged is not None:
            parts.append("converged" if self.converged else "not converged")
        return f"Solution: {', '.join(parts)}"

    @property
    def labels(self) -> npt.NDArray[np.intp]:
        """The most probable label of every pixel."""
        best: npt.NDArray[np.intp] = self.log_marginals.argmax(axis=0)
        return best


def build_problem(
    kernels: Sequence[Kernel],
    options: CRFOptions,
    scores: object,  # (L, …)
    image: object = None,
    features: Mapping[str, Array] | None = None,
    spacing: Sequence[float] | None = None,
    ignore: object = None,
) -> Problem:
    """Checks all inputs and builds the filters."""
    threads = check_threads(options.threads)
    ignored = checked_ignore(ignore)
    f = checked_scores(scores, options.method == "exact", threads, ignored)
    num_classes, shape = f.shape[0], f.shape[1:]
    ignored = checked_ignore(ignored, shape)
    parts: Parts = pixel_features(kernels, shape, image, features, num_classes)
    steps = None if spacing is None else checked_spacing(spacing, len(shape))
    order = pixel_order(shape) if options.method == "lattice" else None
    grid = PixelGrid(shape, steps, options.axis_order, order)
    present = None
    if ignored is not None:
        present = (~ignored).astype(f.dtype).reshape(-1, 1)
        parts = {name: without_ignored(values, present) for name, values in parts.items()}
    check_data_range(options.data_range, parts)

    terms = []
    for kernel in kernels:
        scaled = in_image_units(kernel, options.data_range, len(shape))
        names = tuple(scaled.widths_of_parts())
        dimensions = {name: len(shape) if name == "position" else parts[name].shape[1] for name in names}
        widths, mu = scaled.shape(dimensions), checked_weight(kernel.weight, num_classes).astype(f.dtype)
        try:
            terms.append(grid.bind(names, parts, widths, kernel.normalization, mu, options, threads, present))
        except InputError:
            check_finite_parts(names, parts, shape)
            if np.isfinite(grid.features(names, parts, widths, f.dtype, threads)).all():
                raise
            raise InputError(
                f"the {kernel.name} kernel divides {' and '.join(names)} by widths so small that the quotient is "
                f"beyond the range of {f.dtype}. Use larger widths, or smaller numbers."
            ) from None

    return Problem(f.reshape(num_classes, -1), shape, tuple(terms), order)


def checked_scores(
    given: object, keep_double: bool, threads: int, ignore: npt.NDArray[np.bool_] | None = None
) -> Array:
    """Scores (L, …) as float32, or as float64 if they are and `keep_double` is set.

    NaN at ignored pixels becomes 0.
    """
    scores = as_array(
        given,
        "the scores are",
        "a numpy array (classes, rows, columns)",
        "Use numpy.asarray(scores, dtype=numpy.float32).",
    )
    if not np.issubdtype(scores.dtype, np.floating):
        raise InputTypeError(
            f"the scores have dtype {scores.dtype}, expected floating point numbers (classes, rows, columns). "
            "For a mask of labels use refine(image, labels=mask)."
        )
    if scores.ndim not in (2, 3, 4):
        raise InputError(
            f"the scores have shape {scores.shape}, expected (classes, rows, columns), (classes, planes, rows, "
            "columns) or (classes, points)."
        )
    if scores.shape[0] < 1:
        raise InputError(f"the scores have shape {scores.shape}, expected at least one label.")
    dtype = np.float64 if keep_double and scores.dtype == np.float64 else np.float32
    with np.errstate(over="ignore"):  # what is too large for float32 becomes infinite, and is refused
        f = np.ascontiguousarray(scores, dtype)
    if ignore is not None and ignore.shape == f.shape[1:]:
        f = np.where(ignore & ~np.isfinite(f), f.dtype.type(0), f)
    if dtype is np.float32 and _core.all_finite(f.reshape(-1).view(np.float32), threads):
        return f
    finite = np.isfinite(f)
    if not finite.all():
        where = tuple(int(i) for i in np.unravel_index(int(finite.argmin()), f.shape))
        raise InputError(
            f"the scores hold NaN or infinity at {int((~finite).sum())} of {f.size} places, first at {where}. "
            "Leave pixels out with ignore=; for a label that is ruled out use a large negative score such as -1e4."
        )
    return f


def without_ignored(values: npt.NDArray[np.generic], present: Array) -> npt.NDArray[np.generic]:
    """Replaces the features of ignored pixels by those of one present pixel, so that nothing depends on them."""
    if not len(values):
        return values
    one = values[int(present.argmax())] if present.any() else np.zeros((), values.dtype)
    replaced: npt.NDArray[np.generic] = np.where(present == 0, one, values)
    return replaced


def check_data_range(data_range: object, parts: Parts) -> None:
    """Raises unless a range per channel has as many numbers as the image channels."""
    if isinstance(data_range, tuple) and "channel" in parts and len(data_range) != parts["channel"].shape[1]:
        raise InputError(
            f"data_range has {len(data_range)} numbers, but the image has {parts['channel'].shape[1]} channels."
        )


def check_finite_parts(names: Sequence[str], parts: Parts, shape: tuple[int, ...]) -> None:
    """Raises, and names the first pixel, if the image or a feature holds NaN or infinity."""
    for name in names:
        finite = np.isfinite(parts[name]).all(axis=1) if name in parts else np.ones(1, bool)
        if not finite.all():
            where = tuple(int(i) for i in np.unravel_index(int(finite.argmin()), shape))
            what = "the image" if name == "channel" else f"feature {name!r}"
            raise InputError(
                f"{what} holds NaN or infinity at {int((~finite).sum())} of {finite.size} pixels, first at {where}. "
                "Leave those pixels out with ignore=."
            ) from None
