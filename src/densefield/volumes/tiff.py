"""TIFF files without a place: volumes of several pages, and rasters of several bands."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from densefield.errors import InputError
from densefield.io.files import replaced
from densefield.io.messages import cause
from densefield.io.untrusted import check_array
from densefield.lazy import optional_module
from densefield.volumes.grid import Array, Box, Grid, Pixels, in_memory, inside
from densefield.volumes.units import in_unit_of_x

PLANES = "ZQI"  # letters of tifffile for an axis of pages
CHANNELS = "CS"
UNITS = {"um": "µm", "micron": "µm", "microns": "µm", "\\u00B5m": "µm", "\u03bcm": "µm", "pixel": "pixels"}
OME_SUFFIXES = (".ome.tif", ".ome.tiff")
IMAGEJ_TYPES = tuple(map(np.dtype, (np.uint8, np.uint16, np.float32)))
OME_TYPES = tuple(map(np.dtype, ("u1", "i1", "u2", "i2", "u4", "i4", "f4", "f8")))
LOSSLESS = (5, 8, 32773, 32946)  # compressions that a result keeps: LZW, Deflate, PackBits, and an older Deflate
EXACT = 1 << 24  # integers up to this are exact in single precision


def open_tiff(path: Path) -> Grid:
    """A TIFF file: pages are planes, and samples or channels are bands."""
    tifffile = optional_module("tifffile", "reading TIFF")
    try:
        with _silenced("tifffile"), tifffile.TiffFile(path) as file:
            planes = _planes(path, file)
            letters = f"{PLANES[0] if len(planes) > 1 else ''}{planes[0].axes}"
            counts = (*((len(planes),) if len(planes) > 1 else ()), *planes[0].shape)
            sizes = [(axis, size) for axis, size in zip(letters, counts, strict=True) if size > 1 or axis in "YX"]
            axes = "".join(axis for axis, _ in sizes)
            shape = tuple(size for _, size in sizes)
            _check_axes(path, axes, shape)
            check_array(path, shape, planes[0].dtype.itemsize * math.prod(shape))
            values = np.stack([each.asarray() for each in planes]).reshape(shape)
            spacing, unit = _spacing(path, file)
            form = _form(file)
    except (InputError, FileNotFoundError):
        raise
    except Exception as error:  # damaged files raise errors of many types
        if "imagecodecs" in str(error):
            raise InputError(
                f"{path} has a compression that needs imagecodecs, which is not installed. Install it with: "
                "pip install 'densefield[tiff]'"
            ) from error
        raise InputError(f"{path} cannot be read as TIFF: {cause(error)}. It may be damaged.") from error
    if values.dtype.kind not in "iufb":
        raise InputError(f"{path} has values of type {values.dtype}, expected numbers.")
    channel = next((place for place, axis in enumerate(axes) if axis in CHANNELS), None)
    count = None
    if channel is not None:
        values, count = np.moveaxis(values, channel, -1), shape[channel]
    steps = spacing[: values.ndim - (count is not None)]
    return in_memory(values, channels=count, spacing=steps, unit=unit, path=path, kind="tiff", source=form)


def pages_as_bands(image: Grid) -> Grid:
    """The pages of an image as bands instead of planes."""
    pages, *shape = image.shape

    def read(box: Box) -> Pixels:
        found = image.read((slice(0, pages), *box))
        missing = None if found.missing is None else np.asarray(found.missing.any(axis=0))
        return Pixels(np.moveaxis(found.values[..., 0], 0, -1), missing)

    return replace(image, shape=tuple(shape), channels=pages, spacing=image.spacing[:2], read=read)


def _planes(path: Path, file: Any) -> list[Any]:
    """The series of a file that are the planes of one volume; mostly one series, which has all pages.

    Pages that are written one by one are a series each. Smaller ones are thumbnails and levels of a pyramid.
    """
    if not file.series:
        raise InputError(f"{path} cannot be read as TIFF: its header is damaged or incomplete.")
    first, *others = file.series
    alike = [each for each in others if (each.shape, each.axes, each.dtype) == (first.shape, first.axes, first.dtype)]
    larger = [each for each in others if each not in alike and each.size >= first.size]
    if larger or (alike and (file.is_ome or file.is_imagej)):
        found = ", ".join("×".join(map(str, each.shape)) for each in (first, *(larger or alike))[:4])
        raise InputError(
            f"{path} holds {len(file.series)} images of the sizes {found}{', …' if len(others) > 3 else ''}, expected "
            "one, or pages of one size and type. Save each image, such as a position, as a file of its own."
        )
    return [first, *alike]


@contextmanager
def _silenced(name: str) -> Iterator[None]:
    """Leaves out the messages of a logger, which repeat what errors say."""
    logger = logging.getLogger(name)
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def _check_axes(path: Path, axes: str, shape: tuple[int, ...]) -> None:
    """Raises unless the axes are rows and columns, with planes, channels or both."""
    planes = [axis for axis in axes if axis in PLANES]
    bands = [size for axis, size in zip(axes, shape, strict=True) if axis in CHANNELS]
    others = [axis for axis in axes if axis not in PLANES + CHANNELS + "YX"]
    if others or len(planes) > 1 or len(bands) > 1 or "Y" not in axes or "X" not in axes:
        raise InputError(
            f"{path} has the axes {axes} of shape {shape}, expected rows and columns (YX), with planes (Z) or channels "
            "(C, S). Save each time or position as a file of its own."
        )


def _spacing(path: Path, file: Any) -> tuple[tuple[float, ...], str]:
    """The size of a pixel along x, y, z by the metadata of ImageJ or OME; 1 if they have none."""
    if file.is_imagej:
        meta = file.imagej_metadata or {}
        tags = file.pages[0].tags
        x, y = (_length(tags.get(name)) for name in ("XResolution", "YResolution"))
        z = abs(float(meta.get("spacing", 0)))  # ImageJ writes it negative for stacks in descending order
        if x and y:
            unit = str(meta.get("unit", "pixels"))
            return (x, y, z or x), UNITS.get(unit, unit)
        return (1.0, 1.0, z or 1.0), "pixels"
    if file.is_ome:
        sizes = _ome_sizes(file)
        x, y, z = (float(sizes.get(f"PhysicalSize{axis}", 0)) for axis in "XYZ")
        if x > 0 and y > 0:
            unit = sizes.get("PhysicalSizeXUnit", "µm")  # also of axes without a unit of their own
            units = [sizes.get(f"PhysicalSize{axis}Unit", unit) for axis in "XYZ"]
            units = [UNITS.get(each, each) for each in units]
            x, y, z = in_unit_of_x(path, (x, y, z), units) if z > 0 else (*in_unit_of_x(path, (x, y), units[:2]), x)
            return (x, y, z), units[0]
    return (1.0, 1.0, 1.0), "pixels"


def _ome_sizes(file: Any) -> dict[str, str]:
    """What OME says about the size of a pixel: PhysicalSizeX, PhysicalSizeXUnit and so on."""
    from xml.etree import ElementTree

    pixels = (each for each in ElementTree.fromstring(file.ome_metadata).iter() if each.tag.endswith("}Pixels"))
    first = next(pixels, None)
    attributes = {} if first is None else first.attrib
    return {name: value for name, value in attributes.items() if name.startswith("PhysicalSize")}


def _length(tag: Any) -> float:
    """The size of a pixel by a tag of resolution, 0 if it says nothing."""
    if tag is None:
        return 0.0
    above, below = tag.value
    return below / above if above and below and above != below else 0.0


def _form(file: Any) -> dict[str, Any]:
    """What tifffile needs to write a file of the same kind."""
    page = file.pages[0]
    form: dict[str, Any] = {"compression": page.compression.name if _can_write(page.compression.value) else None}
    if page.colormap is not None:
        form["colormap"] = page.colormap
    if file.is_imagej:
        form |= {"imagej": True, "resolution": page.resolution}
        keep = ("spacing", "unit")
        form["metadata"] = {name: value for name, value in (file.imagej_metadata or {}).items() if name in keep}
    elif file.is_ome:
        form |= {"ome": True, "metadata": _ome_sizes(file)}
    return form


def _can_write(compression: int) -> bool:
    """Whether a result can have a compression; some need imagecodecs for writing, though not for reading."""
    try:
        return compression in LOSSLESS and bool(
            optional_module("tifffile", "writing TIFF").TIFF.COMPRESSORS[compression]
        )
    except KeyError:
        return False


def _stored(values: Array, like: Grid, path: Path) -> tuple[Array, dict[str, Any]]:
    """The values in a type that the form of a file has, and what tifffile needs to write them in it.

    ImageJ has few types: numbers that none of them holds exactly are written as OME-TIFF.
    """
    form = dict(like.source) if isinstance(like.source, dict) else {}
    if form.get("imagej"):
        held = None if path.name.lower().endswith(OME_SUFFIXES) else _exact(values, IMAGEJ_TYPES)
        if held is not None:
            return held, form
        for name in ("imagej", "resolution"):
            form.pop(name)
        unit = "pixel" if like.unit == "pixels" else like.unit
        sizes = [(f"PhysicalSize{axis}", size) for axis, size in zip("XYZ", like.spacing, strict=False)]
        form["metadata"] = {name: value for key, size in sizes for name, value in ((key, size), (f"{key}Unit", unit))}
        form["ome"] = True
    form["ome"] = form.get("ome", False) or path.name.lower().endswith(OME_SUFFIXES)
    if not form["ome"]:
        return values, form
    held = _exact(values, OME_TYPES)
    if held is None:
        raise InputError(
            f"the values for {path} have type {values.dtype} and reach {values.max()}, but integers of OME-TIFF have "
            "at most 32 bits: renumber the labels."
        )
    return held, form


def _exact(values: Array, types: Sequence[np.dtype[Any]]) -> Array | None:
    """The values as they are, or in the first of these types that holds them exactly; None if none does.

    >>> _exact(np.array([0, 300]), IMAGEJ_TYPES).dtype.name, _exact(np.array([0.1]), IMAGEJ_TYPES)
    ('uint16', None)
    """
    if values.dtype in types:
        return values
    if values.dtype.kind == "f":
        single = values.astype(np.float32)
        return single if np.float32 in types and np.array_equal(single, values, equal_nan=True) else None
    low, high = int(values.min()), int(values.max())
    for dtype in types:
        least, most = (-EXACT, EXACT) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if least <= low and high <= most:
            return values.astype(dtype)
    return None


@contextmanager
def tiff_writer(
    path: Path, like: Grid, dtype: np.dtype[Any], channels: int | None
) -> Iterator[Callable[[Box, Array], None]]:
    """A function that writes boxes of labels (…) or probabilities (L, …); the file appears at the end of the block."""
    tifffile = optional_module("tifffile", "writing TIFF")
    leading = () if channels is None else (channels,)
    values = np.zeros((*leading, *like.shape), dtype)

    def write(box: Box, part: Array) -> None:
        values[inside(box)] = part

    yield write
    values, form = _stored(values, like, path)
    is_index = values.dtype.kind == "u" and channels is None
    if "colormap" in form and not (is_index and form["colormap"].shape[-1] == 1 << 8 * values.itemsize):
        form.pop("colormap")
    axes = "ZYX"[-len(like.shape) :]
    if channels is not None:  # ImageJ's order is ZCYX
        values = np.moveaxis(values, 0, -3)
        axes = f"{axes[:-2]}C{axes[-2:]}"
    form["metadata"] = {**form.get("metadata", {}), "axes": axes}
    photometric = "palette" if "colormap" in form else "minisblack"
    with replaced(path) as part:
        tifffile.imwrite(part, values, photometric=photometric, **form)
