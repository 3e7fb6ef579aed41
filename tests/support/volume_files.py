"""Small volumes and rasters in files, with a rough mask and its truth."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

SPACING = (1.5, 1.5, 3.0)  # mm along x, y, z


class Case(NamedTuple):
    """An image, the true labels, and a rough mask."""

    image: np.ndarray
    truth: np.ndarray
    rough: np.ndarray


def organ_volume(shape: tuple[int, int, int] = (14, 48, 56), seed: int = 9031) -> Case:
    """Two organs with noise of 20 HU; the mask is in blocks of 4 × 4 voxels."""
    rng = np.random.default_rng(seed)
    z, y, x = np.indices(shape)
    d, h, w = shape
    truth = np.zeros(shape, np.uint8)
    truth[((x - 0.32 * w) / 13) ** 2 + ((y - 0.5 * h) / 16) ** 2 + ((z - d / 2) / 6) ** 2 < 1] = 1
    truth[((x - 0.75 * w) / 9) ** 2 + ((y - 0.45 * h) / 11) ** 2 + ((z - d / 2) / 5) ** 2 < 1] = 3
    image = np.array([-90.0, 110.0, 0.0, 190.0])[truth] + 20 * rng.standard_normal(shape)
    rough = truth[:, 2::4, 2::4].repeat(4, axis=1).repeat(4, axis=2)
    return Case(np.rint(image).astype(np.int16), truth, rough)


def land_raster(bands: int = 6, shape: tuple[int, int] = (150, 180), seed: int = 9032) -> Case:
    """A lake and a wood with spectra of 16 bits; the mask is shifted by three rows and four columns."""
    rng = np.random.default_rng(seed)
    y, x = np.indices(shape)
    truth = np.zeros(shape, np.uint8)
    truth[((x - 60) / 40) ** 2 + ((y - 70) / 45) ** 2 + 0.15 * np.sin(x / 5) < 1] = 1
    truth[(x > 120) & (y + 6 * np.sin(x / 7) > 80)] = 2
    spectra = np.linspace([1500, 500, 900], [2800, 300, 1900], bands)  # (bands, 3)
    image = spectra.T[truth] + 90 * rng.standard_normal((*shape, bands))
    return Case(np.clip(image, 1, 65535).astype(np.uint16), truth, np.roll(truth, (3, 4), (0, 1)))


def error_share(labels: np.ndarray, truth: np.ndarray) -> float:
    """The share of the pixels with a wrong label."""
    return float(np.mean(labels != truth))


def write_nifti(path: Path, values: np.ndarray, affine: np.ndarray | None = None) -> Path:
    """A volume (z, y, x), or (L, z, y, x) of classes."""
    import nibabel

    place = np.diag([*SPACING, 1.0]) if affine is None else affine
    nibabel.save(nibabel.Nifti1Image(values.T, place, dtype=values.dtype), path)
    return path


def read_nifti(path: Path) -> np.ndarray:
    import nibabel

    return np.asarray(nibabel.load(path).dataobj).T


def write_geotiff(path: Path, values: np.ndarray, *, crs: str = "EPSG:32632", **profile: object) -> Path:
    """A raster (H, W) or (H, W, bands) at 10 m per pixel."""
    import rasterio

    bands = values[..., None] if values.ndim == 2 else values
    place = {"crs": crs, "transform": rasterio.Affine(10, 0, 500_000, 0, -10, 5_200_000), **profile}
    height, width, count = bands.shape
    with rasterio.open(
        path, "w", driver="GTiff", height=height, width=width, count=count, dtype=bands.dtype, **place
    ) as file:
        file.write(np.moveaxis(bands, -1, 0))
    return path


def read_geotiff(path: Path) -> np.ndarray:
    import rasterio

    with rasterio.open(path) as file:
        return file.read(1)


def write_dicom(folder: Path, values: np.ndarray, leave_out: int | None = None) -> Path:
    """A series of slices in an arbitrary order of names, stored with an intercept of -1024."""
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

    folder.mkdir()
    series = generate_uid()
    for number in np.random.default_rng(4).permutation(len(values)):
        if number == leave_out:
            continue
        each = Dataset()
        each.file_meta = FileMetaDataset()
        each.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        each.file_meta.MediaStorageSOPClassUID = each.SOPClassUID = CTImageStorage
        each.file_meta.MediaStorageSOPInstanceUID = each.SOPInstanceUID = generate_uid()
        each.SeriesInstanceUID, each.Modality = series, "CT"
        each.Rows, each.Columns = values.shape[1:]
        each.PixelSpacing = [SPACING[1], SPACING[0]]
        each.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
        each.ImagePositionPatient = [-40.0, -30.0, 5.0 + SPACING[2] * int(number)]
        each.RescaleSlope, each.RescaleIntercept = 1, -1024
        each.BitsAllocated = each.BitsStored = 16
        each.HighBit, each.PixelRepresentation, each.SamplesPerPixel = 15, 0, 1
        each.PhotometricInterpretation = "MONOCHROME2"
        each.PixelData = (values[number].astype(np.int32) + 1024).astype(np.uint16).tobytes()
        each.save_as(folder / f"{generate_uid()}.dcm", enforce_file_format=True)
    return folder
