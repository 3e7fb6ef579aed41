"""Which kind of dataset a folder holds."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Literal

from densefield.data.folder import CLASSES, FolderDataset
from densefield.data.sample import Dataset
from densefield.data.voc import VOC2012, find_voc
from densefield.errors import InputError

Layout = Literal["voc", "folder"]


def open_dataset(root: str | PathLike[str], split: str) -> Dataset:
    """The split of the dataset in a folder, of PASCAL VOC 2012 or of one's own.

    >>> open_dataset("/data", "val")  # doctest: +SKIP
    <PASCAL VOC 2012, val: 1449 of 1449 images>
    """
    layout, base = find_layout(Path(root))
    return VOC2012(root, split) if layout == "voc" else FolderDataset(base, split)


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
