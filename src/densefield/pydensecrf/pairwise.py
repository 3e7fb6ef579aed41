"""Pairwise energies: features as pydensecrf makes them, bound to a lattice, its normalisation and compatibility."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from numbers import Number

import numpy as np

from densefield.crf.binding import Bound
from densefield.crf.coupling import couple_everyone
from densefield.crf.kernels import Normalization
from densefield.errors import InputError, InputTypeError
from densefield.filters.lattice import LatticeFilter
from densefield.filters.pixel_order import PixelFeatures, PixelOrder, pixel_order
from densefield.pydensecrf.buffers import Float32, as_array, checked_buffer, checked_widths

MOST_SHARED = 1 << 20  # pixels; the lattice of so many takes 40 MB, which is as much as is kept for the next image
_COMPAT = "a number, or float32 energies (labels,) or (labels, labels)"


def bind(
    features: Float32 | PixelFeatures,  # (N, d)
    compat: object,
    labels: int,
    normalization: Normalization,
    threads: int,
) -> Bound:
    """One pairwise energy: the lattice, the factors before and after it, and μ as a score."""
    return with_compat(_normalised(features, normalization, threads), compat, labels)


def bind_grid(
    width: int, height: int, sxy: object, compat: object, labels: int, normalization: Normalization, threads: int
) -> Bound:
    """The same for the positions of an image's pixels, which the next image of the size shares."""
    widths = tuple(checked_widths(sxy, "sxy", ("x", "y")))
    share = _shared if width * height <= MOST_SHARED else _bind_positions
    return with_compat(share(width, height, widths, normalization, threads), compat, labels)


def with_compat(bound: Bound, compat: object, labels: int) -> Bound:
    """The kernel with these compatibilities as scores."""
    return replace(bound, coupling=replace(bound.coupling, mu=score_of(compat, labels)))


def _normalised(features: Float32 | PixelFeatures, normalization: Normalization, threads: int) -> Bound:
    lattice = LatticeFilter(features, operator="pydensecrf", calibrate=False, threads=threads)
    ones = np.ones((lattice.num_points, 1), np.float32)
    return Bound(lattice, couple_everyone(lattice.apply, normalization, np.float32(1).reshape(()), ones))


def _bind_positions(
    width: int, height: int, sxy: tuple[float, ...], normalization: Normalization, threads: int
) -> Bound:
    order = pixel_order((height, width))
    return _normalised(grid_features(width, height, sxy, order), normalization, threads)


_shared = lru_cache(maxsize=2)(_bind_positions)


def score_of(compat: object, labels: int) -> Float32:
    """μ as a score, (), (L,) or (L, L): a number attracts equal labels, but arrays are energies, so they repel.

    >>> score_of(3, 2).tolist(), score_of(np.array([1, 2], np.float32), 2).tolist()
    (3.0, [-1.0, -2.0])
    """
    if isinstance(compat, Number):
        try:
            weight = np.asarray(float(compat), np.float32)  # type: ignore[arg-type]
        except TypeError:
            raise InputTypeError(f"compat is {compat!r}, expected {_COMPAT}.") from None
        return _checked_finite(weight)
    count = min(as_array(compat, "compat", _COMPAT).ndim, 3)
    if count not in (1, 2):
        raise InputError(f"compat is an array of {np.ndim(compat)} axes, expected {_COMPAT}.")  # type: ignore[arg-type]
    energies = checked_buffer(compat, "compat", ("labels",) * count)
    if energies.shape != (labels,) * count:
        raise InputError(f"compat has shape {energies.shape}, expected {_COMPAT} for {labels} labels.")
    _checked_finite(energies)
    return -energies if count == 1 else -(energies + energies.T) / 2


def _checked_finite(weights: Float32) -> Float32:
    if not np.isfinite(weights).all():
        raise InputError("compat holds NaN or infinity, expected finite numbers.")
    return weights


def grid_features(width: int, height: int, sxy: object, order: PixelOrder | None = None) -> PixelFeatures:
    """(N, 2): x and y over their widths; pixels in pixel order if given."""
    nothing = np.empty((height * width, 0), np.uint8)
    return PixelFeatures(nothing, width, checked_widths(sxy, "sxy", ("x", "y")), (), order)


def image_features(
    width: int, height: int, sxy: object, srgb: object, rgbim: object, order: PixelOrder | None = None
) -> PixelFeatures:
    """(N, 5): x, y, r, g, b over their widths."""
    image = checked_buffer(rgbim, "rgbim", ("rows", "columns", "3"), (np.uint8, np.bool_))
    if image.shape[2] != 3:
        raise InputError(
            f"rgbim has shape {image.shape}, expected (rows, columns, 3). For other channels make features with "
            "utils.create_pairwise_bilateral and give them to addPairwiseEnergy."
        )
    if image.shape[:2] != (height, width):
        hint = " DenseCRF2D takes the width first." if image.shape[:2] == (width, height) else ""
        raise InputError(f"rgbim has shape {image.shape}, expected ({height}, {width}, 3).{hint}")
    pixels = np.ascontiguousarray(image).reshape(-1, 3).view(np.uint8)
    return PixelFeatures(
        pixels, width, checked_widths(sxy, "sxy", ("x", "y")), checked_widths(srgb, "srgb", ("r", "g", "b")), order
    )
