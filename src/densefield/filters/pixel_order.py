"""The order in which kernels have the pixels of an image, so that those nearby come soon after each other."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.filters.threads import default_threads

Int64 = npt.NDArray[np.int64]

LEAST_PIXELS = 1 << 14  # fewer are as quickly gone through row by row
MOST_PIXELS = 1 << 31  # as many as there are indices for
MOST_KEPT = 1 << 20  # pixels of a walk that is kept for the next image: its order may take 16 MB


class Walk:
    """Blocks of 64×32 pixels along a Z-shaped curve, then the columns that are left over.

    As many pixels of it touch fewer vertices of a lattice than whole rows of an image do.

    >>> walk = Walk(64, 128)
    >>> walk.order[:3].tolist(), walk.order[64:66].tolist(), walk.order[64 * 32 :][:2].tolist()
    ([0, 1, 2], [128, 129], [64, 65])
    """

    def __init__(self, height: int, width: int) -> None:
        self.native = _core.Walk(height, width)

    @cached_property
    def order(self) -> Int64:
        """Which pixel of the image is the first, second, … of the walk, (N,)."""
        order = np.empty(self.native.points, np.int64)
        self.native.fill_order(order)
        return order

    @cached_property
    def places(self) -> Int64:
        """Where in the walk each pixel of the image is, (N,): the inverse of `order`."""
        places = np.empty_like(self.order)
        places[self.order] = np.arange(len(places))
        return places

    def along(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Numbers of pixels (N, d), row by row or in any layout, in the order of the walk."""
        out = np.empty(rows.shape, np.float32)
        write_columns(rows, [1.0] * rows.shape[1], out, 0, self, default_threads())
        return out


def write_columns(
    part: npt.NDArray[np.generic],  # (N, C), by pixels of the image, in any layout
    widths: list[float],  # (C,)
    out: npt.NDArray[np.float32],  # (N, …), in the order of the walk if any
    offset: int,
    walk: Walk | None,
    threads: int,
) -> None:
    """Columns over their widths, as columns of `out` from `offset` on."""
    known = part if part.dtype in (np.uint8, np.float32, np.float64) else part.astype(np.float32)
    if any(stride % known.itemsize for stride in known.strides):  # a field of packed records
        known = known.copy()
    _core.fill_features(known, widths, out, offset, None if walk is None else walk.native, threads)


def walk_through(shape: tuple[int, ...]) -> Walk | None:
    """The walk for grids of this shape, or None where rows, as they come, do as well."""
    if len(shape) != 2 or min(shape) < 64 or not LEAST_PIXELS <= shape[0] * shape[1] < MOST_PIXELS:
        return None
    return _kept(*shape) if shape[0] * shape[1] <= MOST_KEPT else Walk(*shape)


@lru_cache(maxsize=4)
def _kept(height: int, width: int) -> Walk:
    return Walk(height, width)
