"""An opened raster or volume: its size, spacing and place, and its pixels by boxes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError
from densefield.volumes.units import METRES

Array = npt.NDArray[Any]
Box = tuple[slice, ...]
Kind = Literal["nifti", "dicom", "geotiff", "tiff", "zarr"]

SAME_PLACE = 0.01  # pixels: the largest difference of the places of the corners of image and mask


class Pixels(NamedTuple):
    """Values (…, C) of a box, and True (…) where the file has no data; None if it has data everywhere."""

    values: Array
    missing: npt.NDArray[np.bool_] | None


@dataclass(frozen=True)
class Grid:
    """A raster (H, W) or a volume (D, H, W) in a file, read by boxes.

    Parameters
    ----------
    path
        The file or folder.
    kind
        Its format.
    shape
        (H, W) or (D, H, W).
    channels
        Number of channels, bands or classes; None if the file has no such axis.
    dtype
        The type of its numbers.
    spacing
        Size of a pixel along x, y(, z).
    unit
        Unit of the spacing, such as "mm"; "pixels" if the file has none.
    read
        Reads the pixels of a box.
    affine
        (4, 4) from indices x, y, z of voxels, or (3, 3) from those of pixels, to a position in space; None if unknown.
    source
        What the writer of the format takes over from the file.
    origin
        Position of the first pixel along x, y(, z) in the unit of the spacing, of files that have no affine; None if
        unknown.
    """

    path: Path
    kind: Kind
    shape: tuple[int, ...]
    channels: int | None
    dtype: np.dtype[Any]
    spacing: tuple[float, ...]
    unit: str
    read: Callable[[Box], Pixels]
    affine: npt.NDArray[np.float64] | None = None
    source: Any = None
    origin: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Raises if a pixel has no size."""
        if not all(np.isfinite(each) and each > 0 for each in self.spacing):
            found = " × ".join(f"{each:.6g}" for each in self.spacing)
            raise InputError(f"{self.path} has pixels of the size {found} {self.unit}, expected lengths above 0.")

    @property
    def whole(self) -> Box:
        """The box of all pixels."""
        return tuple(slice(0, size) for size in self.shape)

    def describe(self) -> str:
        """The size in words.

        >>> in_memory(np.zeros((4, 6, 13))[None], channels=13).describe()
        '1 × 4 × 6 pixels, 13 channels'
        """
        size = " × ".join(map(str, self.shape))
        return f"{size} pixels" + ("" if self.channels is None else f", {self.channels} channels")


def inside(box: Box) -> tuple[Any, ...]:
    """The index of a box in an array whose last axes are those of the grid.

    >>> np.arange(12).reshape(2, 2, 3)[inside((slice(0, 1), slice(1, 2)))].tolist()
    [[[1]], [[7]]]
    """
    return (Ellipsis, *box)


def in_memory(
    values: Array,
    *,
    channels: int | None = None,
    spacing: tuple[float, ...] | None = None,
    unit: str = "pixels",
    path: Path = Path("array"),
    kind: Kind = "tiff",
    affine: npt.NDArray[np.float64] | None = None,
    source: Any = None,
    missing: npt.NDArray[np.bool_] | None = None,
) -> Grid:
    """A grid of an array (…, C), or (…) without channels; NaN is missing, and what is True in `missing` (…)."""
    shape = values.shape if channels is None else values.shape[:-1]

    def read(box: Box) -> Pixels:
        part = values[box] if channels is not None else values[box][..., None]
        found = missing_values(part, None)
        if missing is not None and missing[box].any():
            found = missing[box] if found is None else found | missing[box]
        return Pixels(part, found)

    steps = (1.0,) * len(shape) if spacing is None else spacing
    return Grid(path, kind, shape, channels, values.dtype, steps, unit, read, affine, source)


def missing_values(values: Array, nodata: float | None) -> npt.NDArray[np.bool_] | None:
    """True (…) where values (…, C) have no data; None if there are none.

    One channel that is NaN, infinite or a fill value suffices: a `nodata` that is negative or of a floating point type.
    Other values of `nodata`, such as 0 or 255, may be intensities, so all channels must have it.
    """
    missing: npt.NDArray[np.bool_] | None = None
    if np.issubdtype(values.dtype, np.floating):
        bad = np.asarray(~np.isfinite(values).all(axis=-1))
        missing = bad if bad.any() else None
    if nodata is not None and np.isfinite(nodata):
        is_fill = nodata < 0 or (np.issubdtype(values.dtype, np.floating) and nodata != 0)
        empty = np.asarray((values == nodata).any(axis=-1) if is_fill else (values == nodata).all(axis=-1))
        missing = empty if missing is None else missing | empty
    return missing if missing is not None and missing.any() else None


def check_same_place(image: Grid, mask: Grid) -> None:
    """Raises unless image and mask have the same size, and the same place if both say where they are."""
    if image.shape != mask.shape:
        raise InputError(
            f"{image.path} has {image.describe()}, but {mask.path} has {mask.describe()}: expected the same size. "
            f"Resample the mask to the image without interpolating its labels."
        )
    if image.affine is None or mask.affine is None or image.affine.shape != mask.affine.shape:
        _check_same_lengths(image, mask)
        return
    size = [each - 1 for each in reversed(image.shape)]
    corners = np.array(np.meshgrid(*[(0, each) for each in size], indexing="ij"), np.float64).reshape(len(size), -1)
    corners = np.concatenate([corners, np.ones((1, corners.shape[1]))])
    apart = np.linalg.norm(((image.affine - mask.affine) @ corners)[:-1], axis=0).max()
    pixel = np.linalg.norm(image.affine[:-1, 0])
    if apart > SAME_PLACE * pixel:
        raise InputError(
            f"{mask.path} is not aligned with {image.path}: their corners are up to {apart:.4g} apart, and a pixel "
            f"is {pixel:.4g}. Resample the mask to the image without interpolating its labels."
        )


def _check_same_lengths(image: Grid, mask: Grid) -> None:
    """Raises if two files without an affine say that their pixels differ in size, or that they begin elsewhere."""
    comparable = image.unit == mask.unit or {image.unit, mask.unit} <= METRES.keys()
    if image.affine is not None or mask.affine is not None or not comparable or image.kind != mask.kind:
        return
    factor = 1.0 if image.unit == mask.unit else METRES[mask.unit] / METRES[image.unit]
    sized = [grid for grid in (image, mask) if any(each != 1 for each in grid.spacing) or grid.origin is not None]
    if len(sized) < 2:
        return
    spacing = np.array(image.spacing)
    if not np.allclose(spacing, factor * np.array(mask.spacing), rtol=SAME_PLACE, atol=0):
        own, other = (" × ".join(f"{each:.4g}" for each in grid.spacing) for grid in (image, mask))
        raise InputError(
            f"{mask.path} has pixels of {other} {mask.unit}, but those of {image.path} have {own} {image.unit}: "
            "expected the same size. Correct the size in one of the files, or resample the mask to the image."
        )
    if image.origin is None or mask.origin is None:
        return
    if (np.abs(np.array(image.origin) - factor * np.array(mask.origin)) > SAME_PLACE * spacing).any():
        own, other = (", ".join(f"{each:.4g}" for each in grid.origin or ()) for grid in (image, mask))
        raise InputError(
            f"{mask.path} begins at {other} {mask.unit} (x, y, z), but {image.path} at {own} {image.unit}: expected "
            "the same place. Correct the translation in one of the files, or resample the mask to the image."
        )
