"""Reading all of a dataset once, to find what is wrong with it before training does."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from densefield.datasets.folder import MOST_CLASSES, list_folder, masks_alone, read_classes, split_names
from densefield.datasets.layout import find_layout
from densefield.datasets.listing import Listing
from densefield.datasets.reading import check_size, read_labels, read_photo
from densefield.datasets.sample import Entry
from densefield.datasets.sbd import find_sbd
from densefield.datasets.voc import CLASSES as VOC_CLASSES
from densefield.datasets.voc import OFFICIAL, list_voc
from densefield.errors import DensefieldError, InputError
from densefield.io.messages import first_names
from densefield.labels import VOID

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Report:
    """What was found: a line for each split, a line for each thing that is wrong, and what is worth knowing.

    `images_per_class` counts the images in which each class occurs; the dataset is complete where it has all that its
    publisher put into train, val and, if SBD is there, train_aug.
    """

    splits: tuple[str, ...]
    checked: int
    images_per_class: Mapping[str, int]
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    complete: bool = True


@dataclass
class _Plan:
    """What is to be read."""

    classes: tuple[str, ...] | None  # None: as many as masks show
    listings: dict[str, Listing] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    complete: bool = True


@dataclass(frozen=True)
class _Seen:
    """What one sample showed."""

    problems: tuple[str, ...]
    labels: npt.NDArray[np.bool_]  # (256,): which labels occur


def check_data(
    root: Path, *, sbd: Path | None = None, threads: int | None = None, progress: Progress | None = None
) -> Report:
    """Reads every image and mask of every split: are they there, can they be read, do sizes and labels fit?

    `progress` is called with the number of samples read and of all.
    """
    plan = _plan(root, root if sbd is None else sbd)
    num_classes = MOST_CLASSES if plan.classes is None else len(plan.classes)
    # A sample may be in several splits, and train_aug may have another mask for it.
    entries = list(dict.fromkeys(entry for listing in plan.listings.values() for entry in listing.entries))
    seen: list[_Seen] = []
    pool = ThreadPoolExecutor(threads or os.cpu_count() or 1)
    try:
        for one in pool.map(lambda entry: _look_at(entry, num_classes), entries):
            seen.append(one)
            if progress is not None:
                progress(len(seen), len(entries))
    finally:
        pool.shutdown(cancel_futures=True)
    counts = np.zeros(256, np.intp)  # images in which each label occurs
    for one in seen:
        counts += one.labels
    problems = [*plan.problems, *dict.fromkeys(line for one in seen for line in one.problems)]
    problems += _only_void(counts, len(seen))
    classes = plan.classes or tuple(
        str(label) for label in range(int(np.flatnonzero(counts[:VOID]).max(initial=0)) + 1)
    )
    per_class = {name: int(count) for name, count in zip(classes, counts, strict=False)}
    notes = [*plan.notes, *_absent(per_class)]
    lines = tuple(listing.summary for listing in plan.listings.values())
    return Report(lines, len(entries), per_class, tuple(problems), tuple(notes), plan.complete)


def _plan(root: Path, sbd: Path) -> _Plan:
    layout, base = find_layout(root)
    return _voc_plan(base, sbd) if layout == "voc" else _folder_plan(base)


def _voc_plan(base: Path, sbd: Path) -> _Plan:
    plan = _Plan(VOC_CLASSES)
    splits = ["train", "val"]
    if find_sbd(sbd) is not None or (base / "SegmentationClassAug").is_dir():
        splits.append("train_aug")
    else:
        plan.notes.append(f"train_aug ({OFFICIAL['train_aug']} images): the masks of SBD are not there.")
    if (base / "ImageSets" / "Segmentation" / "test.txt").exists():
        splits.append("test")
    else:
        plan.notes.append(f"test ({OFFICIAL['test']} images): not there.")
    _list_all(plan, {split: partial(list_voc, base, split, sbd) for split in splits})
    plan.complete = all(split in plan.listings and plan.listings[split].complete for split in splits)
    return plan


def _folder_plan(base: Path) -> _Plan:
    plan = _Plan(None)
    try:
        plan.classes = read_classes(base)
    except InputError as error:
        plan.problems.append(str(error))
    plan.problems += masks_alone(base)
    _list_all(plan, {name or "all": partial(list_folder, base, name) for name in split_names(base) or (None,)})
    return plan


def _list_all(plan: _Plan, splits: Mapping[str, Callable[[], Listing]]) -> None:
    """Lists the splits; what cannot be listed, is empty or overlaps is a problem."""
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
                f"{one} and {other} share images: {first_names(both)}. Take them out of one of the lists."
            )


def _look_at(entry: Entry, num_classes: int) -> _Seen:
    """Reads both files, also where the first is bad."""
    problems = []
    image = label = None
    try:
        label = None if entry.mask is None else read_labels(entry.mask, num_classes)
    except DensefieldError as error:
        problems.append(str(error))
    try:
        image = read_photo(entry.image, None if label is None else label.shape)
        if label is not None:
            check_size(entry, image, label)
    except DensefieldError as error:
        problems.append(str(error))
    labels = np.zeros(256, np.bool_)
    if label is not None:
        labels = np.bincount(label.ravel(), minlength=256) > 0
    return _Seen(tuple(problems), labels)


def _only_void(counts: npt.NDArray[np.intp], samples: int) -> list[str]:
    """Masks of 0 and 255 alone are mostly meant as background and object, but 255 is void."""
    if samples and counts[VOID] and not counts[1:VOID].any():
        return [f"the masks have no label but 0 and {VOID}, and {VOID} is void. If it is the object, save it as 1."]
    return []


def _absent(per_class: Mapping[str, int]) -> list[str]:
    absent = [name for name, count in per_class.items() if count == 0]
    return [f"classes that occur in no mask: {first_names(absent)}."] if absent and len(absent) < len(per_class) else []
