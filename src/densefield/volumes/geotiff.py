"""GeoTIFF files: rasters with any number of bands, read and written in windows."""

from __future__ import annotations

import errno
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError
from densefield.io.files import replaced
from densefield.io.messages import cause
from densefield.lazy import optional_module
from densefield.volumes.grid import Array, Box, Grid, Pixels, missing_values

OF_FILE = ("IMAGE_STRUCTURE", "DERIVED_SUBDATASETS", "SUBDATASETS", "RPC", "TIFF")  # namespaces that GDAL writes itself
BLOCK = 256  # pixels: the side of the blocks of a result


def open_geotiff(path: Path, *, is_mask: bool = False) -> Grid:
    """A GeoTIFF file as a raster (H, W, bands), without bands if it has one.

    Pixels are missing by the no-data value (`missing_values`), with NaN in a band, or by an alpha or mask band. In
    masks a no-data value of 0 is label 0.
    """
    rasterio = optional_module("rasterio", "reading GeoTIFF")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
            source = rasterio.open(path)
    except rasterio.errors.RasterioError as error:
        raise InputError(f"{path} cannot be read as GeoTIFF: {cause(error)}.") from error
    alpha = rasterio.enums.ColorInterp.alpha
    bands = [band for band, kind in zip(source.indexes, source.colorinterp, strict=True) if kind != alpha]
    dtypes = {source.dtypes[band - 1] for band in bands}
    if not bands:
        raise InputError(f"{path} has no bands, expected one or more.")
    dtype = np.result_type(*dtypes)
    if dtype.kind not in "iuf":
        raise InputError(f"{path} has values of type {dtype}, expected integers or floating point numbers.")
    nodata = source.nodata
    if is_mask and nodata == 0:
        nodata = None
    has_alpha = len(bands) < source.count
    masked = [rasterio.enums.MaskFlags.per_dataset in flags for flags in source.mask_flag_enums]

    def read(box: Box) -> Pixels:
        window = rasterio.windows.Window.from_slices(*box)
        try:
            values = np.moveaxis(source.read(bands, window=window), 0, -1)
            missing = missing_values(values, nodata)
            if has_alpha or any(masked):
                empty: npt.NDArray[np.bool_] = source.dataset_mask(window=window) == 0
                missing = empty if missing is None else missing | empty
        except rasterio.errors.RasterioError as error:
            reason = error.__cause__ if isinstance(error.__cause__, Exception) else error  # which says where
            raise InputError(f"{path} cannot be read: {cause(reason)}. It may be damaged.") from error
        return Pixels(values, missing)

    transform = source.transform
    located = not transform.is_identity
    affine = np.array(transform, np.float64).reshape(3, 3) if located else None
    aspect = float(np.hypot(transform.b, transform.e) / np.hypot(transform.a, transform.d)) if located else 1.0
    if located and source.crs is not None and source.crs.is_geographic:  # a degree of longitude is shorter
        middle = transform.d * source.width / 2 + transform.e * source.height / 2 + transform.f
        aspect /= max(float(np.cos(np.radians(middle))), 0.01)
    channels = len(bands) if len(bands) > 1 else None
    return Grid(
        path, "geotiff", (source.height, source.width), channels, dtype, (1.0, aspect), "pixels", read, affine, source
    )


def check_same_crs(image: Grid, mask: Grid) -> None:
    """Raises if two GeoTIFF files have different coordinate reference systems."""
    one, other = image.source.crs, mask.source.crs
    if one is not None and other is not None and one != other:
        raise InputError(
            f"{image.path} has the coordinate reference system {one.to_string()}, but {mask.path} has "
            f"{other.to_string()}: reproject the mask."
        )


def _holds(dtype: np.dtype[Any], value: float) -> bool:
    """Whether numbers of a type can have a value."""
    if dtype.kind == "f":
        return True
    limits = np.iinfo(dtype)
    return float(value).is_integer() and limits.min <= value <= limits.max


