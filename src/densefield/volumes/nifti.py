"""NIfTI files: volumes with spacing and place from the affine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from densefield.errors import InputError
from densefield.io.files import replaced
from densefield.io.messages import cause
from densefield.io.untrusted import check_array
from densefield.lazy import optional_module
from densefield.volumes.grid import Array, Box, Grid, in_memory, inside

SUFFIXES = (".nii", ".nii.gz")
MOST_CHANNELS = 64  # more are probably times


def open_nifti(path: Path) -> Grid:
    """A NIfTI file (x, y, z) as a volume (z, y, x), or (x, y, z, C) as one with channels.

    Scaled integers are read as the numbers they stand for, and others in their type. Lengths in metres become mm, and a
    header without a unit means mm.
    """
    nibabel = optional_module("nibabel", "reading NIfTI")
    try:
        picture = nibabel.load(path)
        shape = tuple(int(each) for each in picture.shape)
        if not isinstance(picture, nibabel.Nifti1Image):
            raise InputError(f"{path} is of type {type(picture).__name__}, expected NIfTI: .nii or .nii.gz.")
        while len(shape) > 3 and shape[-1] == 1:
            shape = shape[:-1]
        if len(shape) == 5 and shape[3] == 1:  # vectors, by the standard
            shape = (*shape[:3], shape[4])
        _check_shape(path, shape)
        check_array(path, shape, picture.get_data_dtype().itemsize * int(np.prod(shape)))
        values = np.asanyarray(picture.dataobj).reshape(shape, order="F")
    except (InputError, FileNotFoundError):
        raise
    except Exception as error:  # damaged files raise errors of many types: zlib.error, EOFError, HeaderDataError, …
        raise InputError(f"{path} cannot be read as NIfTI: {cause(error)}.") from error
    if values.dtype.kind not in "iufb":
        raise InputError(f"{path} has values of type {values.dtype}, expected numbers.")
    affine = np.asarray(picture.affine, np.float64)
    spacing = tuple(float(each) for each in np.linalg.norm(affine[:3, :3], axis=0))
    if not np.isfinite(affine).all():
        raise InputError(f"{path} has the affine {affine.tolist()}, expected finite numbers.")
    unit = picture.header.get_xyzt_units()[0]
    if unit == "meter":
        spacing = tuple(1000 * each for each in spacing)
    grid = values.T if values.ndim == 3 else np.moveaxis(values.T, 0, -1)  # (z, y, x, C)
    channels = None if values.ndim == 3 else shape[3]
    return in_memory(
        grid,
        channels=channels,
        spacing=spacing,
        unit="µm" if unit == "micron" else "mm",
        path=path,
        kind="nifti",
        affine=affine,
        source=picture,
    )


def check_same_unit(image: Grid, mask: Grid) -> None:
    """Raises if image and mask say that their affines have different units."""
    one, other = (_named_unit(grid) for grid in (image, mask))
    if one is not None and other is not None and one != other:
        raise InputError(
            f"{image.path} has lengths in {one}, but {mask.path} in {other}: correct the unit in one of the headers, "
            "or save both in one unit."
        )


def _named_unit(grid: Grid) -> str | None:
    """The unit of an affine, None if the file does not say it."""
    if grid.kind == "dicom":
        return "mm"
    unit = grid.source.header.get_xyzt_units()[0] if grid.kind == "nifti" else "unknown"
    return None if unit == "unknown" else str(unit)


def _check_shape(path: Path, shape: tuple[int, ...]) -> None:
    if len(shape) not in (3, 4) or 0 in shape:
        raise InputError(f"{path} has shape {shape}, expected (x, y, z), or (x, y, z, channels).")
    if len(shape) == 4 and shape[3] > MOST_CHANNELS:
        raise InputError(
            f"{path} has shape {shape}, that is {shape[3]} channels, expected at most {MOST_CHANNELS}. If the last "
            "axis is time, save each time as a file of its own."
        )


@contextmanager
def nifti_writer(
    path: Path, like: Grid, dtype: np.dtype[Any], channels: int | None
) -> Iterator[Callable[[Box, Array], None]]:
    """A function that writes boxes of labels (…) or probabilities (L, …); the file appears at the end of the block.

    Affine, header and axes of size 1 are those of `like`.
    """
    nibabel = optional_module("nibabel", "writing NIfTI")
    leading = () if channels is None else (channels,)
    values = np.zeros((*leading, *like.shape), dtype)

    def write(box: Box, part: Array) -> None:
        values[inside(box)] = part

    yield write
    source = like.source if isinstance(like.source, nibabel.Nifti1Image) else None
    header = None if source is None else source.header.copy()
    kind = nibabel.Nifti1Image if source is None else type(source)
    stored = values.T
    if source is not None and stored.size == np.prod(source.shape):  # with axes of size 1, as that of time
        stored = stored.reshape(source.shape, order="F")
    picture = kind(stored, like.affine, header, dtype=dtype)
    if source is None:
        picture.header.set_xyzt_units("mm")
    picture.header["cal_min"] = picture.header["cal_max"] = 0
    picture.header.set_slope_inter(1, 0)
    with replaced(path) as part:
        nibabel.save(picture, part)
