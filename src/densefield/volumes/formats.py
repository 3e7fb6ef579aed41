"""The reader and the writer of a path."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from densefield.errors import InputError
from densefield.volumes import nifti
from densefield.volumes.dicom import is_dicom_folder, open_dicom
from densefield.volumes.geotiff import check_same_crs, geotiff_writer, open_geotiff
from densefield.volumes.grid import Array, Box, Grid, Kind
from densefield.volumes.orientation import oriented_like
from densefield.volumes.tiff import open_tiff, pages_as_bands, tiff_writer
from densefield.volumes.tiff_header import read_tiff_header
from densefield.volumes.zarr_arrays import ROOTS, check_replaceable, open_zarr, zarr_writer

TIFF = (".tif", ".tiff")
ZARR = (".zarr",)
ENDINGS: dict[Kind, tuple[str, ...]] = {
    "nifti": nifti.SUFFIXES,
    "dicom": nifti.SUFFIXES,
    "geotiff": TIFF,
    "tiff": TIFF,
    "zarr": ZARR,
}
WRITERS: dict[Kind, Callable[..., AbstractContextManager[Callable[[Box, Array], None]]]] = {
    "nifti": nifti.nifti_writer,
    "dicom": nifti.nifti_writer,
    "geotiff": geotiff_writer,
    "tiff": tiff_writer,
    "zarr": zarr_writer,
}
KINDS = "NIfTI (.nii, .nii.gz), a folder of DICOM slices, GeoTIFF, TIFF (.tif) or Zarr (.zarr)"


def volume_kind(path: Path) -> Kind | None:
    """The format of a raster or volume; None for a photo, which TIFF files may be too, and for anything else.

    >>> volume_kind(Path("ct.nii.gz")), volume_kind(Path("cat.jpg"))
    ('nifti', None)
    """
    name = path.name.lower()
    if name.endswith(nifti.SUFFIXES):
        return "nifti"
    if name.endswith(TIFF):
        header = read_tiff_header(path)
        if header is None or header.is_photo:
            return None
        return "geotiff" if header.georeferenced else "tiff"
    if _is_zarr(path):
        return "zarr"
    return "dicom" if is_dicom_folder(path) else None


def _is_zarr(path: Path) -> bool:
    return path.name.lower().endswith(ZARR) or (path.is_dir() and any((path / name).is_file() for name in ROOTS))


def open_grid(path: Path, *, is_mask: bool = False, shape: tuple[int, ...] | None = None) -> Grid:
    """A file as a raster or volume, also if it may be a photo.

    Parameters
    ----------
    path
        The file or folder.
    is_mask
        It holds labels or probabilities.
    shape
        The shape of the other file of a pair, if known, to tell an axis of channels in Zarr.
    """
    if not path.exists():
        raise InputError(f"there is no file or folder {path}.")
    kind = volume_kind(path)
    if kind == "nifti":
        return nifti.open_nifti(path)
    if kind == "geotiff":
        return open_geotiff(path, is_mask=is_mask)
    if kind == "zarr":
        return open_zarr(path, shape)
    if kind == "dicom":
        return open_dicom(path)
    if kind == "tiff" or path.name.lower().endswith(TIFF):
        return open_tiff(path)
    raise InputError(f"{path} is not a raster or volume, expected {KINDS}.")


def open_pair(image: Path, mask: Path) -> tuple[Grid, Grid]:
    """An image and its mask, with the axes of the image in the order and directions of those of the mask."""
    if volume_kind(mask) is None and not mask.name.lower().endswith(TIFF):
        raise InputError(f"{mask} is no raster or volume, but {image} is: save the mask as {KINDS}.")
    if volume_kind(image) == volume_kind(mask) == "zarr":
        picture, rough = _open_zarr_pair(image, mask)
    elif volume_kind(mask) == "zarr":
        picture = open_grid(image)
        rough = open_grid(mask, is_mask=True, shape=picture.shape)
    else:
        rough = open_grid(mask, is_mask=True)
        picture = open_grid(image, shape=rough.shape)
    if picture.kind == rough.kind == "geotiff":
        check_same_crs(picture, rough)
    nifti.check_same_unit(picture, rough)
    if picture.kind == "tiff" and picture.channels is None and picture.shape[1:] == rough.shape:
        picture = pages_as_bands(picture)
    return oriented_like(picture, rough), rough


def _open_zarr_pair(image: Path, mask: Path) -> tuple[Grid, Grid]:
    """Two Zarr files: the one whose axes are clear tells an axis of channels of the other."""
    try:
        picture = open_grid(image)
    except InputError:
        rough = open_grid(mask, is_mask=True)
        return open_grid(image, shape=rough.shape), rough
    rough = open_grid(mask, is_mask=True, shape=picture.shape)
    return picture if picture.shape == rough.shape else open_grid(image, shape=rough.shape), rough


def check_ending(out: Path, like: Path) -> None:
    """Raises unless a path has an ending of the format of another file.

    >>> check_ending(Path("refined.png"), Path("mask.nii"))
    Traceback (most recent call last):
        ...
    densefield.errors.InputError: refined.png ends in '.png', but has the format of mask.nii: expected .nii or .nii.gz.
    """
    kind = volume_kind(like)
    if kind is None and not like.name.lower().endswith(TIFF):
        raise InputError(f"{like} is no raster or volume, but the image is: save the mask as {KINDS}.")
    endings = TIFF if kind is None else ENDINGS[kind]
    is_in_group = kind == "zarr" and any((out.parent / name).is_file() for name in ROOTS)  # such as image.zarr/labels
    if not out.name.lower().endswith(endings) and not is_in_group:
        came = f"ends in {out.suffix!r}" if out.suffix else "has no ending"
        raise InputError(f"{out} {came}, but has the format of {like}: expected {' or '.join(endings)}.")


def check_target(out: Path, like: Grid) -> None:
    """Raises unless a path has an ending of the format of a file, and nothing else is there that would be lost."""
    check_ending(out, like.path)
    if like.kind == "zarr":
        check_replaceable(out)
    elif out.is_dir():
        raise InputError(f"{out} is a folder, expected the name of a file: remove it, or choose another name.")


def check_output(out: Path, image: Grid, mask: Grid) -> None:
    """Raises unless a result in the format of the mask can be written to a path."""
    check_target(out, mask)
    for path in (image.path, mask.path):
        if out.resolve() == path.resolve():
            raise InputError(f"{out} is also an input: choose another file for the result.")


def open_writer(
    out: Path, image: Grid, mask: Grid, dtype: np.dtype[Any], channels: int | None
) -> AbstractContextManager[Callable[[Box, Array], None]]:
    """The writer of a result in the format of the mask, and at its place, or that of the image if it has none."""
    like = mask if mask.affine is not None else replace(mask, affine=image.affine)
    return WRITERS[mask.kind](out, like, dtype, channels)
