"""Which kind of dataset a folder holds."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Literal

from densefield.datasets.folder import CLASSES, FolderDataset, checked_folder, split_names
from densefield.datasets.listing import Listing
from densefield.datasets.sample import Dataset
from densefield.datasets.voc import VOC2012, find_voc, list_voc
from densefield.errors import InputError

Layout = Literal["voc", "folder"]


def open_dataset(root: str | PathLike[str], split: str | None = None) -> Dataset:
    """A split of the dataset in a folder: PASCAL VOC 2012, or images and masks of one's own.

    * ``root``: the folder.
    * ``split``: the split; by default "val", or all images of a folder without split lists.

    >>> open_dataset("/data", "val")  # doctest: +SKIP
    <PASCAL VOC 2012, val: 1449 of 1449 images>
    """
    layout, base = find_layout(Path(root))
    name = default_split(layout, base, split)
    return VOC2012(root, name or "val") if layout == "voc" else FolderDataset(base, name)


def list_split(root: str | PathLike[str], split: str | None = None) -> Listing:
    """The files of a split, without reading them; raises what open_dataset() of the same arguments raises."""
    layout, base = find_layout(Path(root))
    name = default_split(layout, base, split)
    if layout == "folder":
        return checked_folder(base, name)
    listing = list_voc(Path(root), name or "val")
    if not listing.entries:
        raise InputError(f"{listing.summary} in {root}: the split is empty. Unpack the images and masks there.")
    return listing


def default_split(layout: Layout, base: Path, split: str | None) -> str | None:
    """The split that is meant: "val" where none is named, and None, all images, for a folder without split lists."""
    if split is not None:
        return split
    return None if layout == "folder" and not split_names(base) else "val"


def find_layout(root: Path) -> tuple[Layout, Path]:
    """The kind, and the folder that holds the folders of images and masks.

    The layout of VOC with a list of classes is not PASCAL's dataset but one's own.
    """
    if not root.is_dir():
        raise InputError(f"there is no folder {root}.")
    if (root / "images").is_dir():
        return "folder", root
    base = find_voc(root)
    if base is None:
        raise InputError(
            f"{root} has neither images/ and masks/, nor JPEGImages/ and SegmentationClass/ as PASCAL VOC has them (or "
            "VOCdevkit/VOC2012 with these): name the folder that has."
        )
    return ("folder" if (base / CLASSES).exists() else "voc"), base
