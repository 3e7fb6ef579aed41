"""Zarr and OME-Zarr: arrays in chunks, read and written in boxes, for what does not fit into memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from densefield.errors import InputError
from densefield.io.files import replaced
from densefield.io.messages import cause
from densefield.lazy import optional_module
from densefield.volumes.grid import Array, Box, Grid, Pixels, missing_values
from densefield.volumes.units import in_unit_of_x

SPACE = ("z", "y", "x")
ROOTS = ("zarr.json", ".zarray", ".zgroup")
# The files of a store that zarr_writer() writes: an array, or a group with the array "0".
WRITTEN = re.compile(r"(0/)?(zarr\.json|\.zarray|\.zattrs|(c[./])?\d+([./]\d+)*)|\.zgroup|\.zmetadata")
NAMES = {"channel": "c", "time": "t", "depth": "z", "height": "y", "width": "x"}


def open_zarr(path: Path, shape: Sequence[int] | None = None) -> Grid:
    """A Zarr array, or the finest level of an OME-Zarr image.

    Axes are those of OME-Zarr, or the dimension names of Zarr 3. Without either, an array has rows and columns, or
    planes too; `shape` is that of the other file of the pair, from which an axis of channels is told.
    """
    zarr = optional_module("zarr", "reading Zarr")
    try:
        opened = zarr.open(path, mode="r")
    except zarr.errors.GroupNotFoundError as error:
        raise InputError(f"{path} cannot be read as Zarr: it holds no array and no group.") from error
    except Exception as error:  # damaged metadata raise errors of many types
        raise InputError(f"{path} cannot be read as Zarr: {cause(error)}.") from error
    names: list[str] | None = None
    scale: list[float] | None = None
    start: list[float] | None = None
    unit, array = "pixels", opened
    if isinstance(opened, zarr.Group):
        array, names, scale, start, unit = _finest(path, opened)
    elif (given := getattr(opened.metadata, "dimension_names", None)) and None not in given:
        names = [NAMES.get(str(name).lower(), str(name).lower()) for name in given]
    if array.dtype.kind not in "iufb":
        raise InputError(f"{path} has values of type {array.dtype}, expected numbers.")
    if names is None:
        names = _guessed_axes(path, tuple(array.shape), shape)
    axes = _axes(path, names, tuple(array.shape))
    spatial = [place for place, name in enumerate(names) if name in axes and name != "c"]
    size = tuple(int(array.shape[place]) for place in spatial)
    channels = int(array.shape[names.index("c")]) if "c" in axes else None

    def read(box: Box) -> Pixels:
        parts = dict(zip(spatial, box, strict=True))
        key = tuple(parts.get(place, 0 if name not in axes else slice(None)) for place, name in enumerate(names))
        try:
            values = np.asarray(array[key])
        except Exception as error:
            raise InputError(f"{path} cannot be read: {cause(error)}. It may be damaged.") from error
        kept = [name for name in names if name in axes]
        values = values[..., None] if channels is None else np.moveaxis(values, kept.index("c"), -1)
        return Pixels(values, missing_values(values, None))

    spacing = (1.0,) * len(size) if scale is None else tuple(scale[place] for place in reversed(spatial))
    source = {"array": array, "group": opened if isinstance(opened, zarr.Group) else None, "names": names}
    origin = None if start is None else tuple(start[place] for place in reversed(spatial))
    return Grid(path, "zarr", size, channels, np.dtype(array.dtype), spacing, unit, read, None, source, origin)


def _finest(path: Path, group: Any) -> tuple[Any, list[str], list[float], list[float] | None, str]:
    """The finest level of an OME-Zarr image: its array, axes, scale, translation if any is given, and unit."""
    attributes = dict(group.attrs)
    images = (attributes.get("ome") or attributes).get("multiscales")
    try:
        image = (images or [])[0]
        level = image["datasets"][0]
        array = group[level["path"]]
        axes = [axis if isinstance(axis, Mapping) else {"name": axis} for axis in image.get("axes", [])]
        names = [str(axis["name"]) for axis in axes] or list("tczyx"[-array.ndim :])
        scale, start = [1.0] * len(names), [0.0] * len(names)
        transforms = (*level.get("coordinateTransformations", ()), *image.get("coordinateTransformations", ()))
        for transform in transforms:
            if transform.get("type") == "scale":
                scale = [one * float(other) for one, other in zip(scale, transform["scale"], strict=True)]
                start = [one * float(other) for one, other in zip(start, transform["scale"], strict=True)]
            elif transform.get("type") == "translation":
                start = [one + float(other) for one, other in zip(start, transform["translation"], strict=True)]
        units = {str(axis["name"]): str(axis["unit"]) for axis in axes if "unit" in axis}
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise InputError(
            f"{path} is a Zarr group without an image of OME-Zarr in it. Name one of its arrays: {path}/NAME."
        ) from error
    places = [names.index(name) for name in reversed(SPACE) if name in names]
    spatial = [units.get(names[place], units.get("x", "pixels")) for place in places]
    for lengths in (scale, start):
        for place, length in zip(places, in_unit_of_x(path, [lengths[each] for each in places], spatial), strict=True):
            lengths[place] = length
    unit = spatial[0] if spatial else "pixels"
    return array, names, scale, start if transforms else None, "mm" if unit == "millimeter" else unit


def _guessed_axes(path: Path, array: tuple[int, ...], other: Sequence[int] | None) -> list[str]:
    """The axes of an array without names, by the shape of the other file if that is known."""
    found = None if other is None else tuple(other)
    if len(array) in (3, 4) and found is not None:
        if array[1:] == found:
            return ["c", *SPACE[-len(found) :]]
        if array[:-1] == found:
            return [*SPACE[-len(found) :], "c"]
    if len(array) not in (2, 3):
        raise InputError(
            f"{path} has shape {array} without names of its axes, expected (rows, columns) or (planes, rows, columns), "
            "with channels first or last if the other file has none."
        )
    return list(SPACE[-len(array) :])


def _axes(path: Path, names: Sequence[str], shape: tuple[int, ...]) -> set[str]:
    """The axes that are used: those of space, and channels; a single time or plane is left out."""
    used = {name for name, size in zip(names, shape, strict=True) if size > 1 or name in "yx"}
    if not {"y", "x"} <= used or used - {*SPACE, "c"}:
        raise InputError(
            f"{path} has the axes {', '.join(names)} of shape {shape}, expected y and x, with z and c, and one time."
        )
    return used


def check_replaceable(path: Path) -> None:
    """Raises if a path exists and is not a Zarr array, or group of one, as `zarr_writer` writes them."""
    if not path.exists():
        return
    cure = "Remove it, or choose another name for the result."
    if not any((path / name).is_file() for name in ROOTS):
        what = "folder that is not a Zarr store" if path.is_dir() else "file, expected a new folder"
        raise InputError(f"{path} is a {what}: it is not replaced. {cure}")
    for file in path.rglob("*"):
        name = file.relative_to(path).as_posix()
        if not file.is_dir() and not WRITTEN.fullmatch(name):
            raise InputError(f"{path} holds more than one array, such as {name}: it is not replaced. {cure}")


@contextmanager
def zarr_writer(
    path: Path, like: Grid, dtype: np.dtype[Any], channels: int | None
) -> Iterator[Callable[[Box, Array], None]]:
    """A function that writes boxes of labels (…) or probabilities (L, …); the folder appears at the end of the block.

    Format version, axes, chunks and shards are those of `like`, and the attributes of an OME-Zarr image, with one
    level. An axis of channels has the number of classes, or 1 for labels.
    """
    zarr = optional_module("zarr", "writing Zarr")
    source = like.source
    before = source["array"]
    names, sizes, chunks = _layout(source["names"], before.shape, before.chunks, channels)
    shards = before.shards and _layout(source["names"], before.shape, before.shards, channels)[2]
    if shards and any(shard % chunk for shard, chunk in zip(shards, chunks, strict=True)):  # of other channels
        shards = tuple(-(-shard // chunk) * chunk for shard, chunk in zip(shards, chunks, strict=True))
    version, inserted = before.metadata.zarr_format, len(names) > before.ndim
    with replaced(path) as part:
        options = {
            "shape": tuple(sizes.values()),
            "dtype": dtype,
            "chunks": chunks,
            "shards": shards,
            "fill_value": 0,
        }
        is_named = version == 3 and (before.metadata.dimension_names or inserted)
        named = {"dimension_names": names} if is_named else {}
        if source["group"] is None:
            array = zarr.create_array(part, zarr_format=version, **options, **named)
            array.attrs.update(dict(before.attrs))
        else:
            group = zarr.create_group(part, zarr_format=version)
            array = group.create_array("0", **options, **named)
            others = channels is None or options["shape"] != before.shape
            place = names.index("c") if inserted else None
            group.attrs.update(_one_level(dict(source["group"].attrs), others, place))
        kept = [name for name in names if name in SPACE or name == "c"]

        def write(box: Box, values: Array) -> None:
            if "c" in kept and channels is not None:
                values = np.moveaxis(values, 0, [name for name in kept if sizes[name] > 1 or name in "yxc"].index("c"))
            parts = iter(box)
            key = tuple(
                next(parts)
                if name in SPACE and (sizes[name] > 1 or name in "yx")
                else slice(None)
                if name == "c" and channels is not None
                else 0
                for name in names
            )
            array[key] = values

        yield write


def _layout(
    names: Sequence[str], shape: Sequence[int], chunks: Sequence[int], channels: int | None
) -> tuple[list[str], dict[str, int], tuple[int, ...]]:
    """Names of the axes, their sizes, and chunks of a result with these channels, in the layout of another array.

    >>> _layout("cyx", (3, 60, 70), (1, 20, 20), None)
    (['c', 'y', 'x'], {'c': 1, 'y': 60, 'x': 70}, (1, 20, 20))
    """
    sizes, parts = dict(zip(names, shape, strict=True)), dict(zip(names, chunks, strict=True))
    order = list(names)
    if channels is not None and "c" not in order:
        order.insert(next(place for place, name in enumerate(order) if name in SPACE), "c")
    if "c" in order:
        sizes["c"] = channels or 1
        parts["c"] = min(parts.get("c", 1), sizes["c"])
    return order, {name: sizes[name] for name in order}, tuple(parts[name] for name in order)


def _one_level(attributes: dict[str, Any], others: bool, inserted: int | None) -> dict[str, Any]:
    """The attributes of an OME-Zarr image with its finest level alone, at the path 0.

    `others` says that the result has labels or other channels, which the display settings do not describe; `inserted`
    is the place of an axis of channels that is new.
    """
    holder = attributes.get("ome", attributes)
    image = dict(holder["multiscales"][0])
    level = {**image["datasets"][0], "path": "0"}
    if inserted is not None:
        if "axes" in image:
            image["axes"] = _with(image["axes"], inserted, {"name": "c", "type": "channel"})
        for part in (image, level):
            if "coordinateTransformations" in part:
                transforms = part["coordinateTransformations"]
                part["coordinateTransformations"] = [_with_axis(each, inserted) for each in transforms]
    image["datasets"] = [level]
    changed = {name: value for name, value in holder.items() if name != "omero" or not others}
    changed["multiscales"] = [image]
    return {**attributes, "ome": changed} if "ome" in attributes else changed


def _with_axis(transform: Mapping[str, Any], place: int) -> dict[str, Any]:
    """A scale or translation with a further axis, which it does not change."""
    neutral = {name: value for name, value in (("scale", 1.0), ("translation", 0.0)) if name in transform}
    return {**transform, **{name: _with(transform[name], place, value) for name, value in neutral.items()}}


def _with(values: Sequence[Any], place: int, value: Any) -> list[Any]:
    """The values with another one inserted."""
    return [*values[:place], value, *values[place:]]
