"""Kernels bound to the pixels of one image: features, filter, normalisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from densefield.crf.compatibility import checked_weight
from densefield.crf.coupling import Coupling, couple, couple_everyone
from densefield.crf.kernels import Kernel
from densefield.errors import InputError
from densefield.filters.exact import ExactFilter
from densefield.filters.lattice import LatticeFilter
from densefield.filters.lattice_design import Operator
from densefield.filters.pixel_order import PixelOrder, write_features

Array = npt.NDArray[np.floating]
Method = Literal["lattice", "exact"]


@dataclass(frozen=True)
class FilterChoice:
    """Which Gaussian filter, and how it is run."""

    method: Method = "lattice"
    operator: Operator = "symmetric"
    halo: int = 0
    threads: int = 1


@dataclass(frozen=True)
class Bound:
    """One kernel of one image."""

    filter: LatticeFilter | ExactFilter[Array]
    coupling: Coupling[Array]


def bind(
    kernel: Kernel,
    sites: Mapping[str, npt.NDArray[np.generic]],
    num_classes: int,
    present: Array,  # (N, 1)
    choice: FilterChoice,
    exclude_self: bool = False,
    order: PixelOrder | None = None,
) -> Bound:
    """The kernel's filter on these pixels, in the precision of `present`.

    Pixels are in pixel order if given, in `present` too, but not in `sites`.
    """
    dtype = present.dtype
    features = kernel_features(kernel, sites, dtype, choice.threads, order)
    try:
        k = _filter(features, choice, calibrate=kernel.normalization == "none")
    except InputError:
        if np.isfinite(features).all():
            raise
        raise InputError(
            f"the {kernel.name} kernel divides {' and '.join(kernel.widths_of_parts())} by widths so small that the "
            f"quotient is beyond the range of {dtype}. Use larger widths, or smaller numbers."
        ) from None
    mu = checked_weight(kernel.weight, num_classes).astype(dtype)
    if not exclude_self and present.all():
        return Bound(k, couple_everyone(k.apply, kernel.normalization, mu, present))
    diagonal = k.diagonal() if exclude_self else None
    return Bound(k, couple(k.apply, kernel.normalization, mu, present, diagonal))


def _filter(features: Array, choice: FilterChoice, calibrate: bool) -> LatticeFilter | ExactFilter[Array]:
    if choice.method == "exact":
        return ExactFilter(features)
    return LatticeFilter(
        features, operator=choice.operator, halo=choice.halo, calibrate=calibrate, threads=choice.threads
    )


def kernel_features(
    kernel: Kernel,
    sites: Mapping[str, npt.NDArray[np.generic]],
    dtype: npt.DTypeLike,
    threads: int,
    order: PixelOrder | None = None,
) -> Array:
    """What the kernel compares, divided by its widths, (N, d), pixels in pixel order if given."""
    parts = {part: sites[part] for part in kernel.widths_of_parts()}
    shape = kernel.shape({name: part.shape[1] for name, part in parts.items()})
    if shape.ndim == 2:
        columns = np.concatenate([np.asarray(part, np.float64) for part in parts.values()], axis=1)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused by the filter
            whitened: Array = (columns @ shape.T).astype(dtype)
        return whitened if order is None else whitened[order.indices]
    if dtype != np.float32:
        precise: Array = np.concatenate([np.asarray(part, dtype) for part in parts.values()], axis=1)
        precise /= shape.astype(dtype)
        return precise if order is None else precise[order.indices]
    features = np.empty((len(next(iter(parts.values()))), len(shape)), np.float32)
    first = 0
    for part in parts.values():
        last = first + part.shape[1]
        write_features(part, shape[first:last].tolist(), features, first, order, threads)
        first = last
    return features
