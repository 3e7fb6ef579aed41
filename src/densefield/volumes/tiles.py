"""Tiles of a grid with a halo, so that large files need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from densefield.errors import InputError
from densefield.volumes.grid import Box


class Tile(NamedTuple):
    """A part of a grid: the pixels whose result is used, and those that are computed with them.

    Parameters
    ----------
    core
        The box whose result is used. The cores of all tiles cover the grid once.
    outer
        The core with its halo.
    inner
        The core as a box of `outer`.
    """

    core: Box
    outer: Box
    inner: Box


def tiles(shape: Sequence[int], side: int | Sequence[int], halo: int | Sequence[int] = 0) -> Iterator[Tile]:
    """The tiles of a grid, row by row; sides and halos are in pixels, one number or one per axis of the shape.

    >>> [(tile.core[0], tile.outer[0]) for tile in tiles((10,), 5, 2)]
    [(slice(0, 5, None), slice(0, 7, None)), (slice(5, 10, None), slice(3, 10, None))]
    """
    sides, halos = per_axis(side, len(shape)), per_axis(halo, len(shape))
    starts = [range(0, size, step) for size, step in zip(shape, sides, strict=True)]
    for corner in product(*starts):
        core, outer, inner = [], [], []
        for at, size, step, margin in zip(corner, shape, sides, halos, strict=True):
            end = min(at + step, size)
            first = max(at - margin, 0)
            core.append(slice(at, end))
            outer.append(slice(first, min(end + margin, size)))
            inner.append(slice(at - first, end - first))
        yield Tile(tuple(core), tuple(outer), tuple(inner))


def even_sides(shape: Sequence[int], most: int) -> tuple[int, ...]:
    """Sides of equally large tiles of at most `most` pixels along each axis.

    >>> even_sides((30, 100), 40)
    (30, 34)
    """
    return tuple(-(-size // -(-size // most)) if size else 1 for size in shape)


def box_shape(box: Box) -> tuple[int, ...]:
    """The number of pixels of a box along each axis.

    >>> box_shape((slice(2, 5), slice(0, 4)))
    (3, 4)
    """
    return tuple(part.stop - part.start for part in box)


def per_axis(given: int | Sequence[int], axes: int) -> tuple[int, ...]:
    """One number for each axis.

    >>> per_axis(3, 2), per_axis([1, 2], 2)
    ((3, 3), (1, 2))
    """
    numbers = (given,) * axes if isinstance(given, int) else tuple(given)
    if len(numbers) != axes:
        raise InputError(f"got {len(numbers)} numbers for tiles, expected {axes}, one per axis.")
    return numbers
