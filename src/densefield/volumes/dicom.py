"""DICOM series: a folder of slices as a volume."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError
from densefield.io.messages import cause
from densefield.io.untrusted import check_array
from densefield.lazy import optional_module
from densefield.volumes.grid import Grid, in_memory

PREAMBLE, MAGIC = 128, b"DICM"
UNEVEN = 0.1  # of the distance of slices: the largest deviation from its median
TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])  # DICOM's axes point left and posterior, those of NIfTI right and anterior


def is_dicom_folder(path: Path) -> bool:
    """Whether the first file of a folder, or one of the next few, is DICOM."""
    if not path.is_dir():
        return False
    files = sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith("."))
    return any(_is_dicom(each) for each in files[:8])


def _is_dicom(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(PREAMBLE + len(MAGIC))[PREAMBLE:] == MAGIC
    except OSError:
        return False


def open_dicom(folder: Path) -> Grid:
    """The slices of one series in a folder, sorted by position, as a volume (z, y, x) in rescaled values such as HU."""
    pydicom = optional_module("pydicom", "reading DICOM")
    series: dict[str, list[Any]] = defaultdict(list)
    for path in sorted(each for each in folder.iterdir() if each.is_file() and _is_dicom(each)):
        try:
            header = pydicom.dcmread(path)
        except Exception as error:  # damaged files raise errors of many types
            raise InputError(f"{path} cannot be read as DICOM: {cause(error)}.") from error
        if "ImagePositionPatient" in header and "Rows" in header:  # others are reports, or directories
            series[str(header.get("SeriesInstanceUID", ""))].append(header)
    if len(series) != 1:
        names = ", ".join(str(slices[0].get("SeriesDescription", uid)) for uid, slices in series.items())
        found = f"{len(series)} series ({names})" if series else "no slices with a position"
        raise InputError(f"{folder} holds {found}, expected the slices of one series.")
    (slices,) = series.values()
    try:
        return _volume(folder, slices)
    except InputError:
        raise
    except Exception as error:  # missing and empty elements raise errors of many types
        raise InputError(f"{folder} has slices with an incomplete header: {cause(error)}.") from error


def _volume(folder: Path, slices: list[Any]) -> Grid:
    first = slices[0]
    shape = (len(slices), int(first.Rows), int(first.Columns))
    check_array(folder, shape, 4 * int(np.prod(shape)))
    across, down = np.array(first.ImageOrientationPatient, np.float64).reshape(2, 3)
    normal = np.cross(across, down)
    for each in slices:
        same = np.allclose(np.array(each.ImageOrientationPatient, float), [*across, *down], atol=1e-3)
        if not same or (each.Rows, each.Columns) != shape[1:] or each.get("SamplesPerPixel", 1) != 1:
            raise InputError(
                f"{folder} holds slices of different sizes or orientations, or in colours: expected one kind."
            )
    slices.sort(key=lambda each: float(normal @ np.array(each.ImagePositionPatient, np.float64)))
    places = np.array([each.ImagePositionPatient for each in slices], np.float64)
    gaps = np.diff(places @ normal)
    step = float(np.median(gaps)) if len(gaps) else float(first.get("SliceThickness") or 1.0)
    if len(gaps) and (step <= 0 or (np.abs(gaps - step) > UNEVEN * step).any()):
        raise InputError(
            f"{folder} holds slices that are {gaps.min():.4g} to {gaps.max():.4g} mm apart, expected equal distances: "
            "slices are missing, or it holds several volumes."
        )
    rows_apart, columns_apart = (float(each) for each in first.PixelSpacing)
    affine = np.eye(4)
    affine[:3, 0], affine[:3, 1] = across * columns_apart, down * rows_apart
    affine[:3, 2] = (places[-1] - places[0]) / max(len(slices) - 1, 1) if len(slices) > 1 else normal * step
    affine[:3, 3] = places[0]
    spacing = tuple(float(each) for each in np.linalg.norm(affine[:3, :3], axis=0))
    values = np.stack([_rescaled(each) for each in slices])
    return in_memory(values, spacing=spacing, unit="mm", path=folder, kind="dicom", affine=TO_RAS @ affine, source=None)


def _rescaled(header: Any) -> npt.NDArray[Any]:
    """The values of a slice, in the unit of its rescaling; int16 if they are integers of that range."""
    try:
        stored = header.pixel_array
    except Exception as error:  # compressed slices need further packages
        cure = "Compressed DICOM needs pylibjpeg: pip install 'pylibjpeg[all]'."
        if not header.file_meta.TransferSyntaxUID.is_compressed:
            cure = "It may be damaged, or no image."
        raise InputError(f"{header.filename} has pixels that cannot be decoded: {cause(error)}. {cure}") from error
    slope, intercept = float(header.get("RescaleSlope") or 1), float(header.get("RescaleIntercept") or 0)
    values = stored * slope + intercept
    if slope.is_integer() and intercept.is_integer() and values.min() >= -32768 and values.max() <= 32767:
        values = values.astype(np.int16)
    else:
        values = values.astype(np.float32)
    return np.asarray(values)