@contextmanager
def geotiff_writer(
    path: Path, like: Grid, dtype: np.dtype[Any], channels: int | None
) -> Iterator[Callable[[Box, Array], None]]:
    """A function that writes boxes of labels (…) or probabilities (L, …); the file appears at the end of the block.

    CRS, transformation or ground control points, no-data value, mask band, tags and colours are those of `like`, and
    the tags, names, scales and units of bands if there are as many.
    """
    rasterio = optional_module("rasterio", "writing GeoTIFF")
    source = like.source
    points, points_crs = source.gcps
    masked = all(rasterio.enums.MaskFlags.per_dataset in flags for flags in source.mask_flag_enums)
    masked = masked and rasterio.enums.ColorInterp.alpha not in source.colorinterp
    count = channels or 1
    profile = {
        "driver": "GTiff",
        "height": like.shape[0],
        "width": like.shape[1],
        "count": count,
        "dtype": dtype.name,
        "crs": source.crs,
        "transform": source.transform,
        "tiled": True,
        "blockxsize": BLOCK,
        "blockysize": BLOCK,
        "compress": "deflate",
        "bigtiff": "if_safer",
    }
    if source.nodata is not None and _holds(dtype, source.nodata):
        profile["nodata"] = source.nodata
    with replaced(path) as part, warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        internal = rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True)
        with internal, rasterio.open(part, "w", **profile) as out:
            if points:
                out.gcps = points, points_crs
            if source.rpcs is not None:
                out.rpcs = source.rpcs
            _copy_tags(source, out)
            if count == source.count:
                _copy_band_tags(source, out)
            if count == 1 and dtype == np.uint8:
                with suppress(ValueError):  # it has none
                    out.write_colormap(1, source.colormap(1))

            sums: list[tuple[Any, int]] = []

            def write(box: Box, values: Array) -> None:
                window = rasterio.windows.Window.from_slices(*box)
                stored = np.asarray(values if values.ndim == 3 else values[None], dtype)
                out.write(stored, window=window)
                mask = source.dataset_mask(window=window) if masked else None
                if mask is not None:
                    out.write_mask(mask, window=window)
                sums.append((window, _checksum(stored, mask)))

            yield write
        _check_complete(part, sums, path, masked=masked)


def _checksum(values: Array, mask: Array | None) -> int:
    """A checksum of the values and of where the mask is 0."""
    found = zlib.crc32(values.tobytes())
    return found if mask is None else zlib.crc32((mask == 0).tobytes(), found)


def _check_complete(part: Path, sums: Sequence[tuple[Any, int]], path: Path, *, masked: bool) -> None:
    """Raises unless a file holds all that was written: if a disk is full when it closes a file, GDAL does not."""
    rasterio = optional_module("rasterio", "reading GeoTIFF")
    try:
        with rasterio.open(part) as file:
            is_complete = all(
                _checksum(file.read(window=window), file.dataset_mask(window=window) if masked else None) == expected
                for window, expected in sums
            )
    except rasterio.errors.RasterioError:
        is_complete = False
    if not is_complete:
        raise OSError(errno.EIO, "the result cannot be written completely, the disk may be full", str(path))


def _copy_tags(source: Any, out: Any) -> None:
    """The tags of a file, also those in namespaces."""
    out.update_tags(**source.tags())
    for name in source.tag_namespaces():
        if name not in OF_FILE and not name.startswith("xml:"):
            out.update_tags(ns=name, **source.tags(ns=name))


def _copy_band_tags(source: Any, out: Any) -> None:
    """What a file says of each band, except for statistics, which are others in the result."""
    out.descriptions, out.units = source.descriptions, source.units
    out.scales, out.offsets = source.scales, source.offsets
    for band in source.indexes:
        tags = source.tags(band)
        out.update_tags(band, **{name: value for name, value in tags.items() if not name.startswith("STATISTICS_")})
        for name in source.tag_namespaces(band):
            if name not in OF_FILE:
                out.update_tags(band, ns=name, **source.tags(band, ns=name))
