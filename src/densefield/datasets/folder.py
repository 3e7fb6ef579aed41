"""Datasets in folders, and opening a dataset by its layout."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np

from densefield.datasets.reading import read_labels, read_sample
from densefield.datasets.sample import Dataset, Entry, Listing, Sample, read_ids
from densefield.datasets.voc import VOC2012, checked_voc, find_voc
from densefield.errors import InputError, InputTypeError
from densefield.images.reading import FORMAT_NAMES, IMAGE_SUFFIXES
from densefield.io.folders import FolderListing, list_files
from densefield.io.messages import first_names
from densefield.labels import VOID

Layout = Literal["voc", "folder"]

# Names that folders may have: ours, or those of PASCAL VOC.
IMAGES, MASKS, SPLITS = ("images", "JPEGImages"), ("masks", "SegmentationClass"), ("splits", "ImageSets/Segmentation")
CLASSES = "classes.txt"
MAX_CLASSES = 255  # 255 is void


class FolderDataset:
    """Images in `images/` and masks of the same names in `masks/`, or in folders with the names of PASCAL VOC.

    `notes` has a line for each skipped subfolder and file.

    Parameters
    ----------
    root
        The folder that holds `images/` and `masks/`.
    split
        Use the images listed in `splits/NAME.txt`, by name without suffix; None uses all images. The split "test" may
        have no masks.
    classes
        The class names, from label 0; by default the lines of `classes.txt`. Without either, all masks are read once,
        and the highest label determines the number of classes.

    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as root:
    ...     for folder, shape in (("images", (4, 6, 3)), ("masks", (4, 6))):
    ...         Path(root, folder).mkdir()
    ...         Image.fromarray(np.ones(shape, np.uint8)).save(Path(root, folder, "a.png"))
    ...     dataset = FolderDataset(root, classes=["background", "cell"])
    ...     sample = dataset[0]
    >>> dataset.ids, dataset.classes, sample.image.shape, sample.labels.shape
    (('a',), ('background', 'cell'), (4, 6, 3), (4, 6))
    """

    def __init__(
        self, root: str | PathLike[str], split: str | None = None, *, classes: Sequence[str] | None = None
    ) -> None:
        listing = checked_folder(Path(root), split)
        self.split = split
        self.entries = listing.entries
        self.ids = tuple(entry.id for entry in self.entries)
        self.summary, self.notes = listing.summary, listing.notes
        names = read_classes(Path(root)) if classes is None else check_classes(classes, "classes")
        self.classes: tuple[str, ...] = names or _numbered_classes(list_folder(Path(root), None))

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> Sample:
        return read_sample(self.entries[operator.index(index)], len(self.classes))

    def __repr__(self) -> str:
        return f"<{self.summary}, {len(self.classes)} classes>"


def open_dataset(root: str | PathLike[str], split: str | None = None) -> Dataset:
    """Open a split of the dataset in a folder: PASCAL VOC 2012, or the user's own images and masks.

    Parameters
    ----------
    root
        The folder of the dataset.
    split
        The split, by default "val", or all images of a folder without split lists.

    >>> open_dataset("/data", "val")  # doctest: +SKIP
    <PASCAL VOC 2012, val: 1449 of 1449 images>
    """
    layout, base, name = _find_split(Path(root), split)
    return VOC2012(root, name or "val") if layout == "voc" else FolderDataset(base, name)


def list_split(root: str | PathLike[str], split: str | None = None) -> Listing:
    """List the files of a split without reading them; raises what open_dataset() raises."""
    layout, base, name = _find_split(Path(root), split)
    return checked_folder(base, name) if layout == "folder" else checked_voc(Path(root), name or "val")


def _find_split(root: Path, split: str | None) -> tuple[Layout, Path, str | None]:
    layout, base = find_layout(root)
    if split is None and (layout == "voc" or split_names(base)):
        split = "val"
    return layout, base, split


def find_layout(root: Path) -> tuple[Layout, Path]:
    """The layout of a dataset, and the folder that holds the folders of images and masks.

    The layout of VOC with a list of classes is a folder of the user's, not PASCAL's dataset.
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


def checked_folder(root: Path, split: str | None) -> Listing:
    """List a split, or all images; raises if a file is missing or the split is empty."""
    listing = list_folder(root, split)
    if listing.problems:
        more = len(listing.problems) - 3
        hint = [f"… and {more} more: `densefield data check {root}` lists all."] if more > 0 else []
        raise InputError("\n".join([*listing.problems[:3], *hint]))
    if not listing.entries:
        raise InputError("\n".join([f"{listing.summary} in {root}: it is empty.", *listing.notes]))
    return listing


