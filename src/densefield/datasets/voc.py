"""PASCAL VOC 2012 in its own layout, optionally with the masks of the Semantic Boundaries Dataset (SBD)."""

from __future__ import annotations

import logging
import operator
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from densefield.datasets.reading import read_sample, require_scipy
from densefield.datasets.sample import Entry, Listing, Sample, read_ids
from densefield.errors import InputError

# fmt: off
CLASSES = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable",
    "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)
# fmt: on
# Number of images in each published split. train_aug is train and the images that SBD adds, without those of val.
OFFICIAL = {"train": 1464, "val": 1449, "trainval": 2913, "test": 1456, "train_aug": 10582}

_log = logging.getLogger(__name__)


class VOC2012:
    """PASCAL VOC 2012, segmentation: 20 classes and background, 255 void.

    A copy that lacks images or masks works with those that exist; `summary` and one line in the log say how many.

    Parameters
    ----------
    root
        The folder that holds `VOCdevkit/VOC2012`, or that folder itself.
    split
        "train", "val", "trainval", "test" (without labels), or "train_aug": train and the images that SBD adds, without
        those of val.
    sbd
        The folder of SBD, by default `root`. PNG masks in `SegmentationClassAug` of VOC2012 are used as well.

    >>> dataset = VOC2012("/data", "val")  # doctest: +SKIP
    >>> len(dataset), dataset[0].image.shape, dataset[0].labels.shape  # doctest: +SKIP
    (1449, (366, 500, 3), (366, 500))
    """

    classes = CLASSES

    def __init__(
        self, root: str | PathLike[str], split: str = "train", *, sbd: str | PathLike[str] | None = None
    ) -> None:
        listing = checked_voc(Path(root), split, None if sbd is None else Path(sbd))
        if not listing.complete:
            _log.warning("%s", listing.summary)
        self.split = split
        self.entries = listing.entries
        self.ids = tuple(entry.id for entry in self.entries)
        self.summary = listing.summary

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> Sample:
        return read_sample(self.entries[operator.index(index)], len(self.classes))

    def __repr__(self) -> str:
        return f"<{self.summary}>"


def find_voc(root: Path) -> Path | None:
    """The folder that has JPEGImages/: this one, or one below it as in the archive."""
    places = (root, root / "VOC2012", root / "VOCdevkit" / "VOC2012")
    return next((place for place in places if (place / "JPEGImages").is_dir()), None)


def find_sbd(root: Path) -> Path | None:
    """The folder that has SBD's cls/ and img/: this one, or one below it as in the archive."""
    places = (root, root / "dataset", root / "benchmark_RELEASE" / "dataset")
    return next((place for place in places if (place / "cls").is_dir()), None)


def checked_voc(root: Path, split: str, sbd: Path | None = None) -> Listing:
    """List a split; raises if it is empty."""
    listing = list_voc(root, split, sbd)
    if not listing.entries:
        raise InputError(f"{listing.summary} in {root}: the split is empty. Unpack the images and masks there.")
    return listing


def list_voc(root: Path, split: str, sbd: Path | None = None) -> Listing:
    """List the files of a split that exist."""
    if split not in OFFICIAL:
        raise InputError(f"the split is {split!r}, expected one of {', '.join(OFFICIAL)}.")
    base = find_voc(root)
    if base is None:
        raise InputError(
            f"there is no JPEGImages in {root}, nor in VOCdevkit/VOC2012 below it. `densefield data voc2012 {root}` "
            "downloads PASCAL VOC 2012 to there."
        )
    images = _by_id(base / "JPEGImages", ".jpg")
    masks = _by_id(base / "SegmentationClass", ".png")
    if split == "train_aug":
        return _list_augmented(base, root if sbd is None else sbd, images, masks)
    return _existing(split, _split_ids(base, split), images, None if split == "test" else masks)


def _split_ids(base: Path, split: str) -> tuple[str, ...]:
    """The ids in a split's file; the file of trainval is optional."""
    files = base / "ImageSets" / "Segmentation"
    if split == "trainval" and not (files / "trainval.txt").exists():
        return tuple(sorted({*read_ids(files / "train.txt"), *read_ids(files / "val.txt")}))
    return read_ids(files / f"{split}.txt")


def _list_augmented(base: Path, sbd_root: Path, voc_images: dict[str, Path], voc_masks: dict[str, Path]) -> Listing:
    """The images of train, then those that SBD adds, sorted by name; VOC's own files have precedence."""
    converted, sbd = base / "SegmentationClassAug", find_sbd(sbd_root)
    if sbd is None and not converted.is_dir():
        raise InputError(
            f"train_aug needs the masks of SBD: neither {converted} nor cls/ in {sbd_root} (or in "
            "benchmark_RELEASE/dataset below it) exists. `densefield data voc2012` downloads them."
        )
    train, val = _split_ids(base, "train"), _split_ids(base, "val")
    if len(val) != OFFICIAL["val"]:
        raise InputError(
            f"{base / 'ImageSets' / 'Segmentation' / 'val.txt'} lists {len(val)} ids, expected {OFFICIAL['val']}: SBD "
            "has images of val, and an incomplete list would let them into training. Use the published file."
        )
    masks = _by_id(converted, ".png")
    images = voc_images
    if sbd is not None:
        masks = {**_by_id(sbd / "cls", ".mat"), **masks}
        images = {**_by_id(sbd / "img", ".jpg"), **images}
    ids = [*train, *sorted(masks.keys() - {*train, *val})]
    masks = {**masks, **voc_masks}
    if any(masks[id].suffix == ".mat" for id in ids if id in masks):
        require_scipy()
    return _existing("train_aug", ids, images, masks)


def _existing(split: str, ids: Sequence[str], images: dict[str, Path], masks: dict[str, Path] | None) -> Listing:
    """Samples with image and mask. A missing one of the two is a problem; if both are missing, the copy is partial."""
    entries, problems = [], []
    for id in ids:
        image, mask = images.get(id), None if masks is None else masks.get(id)
        if image is not None and (mask is not None or masks is None):
            entries.append(Entry(id, image, mask))
        elif image is not None:
            problems.append(f"{image} has no mask. Unpack SegmentationClass/{id}.png again, or remove the image.")
        elif mask is not None:
            problems.append(f"{mask} has no image. Unpack JPEGImages/{id}.jpg again, or remove the mask.")
    official = OFFICIAL[split]
    complete = len(ids) == len(entries) == official
    counts = f"{len(entries)} of {official} images"
    if not complete:
        skipped = f"; skipped, since image or mask is missing: {len(problems)}" if problems else ""
        counts += f" (a partial copy{skipped})"
    return Listing(tuple(entries), f"PASCAL VOC 2012, {split}: {counts}", tuple(problems), complete)


def _by_id(folder: Path, suffix: str) -> dict[str, Path]:
    """The files of a folder by id; one listing is faster than a check for each file."""
    if not folder.is_dir():
        return {}
    return {path.stem: path for path in folder.iterdir() if path.suffix == suffix and not path.name.startswith(".")}
