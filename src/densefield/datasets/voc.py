"""PASCAL VOC 2012 in its own layout, and with the masks of SBD as one dataset."""

from __future__ import annotations

import logging
import operator
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from densefield.datasets.listing import Listing, read_ids
from densefield.datasets.reading import read_sample
from densefield.datasets.sample import Entry, Sample
from densefield.datasets.sbd import find_sbd, need_scipy
from densefield.errors import InputError

# fmt: off
CLASSES = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable",
    "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)
# fmt: on
# Images in each split as published. train_aug is train and what SBD adds, less val.
OFFICIAL = {"train": 1464, "val": 1449, "trainval": 2913, "test": 1456, "train_aug": 10582}

_log = logging.getLogger(__name__)


class VOC2012:
    """PASCAL VOC 2012, segmentation: 20 classes and background, 255 void.

    `root` holds `VOCdevkit/VOC2012`, or is that folder. Splits are "train", "val", "trainval", "test" (without labels)
    and "train_aug": train and the images that SBD adds, less those of val. SBD is looked for in `sbd`, or else in
    `root`; PNG masks in a folder `SegmentationClassAug` will do as well. A copy that lacks images or masks works with
    what is there: `summary` says how much that is, and so does one line in the log.

    >>> dataset = VOC2012("/data", "val")  # doctest: +SKIP
    >>> len(dataset), dataset[0].image.shape, dataset[0].label.shape  # doctest: +SKIP
    (1449, (366, 500, 3), (366, 500))
    """

    classes = CLASSES

    def __init__(
        self, root: str | PathLike[str], split: str = "train", *, sbd: str | PathLike[str] | None = None
    ) -> None:
        listing = list_voc(Path(root), split, None if sbd is None else Path(sbd))
        if not listing.entries:
            raise InputError(f"{listing.summary} in {root}: the split is empty. Unpack the images and masks there.")
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
    """The folder with JPEGImages/ in or below this one, as the archive has it."""
    places = (root, root / "VOC2012", root / "VOCdevkit" / "VOC2012")
    return next((place for place in places if (place / "JPEGImages").is_dir()), None)


def list_voc(root: Path, split: str, sbd: Path | None = None) -> Listing:
    """What is there of a split."""
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
        return _augmented(base, root if sbd is None else sbd, images, masks)
    return _what_is_there(split, _listed(base, split), images, None if split == "test" else masks)


def _listed(base: Path, split: str) -> tuple[str, ...]:
    """The ids in a split's file; a copy may do without that of trainval."""
    files = base / "ImageSets" / "Segmentation"
    if split == "trainval" and not (files / "trainval.txt").exists():
        return tuple(sorted({*read_ids(files / "train.txt"), *read_ids(files / "val.txt")}))
    return read_ids(files / f"{split}.txt")


def _augmented(base: Path, sbd_root: Path, own_images: dict[str, Path], own_masks: dict[str, Path]) -> Listing:
    """The images of train, then those that SBD adds in the order of their names; VOC's own files go first."""
    converted, sbd = base / "SegmentationClassAug", find_sbd(sbd_root)
    if sbd is None and not converted.is_dir():
        raise InputError(
            f"train_aug needs the masks of SBD: neither {converted} nor cls/ in {sbd_root} (or in "
            "benchmark_RELEASE/dataset below it) is there. `densefield data voc2012` downloads them."
        )
    train, val = _listed(base, "train"), _listed(base, "val")
    if len(val) != OFFICIAL["val"]:
        raise InputError(
            f"{base / 'ImageSets' / 'Segmentation' / 'val.txt'} lists {len(val)} ids, expected {OFFICIAL['val']}: SBD "
            "has images of val, and with a list that is not whole they would be trained on. Take the published file."
        )
    masks = _by_id(converted, ".png")
    images = own_images
    if sbd is not None:
        masks = {**_by_id(sbd / "cls", ".mat"), **masks}
        images = {**_by_id(sbd / "img", ".jpg"), **images}
    ids = [*train, *sorted(masks.keys() - {*train, *val})]
    masks = {**masks, **own_masks}
    if any(masks[id].suffix == ".mat" for id in ids if id in masks):
        need_scipy()
    return _what_is_there("train_aug", ids, images, masks)


def _what_is_there(split: str, ids: Sequence[str], images: dict[str, Path], masks: dict[str, Path] | None) -> Listing:
    """Samples with image and mask. Where one is missing something is wrong; where both are, the copy is partial."""
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
        halves = f"; left out, since image or mask is missing: {len(problems)}" if problems else ""
        counts += f" (a partial copy{halves})"
    return Listing(tuple(entries), f"PASCAL VOC 2012, {split}: {counts}", tuple(problems), complete)


def _by_id(folder: Path, suffix: str) -> dict[str, Path]:
    """The files of a folder, listed at once, which is quicker than asking for each."""
    if not folder.is_dir():
        return {}
    return {path.stem: path for path in folder.iterdir() if path.suffix == suffix and not path.name.startswith(".")}
