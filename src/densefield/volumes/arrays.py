"""Volumes and rasters in files as arrays, for those that fit into memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError
from densefield.volumes.formats import check_target, open_grid, open_writer
from densefield.volumes.grid import Array

MOST_BYTES = 8  # of a number
STORED = {"bool": "uint8", "float16": "float32"}  # types that not all formats have


@dataclass(frozen=True)
class Volume:
    """The pixels of a volume or raster, and where they are.

    Parameters
    ----------
    values
        (D, H, W) or (H, W), with channels last if the file has several.
    spacing
        Size of a pixel along x, y(, z), as `densefield.CRF` and `densefield.refine` take it.
    unit
        The unit of the spacing, such as "mm", or "pixels".
    affine
        From indices x, y(, z) to a position, in the file's system; None if the file has no place.
    missing
        True where the file has no data, to be passed as ``ignore=``; None if it has data everywhere.
    """

    values: Array
    spacing: tuple[float, ...]
    unit: str
    affine: npt.NDArray[np.float64] | None
    missing: npt.NDArray[np.bool_] | None


def read_volume(path: Path | str) -> Volume:
    """Read a NIfTI, GeoTIFF, TIFF or Zarr file, or a folder of DICOM slices, into memory.

    Parameters
    ----------
    path
        The file or folder.

    >>> import tempfile
    >>> import nibabel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ct = nibabel.Nifti1Image(np.zeros((30, 20, 8), np.int16), np.diag([0.8, 0.8, 2.5, 1.0]))
    ...     nibabel.save(ct, f"{folder}/ct.nii.gz")
    ...     volume = read_volume(f"{folder}/ct.nii.gz")
    >>> volume.values.shape, volume.values.dtype.name, volume.unit, [round(each, 1) for each in volume.spacing]
    ((8, 20, 30), 'int16', 'mm', [0.8, 0.8, 2.5])
    """
    grid = open_grid(Path(path))
    pixels = grid.read(grid.whole)
    values = pixels.values[..., 0] if grid.channels is None else pixels.values
    return Volume(values, grid.spacing, grid.unit, grid.affine, pixels.missing)


def write_volume(path: Path | str, values: Array, *, like: Path | str) -> None:
    """Write labels, or probabilities of classes, in the format of another file and at its place.

    Parameters
    ----------
    path
        The file to write: .nii, .nii.gz, .tif or .zarr, in the format of `like`; NIfTI for DICOM.
    values
        Labels (D, H, W) or (H, W), or probabilities (L, D, H, W) or (L, H, W).
    like
        The file whose format, place and metadata the result has.

    >>> import tempfile
    >>> import nibabel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ct = nibabel.Nifti1Image(np.zeros((30, 20, 8), np.int16), np.diag([0.8, 0.8, 2.5, 1.0]))
    ...     nibabel.save(ct, f"{folder}/ct.nii.gz")
    ...     write_volume(f"{folder}/mask.nii.gz", np.ones((8, 20, 30), np.uint8), like=f"{folder}/ct.nii.gz")
    ...     mask = nibabel.load(f"{folder}/mask.nii.gz")
    >>> mask.shape, mask.get_data_dtype().name, np.allclose(mask.affine, ct.affine)
    ((30, 20, 8), 'uint8', True)
    """
    grid, out = open_grid(Path(like)), Path(path)
    check_target(out, grid)
    array = np.asarray(values)
    array = array.astype(STORED.get(array.dtype.name, array.dtype), copy=False)
    channels = array.shape[0] if array.ndim > len(grid.shape) else None
    is_number = array.dtype.kind in "iuf" and array.dtype.itemsize <= MOST_BYTES
    if array.shape not in (grid.shape, (channels, *grid.shape)) or not is_number:
        raise InputError(
            f"values have shape {array.shape} and type {array.dtype}, but {like} has {grid.describe()}: expected "
            f"numbers {grid.shape} of up to 64 bits, or one such array for each class."
        )
    with open_writer(out, grid, grid, array.dtype, channels) as write:
        write(grid.whole, array)
