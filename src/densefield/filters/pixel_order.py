"""The order in which native code visits the pixels of an image or a volume, and their features in that order."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.filters.threads import default_threads

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]

MIN_PIXELS = 1 << 14  # smaller images are as fast row by row
MAX_PIXELS = 1 << 31  # native indices have 32 bits
MAX_CACHED_PIXELS = 1 << 20  # the indices of a cached order take up to 16 MB


class PixelOrder:
    """Pixels in blocks along a Z-order curve, then the columns right of the last whole block.

    Blocks are 64×32 pixels of an image, 64×16×8 of a volume. Consecutive pixels of this order touch fewer vertices of a
    lattice than consecutive rows.

    Parameters
    ----------
    height, width, depth
        Size of the image; of a volume if it is deeper than 1.

    >>> order = PixelOrder(64, 128)
    >>> order.indices[:3].tolist(), order.indices[64:66].tolist(), order.indices[64 * 32 :][:2].tolist()
    ([0, 1, 2], [128, 129], [64, 65])
    """

    def __init__(self, height: int, width: int, depth: int = 1) -> None:
        self.native = _core.PixelOrder(height, width, depth)

    @cached_property
    def indices(self) -> Int64:
        """Row-major index of the first, second, … pixel of the order, (N,)."""
        indices = np.empty(self.native.num_pixels, np.int64)
        self.native.fill_indices(indices)
        return indices

    @cached_property
    def inverse(self) -> Int64:
        """Position of each pixel of the image in the order, (N,): the inverse permutation of `indices`."""
        inverse = np.empty_like(self.indices)
        inverse[self.indices] = np.arange(len(inverse))
        return inverse

    def reorder(self, rows: Float32) -> Float32:
        """Return the `rows` (N, d) of an image's pixels in this order."""
        out = np.empty(rows.shape, np.float32)
        write_features(rows, [1.0] * rows.shape[1], out, 0, self, default_threads())
        return out


def pixel_order(shape: tuple[int, ...]) -> PixelOrder | None:
    """Return the order for a grid of this shape, or None where row-major order is as fast."""
    count = math.prod(shape)
    if len(shape) not in (2, 3) or not MIN_PIXELS <= count < MAX_PIXELS:
        return None
    if shape[-1] < 64 or (len(shape) == 2 and shape[0] < 64):
        return None
    size = (*shape[-2:], *shape[:-2])
    return _cached(*size) if count <= MAX_CACHED_PIXELS else PixelOrder(*size)


@lru_cache(maxsize=4)
def _cached(height: int, width: int, depth: int = 1) -> PixelOrder:
    return PixelOrder(height, width, depth)


def write_features(
    columns: npt.NDArray[np.generic],  # (N, C), pixels in row-major order, any strides
    widths: list[float],  # (C,)
    out: Float32,  # (N, …)
    offset: int,
    order: PixelOrder | None,
    threads: int,
) -> None:
    """Write columns / widths to out[:, offset : offset + C], with the pixels in `order` if given."""
    known = columns if columns.dtype in (np.uint8, np.float32, np.float64) else columns.astype(np.float32)
    if any(stride % known.itemsize for stride in known.strides):  # a field of packed records
        known = known.copy()
    _core.fill_features(known, widths, out, offset, None if order is None else order.native, threads)


def write_grid(
    lines: list[npt.NDArray[np.floating]],  # positions along each axis of the array
    widths: list[float],  # of each axis
    columns: list[int],  # of `out`, for each axis
    out: Float32,  # (N, …)
    order: PixelOrder | None,
    threads: int,
) -> None:
    """Write the positions of all pixels of a grid over the widths, as write_features() does from an array of them."""
    with np.errstate(all="ignore"):  # the filter refuses what is not finite
        scaled = [line.astype(np.float32) / np.float32(width) for line, width in zip(lines, widths, strict=True)]
    _core.fill_grid(scaled, columns, out, None if order is None else order.native, threads)
