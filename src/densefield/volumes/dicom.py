"""DICOM series: a folder of slices as a volume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError
from densefield.io.messages import cause
from densefield.io.untrusted import check_array
from densefield.volumes.dicom_series import ENDINGS, ending, is_dicom, read_series, slice_files
from densefield.volumes.grid import Grid, in_memory

MOST_LIKELY, MOST_OTHERS = 64, 8  # files that are looked at to tell whether a folder is a series
UNEVEN = 0.1  # of the distance of slices: the largest deviation from its median
TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])  # DICOM's axes point left and posterior, those of NIfTI right and anterior


def is_dicom_folder(path: Path) -> bool:
    """Whether one of the first files of a folder is DICOM; those whose names are like those of slices come first."""
    if not path.is_dir():
        return False
    files = slice_files(path)
    likely = [each for each in files if ending(each) in ENDINGS]
    others = [each for each in files if ending(each) not in ENDINGS]
    return any(is_dicom(each) for each in (*likely[:MOST_LIKELY], *others[:MOST_OTHERS]))


def open_dicom(folder: Path) -> Grid:
    """The slices of one series in a folder, sorted by position, as a volume (z, y, x) in rescaled values such as HU.

    Pixels with the padding value are missing.
    """
    series = read_series(folder)
    if len(series) != 1:
        names = ", ".join(str(slices[0].get("SeriesDescription", uid)) for uid, slices in series.items())
        found = f"{len(series)} series ({names})" if series else "no slices with a position"
        cure = " Move each series to a folder of its own." if series else ""
        raise InputError(f"{folder} holds {found}, expected the slices of one series.{cure}")
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
        worst = int(np.abs(gaps - step).argmax())
        names = " and ".join(Path(each.filename).name for each in slices[worst : worst + 2])
        raise InputError(
            f"{folder} holds slices that are {gaps.min():.4g} to {gaps.max():.4g} mm apart, expected equal distances: "
            f"{names} are {gaps[worst]:.4g} mm apart. Slices are missing, or it holds several volumes."
        )
    rows_apart, columns_apart = (float(each) for each in first.PixelSpacing)
    affine = np.eye(4)
    affine[:3, 0], affine[:3, 1] = across * columns_apart, down * rows_apart
    affine[:3, 2] = (places[-1] - places[0]) / max(len(slices) - 1, 1) if len(slices) > 1 else normal * step
    affine[:3, 3] = places[0]
    spacing = tuple(float(each) for each in np.linalg.norm(affine[:3, :3], axis=0))
    read = [_rescaled(each) for each in slices]
    missing = np.stack([padded for _, padded in read])
    return in_memory(
        np.stack([values for values, _ in read]),
        spacing=spacing,
        unit="mm",
        path=folder,
        kind="dicom",
        affine=TO_RAS @ affine,
        source=None,
        missing=missing if missing.any() else None,
    )


def _rescaled(header: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """The values of a slice in the unit of its rescaling, int16 if they are integers of that range, and its padding."""
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
    return np.asarray(values), _padding(header, stored)


def _padding(header: Any, stored: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where stored values are padding: those of PixelPaddingValue, up to PixelPaddingRangeLimit."""
    first = header.get("PixelPaddingValue")
    if first is None:
        return np.zeros(stored.shape, bool)
    last = header.get("PixelPaddingRangeLimit")
    low, high = sorted((int(first), int(first if last is None else last)))
    return (stored >= low) & (stored <= high)