def list_folder(root: Path, split: str | None) -> Listing:
    """List the files of a split, or all images."""
    image_files = _list_pictures(root, IMAGES)
    mask_files = _list_pictures(root, MASKS, needed=split != "test")
    images, masks = image_files.files, mask_files.files
    ids = sorted(images) if split is None else _split_ids(root, split)
    unlabelled = split == "test" and not any(id in masks for id in ids)
    entries, problems = [], []
    for id in ids:
        found, mask = images.get(id, []), masks.get(id, [])
        several = next((paths for paths in (found, mask) if len(paths) > 1), None)
        if several is not None:
            problems.append(f"{' and '.join(map(str, several))} have the same name: remove all but one.")
        elif not found:
            problems.append(f"the split {split} lists {id!r}, but no image has this name. Add it, or remove the line.")
        elif not mask and not unlabelled:
            problems.append(f"{found[0]} has no mask: no file in {_find(root, MASKS)} has the name {id}. Add one.")
        else:
            entries.append(Entry(id, found[0], None if unlabelled else mask[0]))
    summary = f"{root.resolve().name}, {split or 'all'}: {len(entries)} images{', no masks' if unlabelled else ''}"
    notes = [line for files in (image_files, mask_files) for line in files.skipped_lines(f"an image ({FORMAT_NAMES})")]
    return Listing(tuple(entries), summary, tuple(problems), notes=tuple(notes))


def split_names(root: Path) -> tuple[str, ...]:
    """The names of the splits that have a list."""
    home = _find(root, SPLITS)
    return () if home is None else tuple(sorted(path.stem for path in home.glob("*.txt")))


def masks_without_image(root: Path) -> list[str]:
    """A line for each mask that has no image."""
    images, masks = _list_pictures(root, IMAGES).files, _list_pictures(root, MASKS, needed=False).files
    return [
        f"{path} has no image: no file in {_find(root, IMAGES)} has the name {id}. Rename or remove it."
        for id in sorted(masks.keys() - images.keys())
        for path in masks[id]
    ]


def read_classes(root: Path) -> tuple[str, ...] | None:
    """The names in classes.txt, if it exists."""
    path = root / CLASSES
    if not path.exists():
        return None
    try:
        lines = path.read_text(encoding="utf-8").strip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}. Expected text, one name per line.") from error
    return check_classes([line.strip() for line in lines], str(path))


def check_classes(names: object, source: str) -> tuple[str, ...]:
    """The names as a tuple; raises unless they are 1 to 255 different ones."""
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InputTypeError(f"{source} is {names!r}, expected a sequence of names, such as ['background', 'cell'].")
    if not 1 <= len(names) <= MAX_CLASSES:
        raise InputError(f"{source} has {len(names)} names, expected 1 to {MAX_CLASSES}, since label {VOID} is void.")
    duplicates = first_names(sorted({name for name in names if names.count(name) > 1}))
    if duplicates or "" in names:
        raise InputError(f"{source} has empty or duplicate names ({duplicates}), expected one name for each label.")
    return tuple(names)


def _numbered_classes(listing: Listing) -> tuple[str, ...]:
    """'0', '1', … up to the highest label; masks that cannot be read fail when their sample is read."""
    masks = [entry.mask for entry in listing.entries if entry.mask is not None]

    def highest(path: Path) -> int | InputError:
        try:
            labels = read_labels(path, MAX_CLASSES)
        except InputError as error:
            return error
        return int(np.max(labels, initial=0, where=labels != VOID))

    with ThreadPoolExecutor() as pool:
        found = list(pool.map(highest, masks))
    numbers = [number for number in found if isinstance(number, int)]
    if masks and not numbers:
        raise next(error for error in found if isinstance(error, InputError))
    return tuple(str(label) for label in range(max(numbers, default=0) + 1))


def _list_pictures(root: Path, names: tuple[str, ...], *, needed: bool = True) -> FolderListing:
    """List the pictures in the folder that has one of these names."""
    home = _find(root, names)
    if home is None:
        if needed:
            raise InputError(f"there is no folder {root / names[0]}. Expected images in images/ and masks in masks/.")
        return FolderListing()
    files = list_files(home, IMAGE_SUFFIXES)
    if files.unreadable:
        raise InputError(files.unreadable[0])
    return files


def _find(root: Path, names: tuple[str, ...]) -> Path | None:
    return next((root / name for name in names if (root / name).is_dir()), None)


def _split_ids(root: Path, split: str) -> tuple[str, ...]:
    available, home = split_names(root), _find(root, SPLITS)
    if home is None or split not in available:
        has = f"has the splits {', '.join(available)}" if available else "has no split lists"
        raise InputError(
            f"the split is {split!r}, but {root} {has}. Write {root / SPLITS[0] / f'{split}.txt'} with one name per "
            "line, or pass split=None to take all images."
        )
    return read_ids(home / f"{split}.txt")
