"""Finding images, and pairing them with masks and output files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from densefield.errors import InputError
from densefield.images.masks import ARRAYS
from densefield.images.reading import FORMAT_NAMES, IMAGE_SUFFIXES
from densefield.images.writing import FORMATS, TIFF, check_format, ending_of
from densefield.io.folders import FolderListing, list_files, split_name
from densefield.io.messages import first_names
from densefield.volumes.formats import check_ending, volume_kind
from densefield.volumes.nifti import SUFFIXES as NIFTI

MAX_NAMES = 5  # of files in one message
MAX_TRIED = 100  # names, for a hint

Names = Mapping[str, Sequence[Path]]


class FoundImages(NamedTuple):
    """Images by name without suffix, a line for each that cannot be used, and a line for each skipped file."""

    files: dict[str, Path]
    failures: list[str]
    ignored: list[str]


def find_images(inputs: Sequence[Path]) -> FoundImages:
    """The images of files and folders; images with the same name are failures, since their results would collide."""
    found: dict[str, list[Path]] = {}
    ignored: list[str] = []
    for path in inputs:
        if not path.exists():
            raise InputError(f"there is no file or folder {path}.")
        if not path.is_dir():
            listed = {path.stem: [path]}
        else:
            listing = list_files(path, IMAGE_SUFFIXES)
            skipped = listing.skipped_lines(f"an image ({FORMAT_NAMES})") + listing.unreadable
            if not listing.files:
                raise InputError("\n".join([f"{path} has no images in it.", *skipped]))
            listed = listing.files
            ignored += skipped
        for name, paths in listed.items():
            found.setdefault(name, []).extend(each for each in paths if each not in found.get(name, []))
    duplicates = [
        f"{' and '.join(map(str, paths))} have the same name: predict them into different folders."
        for paths in found.values()
        if len(paths) > 1
    ]
    return FoundImages({name: paths[0] for name, paths in found.items() if len(paths) == 1}, duplicates, ignored)


@dataclass(frozen=True)
class Pair:
    """An image, its mask, and the files that the result and a preview are written to."""

    image: Path
    mask: Path
    out: Path
    preview: Path | None = None

    @property
    def is_volume(self) -> bool:
        """Whether image or mask is a volume or a raster, rather than a photo or an array."""
        return volume_kind(self.image) is not None or volume_kind(self.mask) is not None


@dataclass(frozen=True)
class Pairing:
    """The pairs of two folders in the order of their names, and files without a partner; or one pair."""

    pairs: tuple[Pair, ...]
    images_alone: tuple[Path, ...] = ()
    masks_alone: tuple[Path, ...] = ()
    ambiguous: tuple[str, ...] = ()  # names of several files in one folder
    skipped: tuple[str, ...] = ()  # a line for each kind of skipped file
    is_volume: bool = False  # one pair, of a volume or raster


def pair_up(
    image: Path,
    mask: Path,
    out: Path,
    preview: Path | None = None,
    format: str | None = None,
    *,
    recursive: bool = False,
    mask_suffix: str = "",
) -> Pairing:
    """Pair an image with its mask, or the images of a folder with their masks, as refine_files() describes."""
    for path in (image, mask):
        if not path.exists():
            raise InputError(f"there is no file or folder {path}.")
    volumes = volume_kind(image) is not None or volume_kind(mask) is not None  # some are folders
    if image.is_dir() != mask.is_dir() and not volumes:
        folder, file = (image, mask) if image.is_dir() else (mask, image)
        raise InputError(f"{folder} is a folder, but {file} is a file: expected two folders or two files.")
    if image.is_dir() and not volumes:
        return _pair_folders(image, mask, out, preview, format, recursive, mask_suffix)
    if recursive or mask_suffix:
        given = "recursive=True" if recursive else f"mask_suffix={mask_suffix!r}"
        raise InputError(f"{given} is for folders, but {image} is a file: leave it out.")
    if out.is_dir() and volume_kind(out) is None:
        raise InputError(f"{out} is a folder; for one pair name a file, such as {out / 'result.png'}.")
    if volumes:
        check_ending(out, mask)
    else:
        check_format(out)
    if preview is not None and preview.suffix.lower() != ".png":
        raise InputError(f"the preview {preview} {ending_of(preview)}, expected .png.")
    _check_distinct({"image": image, "mask": mask, "output": out, "preview": preview})
    return Pairing((Pair(image, mask, out, preview),), is_volume=volumes)


def _pair_folders(
    images: Path, masks: Path, out: Path, preview: Path | None, format: str | None, recursive: bool, mask_suffix: str
) -> Pairing:
    if format is not None and f".{format}" not in FORMATS:
        raise InputError(f"the format is {format!r}, expected one of {', '.join(f[1:] for f in FORMATS)}.")
    for folder in (out, preview):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file, but images and masks are folders: expected a folder.")
    together = bool(mask_suffix) and images.resolve() == masks.resolve()
    _check_distinct({"images": images, "masks": None if together else masks, "outputs": out, "previews": preview})
    if recursive:
        _check_outside((images, masks), (out, preview))
    image_list = list_files(images, IMAGE_SUFFIXES | set(NIFTI), recursive=recursive)
    mask_list = list_files(masks, IMAGE_SUFFIXES | set(ARRAYS) | set(NIFTI), recursive=recursive)
    for listing in (image_list, mask_list):
        if listing.unreadable and not listing.files:
            raise InputError(listing.unreadable[0])
    skipped = _skipped(images, image_list, "images")
    of_image, of_mask, unmatched = image_list.files, mask_list.files, []
    if mask_suffix:
        unmatched = [path for name in of_mask if not name.endswith(mask_suffix) for path in of_mask[name]]
        of_mask = {name.removesuffix(mask_suffix): of_mask[name] for name in of_mask if name.endswith(mask_suffix)}
    if together:
        of_image = {name: paths for name, paths in of_image.items() if not name.endswith(mask_suffix)}
    else:
        skipped += _skipped(masks, mask_list, "masks")
        if unmatched:
            skipped.append(
                f"{masks}: skipped files whose name does not end in {mask_suffix} ({_names(unmatched, masks)})."
            )
    pairs, ambiguous = [], []
    for name in sorted(of_image.keys() & of_mask.keys()):
        several = [found for found in (of_image[name], of_mask[name]) if len(found) > 1]
        if several:
            ambiguous.append(f"{' and '.join(str(path) for path in several[0])} have the same name: remove one.")
            continue
        mask = of_mask[name][0]
        stem, ending = split_name(mask)
        result = PurePosixPath(name).with_name(stem)  # so that results can replace the masks
        kept = ending in (*TIFF, *NIFTI)
        suffix = f".{format}" if format is not None else mask.name[len(stem) :] if kept else ".png"
        shown = None if preview is None else preview / f"{result}.png"
        pairs.append(Pair(of_image[name][0], mask, out / f"{result}{suffix}", shown))
    if not pairs and not ambiguous:
        raise InputError(_no_pair(images, masks, of_image, of_mask, mask_suffix, image_list.subfolders))
    alone = [
        tuple(path for name in sorted(these.keys() - those.keys()) for path in these[name])
        for these, those in ((of_image, of_mask), (of_mask, of_image))
    ]
    return Pairing(tuple(pairs), alone[0], alone[1], tuple(ambiguous), tuple(skipped))


def _no_pair(
    images: Path, masks: Path, of_image: Names, of_mask: Names, mask_suffix: str, subfolders: Sequence[Path]
) -> str:
    message = (
        f"no image in {images} (of {len(of_image)}) has the name of a mask in {masks} (of {len(of_mask)}): cat.jpg "
        f"is paired with cat{mask_suffix}.png."
    )
    if subfolders:
        message += " Subfolders were not searched: pass recursive=True."
    suffix = "" if mask_suffix else likely_suffix(sorted(of_image), sorted(of_mask))
    return f"{message} Names of masks seem to end in {suffix}: pass mask_suffix={suffix!r}." if suffix else message


def likely_suffix(images: Sequence[str], masks: Sequence[str]) -> str:
    """The suffix that the names of masks seem to have after those of images; "" if there is none.

    >>> likely_suffix(["cat", "dog"], ["bird_mask", "dog_mask"])
    '_mask'
    """
    tried = images[:MAX_TRIED]
    return next((mask[len(image) :] for image in tried for mask in masks if mask.startswith(image)), "")


def _skipped(folder: Path, listing: FolderListing, what: str) -> list[str]:
    """A line for each kind of skipped file."""
    lines = list(listing.unreadable)
    if listing.subfolders:
        lines.append(
            f"{folder}: skipped subfolders ({_names(listing.subfolders, folder)}). Search them with recursive=True."
        )
    if listing.others:
        lines.append(f"{folder}: skipped files that are not {what} by their suffix ({_names(listing.others, folder)}).")
    return lines


def _names(paths: Sequence[Path], folder: Path) -> str:
    return first_names([path.relative_to(folder).as_posix() for path in paths], MAX_NAMES)


def _check_distinct(paths: dict[str, Path | None]) -> None:
    """Raise if two of the paths are the same, so that no input is overwritten."""
    seen: dict[Path, str] = {}
    for role, path in paths.items():
        if path is None:
            continue
        other = seen.setdefault(path.resolve(), role)
        if other != role:
            raise InputError(f"{path} is given for {other} and for {role}: choose another for one of them.")


def _check_outside(inputs: Sequence[Path], outputs: Sequence[Path | None]) -> None:
    """Raise if results would be inside a searched folder, where the next run would read them as input."""
    for output in outputs:
        for folder in inputs:
            if output is not None and folder.resolve() in output.resolve().parents:
                raise InputError(f"{output} is inside {folder}, which recursive=True searches: choose another folder.")
