"""Pairwise energies of the drop-in: compatibilities as scores, and images as features."""

from __future__ import annotations

from numbers import Number

import numpy as np
import numpy.typing as npt

from densefield.crf.kernels import Normalization
from densefield.crf.options import CRFOptions
from densefield.crf.pairwise import Pairwise, PixelGrid
from densefield.errors import InputError, InputTypeError
from densefield.pydensecrf.buffers import Float32, as_array, checked_buffer, checked_widths

OPTIONS = CRFOptions(operator="pydensecrf")
_COMPAT = "a number, or float32 energies (labels,) or (labels, labels)"


def gaussian_term(
    grid: PixelGrid, sxy: object, mu: Float32, normalization: Normalization, threads: int
) -> Pairwise[npt.NDArray[np.floating]]:
    """A kernel of position."""
    widths = np.array(checked_widths(sxy, "sxy", ("x", "y")))
    return grid.bind(("position",), {}, widths, normalization, mu, OPTIONS, threads)


def bilateral_term(
    grid: PixelGrid, sxy: object, srgb: object, rgbim: object, mu: Float32, normalization: Normalization, threads: int
) -> Pairwise[npt.NDArray[np.floating]]:
    """A kernel of position and colour."""
    image = checked_buffer(rgbim, "rgbim", ("rows", "columns", "3"), (np.uint8, np.bool_))
    height, width = grid.shape
    if image.shape[2] != 3:
        raise InputError(
            f"rgbim has shape {image.shape}, expected (rows, columns, 3). For other channels make features with "
            "utils.create_pairwise_bilateral and give them to addPairwiseEnergy."
        )
    if image.shape[:2] != (height, width):
        hint = " DenseCRF2D takes the width first." if image.shape[:2] == (width, height) else ""
        raise InputError(f"rgbim has shape {image.shape}, expected ({height}, {width}, 3).{hint}")
    pixels = np.ascontiguousarray(image).reshape(-1, 3).view(np.uint8)
    widths = np.array((*checked_widths(sxy, "sxy", ("x", "y")), *checked_widths(srgb, "srgb", ("r", "g", "b"))))
    return grid.bind(("position", "channel"), {"channel": pixels}, widths, normalization, mu, OPTIONS, threads)


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
