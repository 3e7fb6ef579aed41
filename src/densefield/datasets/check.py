"""Checking a dataset before training: every file is read once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from densefield.datasets.folder import (
    MAX_CLASSES,
    find_layout,
    list_folder,
    masks_without_image,
    read_classes,
    split_names,
)
from densefield.datasets.reading import check_size, read_labels, read_photo
from densefield.datasets.sample import Entry, Listing
from densefield.datasets.voc import CLASSES as VOC_CLASSES
from densefield.datasets.voc import OFFICIAL, find_sbd, list_voc
from densefield.errors import DensefieldError, InputError
from densefield.io.messages import first_names
from densefield.io.progress import Progress
from densefield.labels import VOID


@dataclass(frozen=True)
class DatasetReport:
    """The result of checking a dataset.

    Parameters
    ----------
    splits
        A line for each split.
    checked
        The number of samples that were read.
    images_per_class
        The number of images that show each class.
    problems, notes
        A line for each.
    complete
        Whether it has all published images of train, val and, if SBD exists, train_aug.
    """

    splits: tuple[str, ...]
    checked: int
    images_per_class: Mapping[str, int]
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    complete: bool = True


@dataclass
class _Plan:
    """What to read, and what listing it found."""

    classes: tuple[str, ...] | None  # None: determined by the labels
    listings: dict[str, Listing] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    complete: bool = True


def check_data(
    root: Path, *, sbd: Path | None = None, threads: int | None = None, progress: Progress | None = None
) -> DatasetReport:
    """Read every image and mask of every split, and check that they exist, fit each other and have valid labels.

    Parameters
    ----------
    root
        The folder of the dataset.
    sbd
        The folder of SBD, by default `root`.
    threads
        Number of threads, by default all processors.
    progress
        Called with the number of samples read and the total.

    >>> check_data(Path("missing"))
    Traceback (most recent call last):
        ...
    densefield.errors.InputError: there is no folder missing.
    """
    layout, base = find_layout(root)
    plan = _voc_plan(base, root if sbd is None else sbd) if layout == "voc" else _folder_plan(base)
    num_classes = MAX_CLASSES if plan.classes is None else len(plan.classes)
    # A sample may be in several splits, and train_aug may have another mask for it.
    entries = list(dict.fromkeys(entry for listing in plan.listings.values() for entry in listing.entries))
    counts = np.zeros(256, np.intp)  # images in which each label occurs
    found: dict[str, None] = {}  # problems, without duplicates
    pool = ThreadPoolExecutor(threads or os.cpu_count() or 1)
    try:
        for done, (lines, occurs) in enumerate(pool.map(lambda entry: _check_sample(entry, num_classes), entries), 1):
            found |= dict.fromkeys(lines)
            counts += occurs
            if progress is not None:
                progress(done, len(entries))
    finally:
        pool.shutdown(cancel_futures=True)
    problems = [*plan.problems, *found]
    if counts[VOID] and not counts[1:VOID].any():  # mostly meant as background and object
        problems.append(
            f"the masks have no labels but 0 and {VOID}, and {VOID} is void. If it is the object, save it as 1."
        )
    classes = plan.classes or tuple(
        str(label) for label in range(int(np.flatnonzero(counts[:VOID]).max(initial=0)) + 1)
    )
    per_class = {name: int(count) for name, count in zip(classes, counts, strict=False)}
    absent = [name for name, count in per_class.items() if count == 0]
    if absent and len(absent) < len(per_class):
        plan.notes.append(f"classes that occur in no mask: {first_names(absent)}.")
    splits = tuple(listing.summary for listing in plan.listings.values())
    return DatasetReport(splits, len(entries), per_class, tuple(problems), tuple(plan.notes), plan.complete)


def _voc_plan(base: Path, sbd: Path) -> _Plan:
    plan = _Plan(VOC_CLASSES)
    splits = ["train", "val"]
    if find_sbd(sbd) is not None or (base / "SegmentationClassAug").is_dir():
        splits.append("train_aug")
    else:
        plan.notes.append(f"train_aug ({OFFICIAL['train_aug']} images): the masks of SBD do not exist.")
    if (base / "ImageSets" / "Segmentation" / "test.txt").exists():
        splits.append("test")
    else:
        plan.notes.append(f"test ({OFFICIAL['test']} images): does not exist.")
    _list_all(plan, {split: partial(list_voc, base, split, sbd) for split in splits})
    plan.complete = all(split in plan.listings and plan.listings[split].complete for split in splits)
    return plan


def _folder_plan(base: Path) -> _Plan:
    plan = _Plan(None)
    try:
        plan.classes = read_classes(base)
    except InputError as error:
        plan.problems.append(str(error))
    plan.problems += masks_without_image(base)
    _list_all(plan, {name or "all": partial(list_folder, base, name) for name in split_names(base) or (None,)})
    return plan


def _list_all(plan: _Plan, splits: Mapping[str, Callable[[], Listing]]) -> None:
    """List the splits; errors, empty splits and overlaps are problems."""
    for split, list_split in splits.items():
        try:
            listing = list_split()
        except DensefieldError as error:
            plan.problems.append(str(error))
            continue
        plan.listings[split] = listing
        plan.problems += [line for line in listing.problems if line not in plan.problems]
        plan.notes += [line for line in listing.notes if line not in plan.notes]
        if not listing.entries:
            plan.problems.append(f"{listing.summary}: the split is empty. Add images, or remove its list.")
    ids = {name: {entry.id for entry in listing.entries} for name, listing in plan.listings.items()}
    for one, other in (("train", "val"), ("train", "test"), ("val", "test"), ("train_aug", "val")):
        both = sorted(ids.get(one, set()) & ids.get(other, set()))
        if both:
            plan.problems.append(
                f"{one} and {other} share images: {first_names(both)}. Remove them from one of the lists."
            )


def _check_sample(entry: Entry, num_classes: int) -> tuple[list[str], npt.NDArray[np.bool_]]:
    """Problems of a sample, and which labels occur in it, (256,); the image is read even if the mask is bad."""
    problems, labels = [], None
    try:
        labels = None if entry.mask is None else read_labels(entry.mask, num_classes)
    except DensefieldError as error:
        problems.append(str(error))
    try:
        image = read_photo(entry.image, None if labels is None else labels.shape)
        if labels is not None:
            check_size(entry, image, labels)
    except DensefieldError as error:
        problems.append(str(error))
    return problems, np.bincount([] if labels is None else labels.ravel(), minlength=256) > 0
