"""The images of an explorer, each with its mask and its true mask, read when they are shown."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from densefield.errors import InputError
from densefield.images.masks import ARRAYS, Mask, read_mask
from densefield.images.reading import FORMAT_NAMES, IMAGE_SUFFIXES, Pixels, read_image
from densefield.io.folders import list_files
from densefield.io.messages import failure_line
from densefield.labels import PROBABILITY_RANGE, VOID, Void

PICTURES_IN_MEMORY = 3
MOST_PROBLEMS = 5  # named if no image can be read
MOST_LABELS = 254  # that a byte of the page can tell apart, besides "unknown"


@dataclass(frozen=True)
class Reading:
    """How masks are read: the parameters of `read_mask`."""

    logits: bool = False
    soft: bool = False
    num_classes: int | None = None
    void: Void = "auto"


@dataclass(frozen=True)
class Entry:
    """The files of one image."""

    image: Path
    mask: Path | None = None
    truth: Path | None = None
    shares_stem: bool = False  # with another image of the folder

    @property
    def name(self) -> str:
        """What saved files are named by: the image's name, with its suffix if another image differs in it alone.

        >>> Entry(Path("cat.jpg")).name, Entry(Path("cat.jpg"), shares_stem=True).name
        ('cat', 'cat.jpg')
        """
        return self.image.name if self.shares_stem else self.image.stem


@dataclass(frozen=True)
class Picture:
    """One image, its mask or scores, and its true mask, in memory.

    Parameters
    ----------
    entry
        Its files.
    pixels
        Colours 0…255, (H, W, 3) or (H, W).
    mask
        The mask or scores; None without a file.
    truth
        The true labels (H, W), 255 where unknown; None without a file.
    resized
        The scores were interpolated to the size of the image.
    num_classes
        The number of classes, if it was given.
    """

    entry: Entry
    pixels: Pixels
    mask: Mask | None = None
    truth: npt.NDArray[np.intp] | None = None
    resized: bool = False
    num_classes: int | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.pixels.shape[:2]
        return rows, columns


@dataclass
class Gallery:
    """Images by their place in a list; the page never names a file.

    Parameters
    ----------
    entries
        The files of the images.
    reading
        How masks are read.
    skipped
        One line for each file that was left out.
    """

    entries: Sequence[Entry]
    reading: Reading = field(default_factory=Reading)
    skipped: Sequence[str] = ()
    _pictures: OrderedDict[int, Picture] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def picture(self, index: int) -> Picture:
        """The image at a place of the list; any error is an InputError that names the file."""
        if not 0 <= index < len(self.entries):
            raise InputError(f"there is no image number {index}, expected 0 to {len(self.entries) - 1}.")
        with self._lock:
            if index not in self._pictures:
                entry = self.entries[index]
                try:
                    self._pictures[index] = read_picture(entry, self.reading)
                except (OSError, MemoryError) as error:
                    raise InputError(failure_line(error, entry.image)) from error
                while len(self._pictures) > PICTURES_IN_MEMORY:
                    self._pictures.popitem(last=False)
            self._pictures.move_to_end(index)
            return self._pictures[index]


def open_gallery(
    image: Path,
    mask: Path | None = None,
    truth: Path | None = None,
    reading: Reading | None = None,
    mask_suffix: str = "",
) -> Gallery:
    """The gallery of one image, or of a folder whose masks have the names of the images."""
    reading = reading or Reading()
    for path in (image, mask, truth):
        if path is None:
            continue
        if not path.exists():
            raise InputError(f"there is no file or folder {path}.")
        if path.is_dir() != image.is_dir():
            folder, file = (image, path) if image.is_dir() else (path, image)
            raise InputError(f"{folder} is a folder, but {file} is a file: expected folders only, or files only.")
    if not image.is_dir():
        gallery = Gallery((Entry(image, mask, truth),), reading)
        gallery.picture(0)  # errors end the command
        return gallery
    listing = list_files(image, IMAGE_SUFFIXES)
    skipped = listing.skipped_lines(f"an image ({FORMAT_NAMES})") + listing.unreadable
    masks, truths = _by_name(mask, mask_suffix), _by_name(truth)
    together = mask is not None and bool(mask_suffix) and mask.resolve() == image.resolve()
    images = [
        (name, path)
        for name, paths in listing.files.items()
        for path in paths
        if not (together and path.stem.endswith(mask_suffix))
    ]
    stems = Counter(path.stem.casefold() for _, path in images)  # some file systems ignore case
    entries = [Entry(path, masks.get(name), truths.get(name), stems[path.stem.casefold()] > 1) for name, path in images]
    if not entries:
        raise InputError("\n".join([f"{image} has no images in it.", *skipped]))
    for masks_of, found in ((mask, masks), (truth, truths)):
        if masks_of is not None and not any(entry.image.stem in found for entry in entries):
            raise InputError(f"no image in {image} has the name of a mask in {masks_of}: cat.jpg belongs to cat.png.")
    gallery = Gallery(tuple(entries), reading, skipped)
    _check_readable(gallery, image)
    return gallery


def _check_readable(gallery: Gallery, folder: Path) -> None:
    """Raises if no image can be shown."""
    problems = []
    for index in range(len(gallery.entries)):
        try:
            gallery.picture(index)
            return
        except InputError as error:
            problems.append(str(error))
    more = len(problems) - MOST_PROBLEMS
    lines = [*problems[:MOST_PROBLEMS], *([f"and {more} more."] if more > 0 else [])]
    raise InputError("\n".join([f"no image in {folder} can be shown:", *lines, *gallery.skipped]))


def _by_name(folder: Path | None, suffix: str = "") -> dict[str, Path]:
    if folder is None:
        return {}
    files = list_files(folder, IMAGE_SUFFIXES | set(ARRAYS)).files
    return {name.removesuffix(suffix): paths[0] for name, paths in files.items() if name.endswith(suffix)}


def read_picture(entry: Entry, reading: Reading) -> Picture:
    """Reads the files of an image, and checks that they fit each other."""
    mask = None
    if entry.mask is not None:
        mask = read_mask(
            entry.mask,
            logits=reading.logits,
            soft=reading.soft,
            num_classes=reading.num_classes,
            void=reading.void,
        )
        _check_scores(entry.mask, mask)
    pixels = read_image(entry.image, None if mask is None else mask.size)
    size, resized = (pixels.shape[0], pixels.shape[1]), False
    if mask is not None and mask.size != size:
        if mask.values.ndim == 2 or max(mask.size) > max(size):
            raise InputError(_other_size(entry.image, size, entry.mask, mask.size))
        mask, resized = replace(mask, values=resized_scores(mask.values, size)), True
    if mask is not None:
        count = len(mask.values) if mask.values.ndim == 3 else len(np.unique(mask.values))
        if count > MOST_LABELS:
            raise InputError(f"{entry.mask} has {count} labels, expected {MOST_LABELS} or fewer to show them.")
    truth = None
    if entry.truth is not None:
        true_mask = read_mask(entry.truth, num_classes=reading.num_classes, void=reading.void)
        if true_mask.values.ndim != 2:
            raise InputError(f"{entry.truth} holds scores, expected labels: a true mask says one label for each pixel.")
        if true_mask.size != size:
            raise InputError(_other_size(entry.image, size, entry.truth, true_mask.size))
        labels = true_mask.labels()
        if labels.max() >= VOID:
            raise InputError(f"{entry.truth} has label {labels.max()}, expected true labels below {VOID}.")
        truth = np.where(labels < 0, VOID, labels)
    return Picture(entry, pixels, mask, truth, resized, reading.num_classes)


def resized_scores(scores: npt.NDArray[np.generic], size: tuple[int, int]) -> npt.NDArray[np.float32]:
    """Scores (L, h, w) of a network at the size (H, W) of its image, bilinearly, with the corners of pixels aligned.

    >>> resized_scores(np.array([[[0.0, 1.0]]]), (1, 4)).tolist()
    [[[0.0, 0.25, 0.75, 1.0]]]
    """
    planes = [
        np.asarray(Image.fromarray(plane).resize((size[1], size[0]), Image.Resampling.BILINEAR))
        for plane in np.ascontiguousarray(scores, np.float32)
    ]
    return np.stack(planes)


def _check_scores(path: Path, mask: Mask) -> None:
    """Raises unless all values are finite, and probabilities are from 0 to 1."""
    values = mask.values
    finite = np.isfinite(values)
    if not finite.all():
        place = tuple(int(each) for each in np.argwhere(~finite)[0])
        raise InputError(
            f"{path} holds NaN or infinity at {np.count_nonzero(~finite)} of {finite.size} places, first at {place}: "
            "expected finite scores; for a label that is ruled out use a large negative logit such as -1e4."
        )
    if mask.form == "probabilities" and (values.min() < PROBABILITY_RANGE[0] or values.max() > PROBABILITY_RANGE[1]):
        raise InputError(
            f"{path} holds numbers from {values.min():.4g} to {values.max():.4g}, expected probabilities from 0 to 1. "
            "For raw scores start with --logits."
        )


def _other_size(image: Path, size: tuple[int, int], other: Path | None, found: tuple[int, int]) -> str:
    return (
        f"{image} has {size[1]} × {size[0]} pixels (width × height), but {other} has {found[1]} × {found[0]}: expected "
        "the same size."
    )
