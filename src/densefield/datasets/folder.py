"""Datasets in folders: images, masks, and lists of splits and class names."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path

import numpy as np

from densefield.datasets.listing import Listing, read_ids
from densefield.datasets.reading import read_labels, read_sample
from densefield.datasets.sample import Entry, Sample
from densefield.errors import InputError, InputTypeError
from densefield.images.reading import FORMAT_NAMES, IMAGE_SUFFIXES
from densefield.io.folders import FolderListing, list_files
from densefield.io.messages import first_names
from densefield.labels import VOID

# What folders may be called: our names, or those of PASCAL VOC.
IMAGES, MASKS, SPLITS = ("images", "JPEGImages"), ("masks", "SegmentationClass"), ("splits", "ImageSets/Segmentation")
CLASSES = "classes.txt"
MOST_CLASSES = 255  # 255 is void


class FolderDataset:
    """Images in `images/` and masks of the same names in `masks/`; the folders may have the names of PASCAL VOC too.

    * ``split``: the images listed in `splits/NAME.txt`, by their names without suffix; None takes all images. The split
      "test" may be without masks.
    * ``classes``: the names of the labels, from 0; by default the lines of `classes.txt`. Without either, the highest
      label in any mask says how many there are, which reads all masks once.

    `notes` has a line for each subfolder and each file that was skipped.

    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as root:
    ...     for folder, shape in (("images", (4, 6, 3)), ("masks", (4, 6))):
    ...         Path(root, folder).mkdir()
    ...         Image.fromarray(np.ones(shape, np.uint8)).save(Path(root, folder, "a.png"))
    ...     dataset = FolderDataset(root, classes=["background", "cell"])
    ...     sample = dataset[0]
    >>> dataset.ids, dataset.classes, sample.image.shape, sample.label.shape
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
        named = read_classes(Path(root)) if classes is None else check_classes(classes, "classes")
        self.classes: tuple[str, ...] = named or _numbered(list_folder(Path(root), None))

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> Sample:
        return read_sample(self.entries[operator.index(index)], len(self.classes))

    def __repr__(self) -> str:
        return f"<{self.summary}, {len(self.classes)} classes>"


def checked_folder(root: Path, split: str | None) -> Listing:
    """What is there of a split, or of all images; raises where something is missing."""
    listing = list_folder(root, split)
    if listing.problems:
        raise InputError("\n".join(listing.problems[:3]) + _more(len(listing.problems) - 3, root))
    if not listing.entries:
        raise InputError("\n".join([f"{listing.summary} in {root}: it is empty.", *listing.notes]))
    return listing


def list_folder(root: Path, split: str | None) -> Listing:
    """What is there of a split, or of all images."""
    image_files = _pictures(root, IMAGES)
    mask_files = _pictures(root, MASKS, needed=split != "test")
    images, masks = image_files.files, mask_files.files
    ids = sorted(images) if split is None else _listed(root, split)
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
            problems.append(f"{found[0]} has no mask: no file in {_home(root, MASKS)} has the name {id}. Add one.")
        else:
            entries.append(Entry(id, found[0], None if unlabelled else mask[0]))
    summary = f"{root.resolve().name}, {split or 'all'}: {len(entries)} images{', no masks' if unlabelled else ''}"
    notes = [line for files in (image_files, mask_files) for line in files.skipped_lines(f"an image ({FORMAT_NAMES})")]
    return Listing(tuple(entries), summary, tuple(problems), notes=tuple(notes))


def split_names(root: Path) -> tuple[str, ...]:
    """The names of the splits that have a list."""
    home = _home(root, SPLITS)
    return () if home is None else tuple(sorted(path.stem for path in home.glob("*.txt")))


def masks_alone(root: Path) -> list[str]:
    """A line for each mask that has no image."""
    images, masks = _pictures(root, IMAGES).files, _pictures(root, MASKS, needed=False).files
    return [
        f"{path} has no image: no file in {_home(root, IMAGES)} has the name {id}. Rename or remove it."
        for id in sorted(masks.keys() - images.keys())
        for path in masks[id]
    ]


def read_classes(root: Path) -> tuple[str, ...] | None:
    """The names in classes.txt, where there is one."""
    path = root / CLASSES
    if not path.exists():
        return None
    try:
        lines = path.read_text(encoding="utf-8").strip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}. Expected text, one name per line.") from error
    return check_classes([line.strip() for line in lines], str(path))


def check_classes(names: object, where: str) -> tuple[str, ...]:
    """The names, if they are 1 to 255 different ones."""
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InputTypeError(f"{where} is {names!r}, expected a sequence of names, such as ['background', 'cell'].")
    if not 1 <= len(names) <= MOST_CLASSES:
        raise InputError(f"{where} has {len(names)} names, expected 1 to {MOST_CLASSES}, since label {VOID} is void.")
    double = sorted({name for name in names if names.count(name) > 1})
    if double or "" in names:
        raise InputError(
            f"{where} has empty or double names ({first_names(double)}), expected one name for each label."
        )
    return tuple(names)


def _numbered(listing: Listing) -> tuple[str, ...]:
    """'0', '1', … up to the highest label in any mask; masks that cannot be read fail when their sample is read."""
    masks = [entry.mask for entry in listing.entries if entry.mask is not None]

    def highest(path: Path) -> int | InputError:
        try:
            labels = read_labels(path, MOST_CLASSES)
        except InputError as error:
            return error
        return int(np.max(labels, initial=0, where=labels != VOID))

    with ThreadPoolExecutor() as pool:
        found = list(pool.map(highest, masks))
    numbers = [number for number in found if isinstance(number, int)]
    if masks and not numbers:
        raise next(error for error in found if isinstance(error, InputError))
    return tuple(str(label) for label in range(max(numbers, default=0) + 1))


def _pictures(root: Path, names: tuple[str, ...], *, needed: bool = True) -> FolderListing:
    """The pictures in the folder of one of these names, by their own names without suffix."""
    home = _home(root, names)
    if home is None:
        if needed:
            raise InputError(f"there is no folder {root / names[0]}. Expected images in images/ and masks in masks/.")
        return FolderListing()
    files = list_files(home, IMAGE_SUFFIXES)
    if files.unreadable:
        raise InputError(files.unreadable[0])
    return files


def _home(root: Path, names: tuple[str, ...]) -> Path | None:
    return next((root / name for name in names if (root / name).is_dir()), None)


def _listed(root: Path, split: str) -> tuple[str, ...]:
    available = split_names(root)
    if split not in available:
        has = f"has the splits {', '.join(available)}" if available else "has no split lists"
        raise InputError(
            f"the split is {split!r}, but {root} {has}. Write {root / SPLITS[0] / f'{split}.txt'} with one name per "
            "line, or pass split=None to take all images."
        )
    home = _home(root, SPLITS)
    assert home is not None
    return read_ids(home / f"{split}.txt")


def _more(count: int, root: Path) -> str:
    return f"\n… and {count} more: `densefield data check {root}` lists all." if count > 0 else ""
