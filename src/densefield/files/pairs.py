"""Which image goes with which mask, and where results go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from densefield.errors import InputError
from densefield.files.images import image_suffixes
from densefield.files.masks import ARRAYS
from densefield.files.outputs import FORMATS, check_format


@dataclass(frozen=True)
class Pair:
    """An image, its mask, and where the result and a preview are to be written."""

    image: Path
    mask: Path
    out: Path
    preview: Path | None = None


@dataclass(frozen=True)
class Pairing:
    """The pairs of two folders in the order of their names, and the files that belong to none."""

    pairs: tuple[Pair, ...]
    images_alone: tuple[Path, ...] = ()
    masks_alone: tuple[Path, ...] = ()
    ambiguous: tuple[str, ...] = ()  # names that more than one file of a folder has


def pair_up(image: Path, mask: Path, out: Path, preview: Path | None = None, form: str = "png") -> Pairing:
    """One pair of files, or all pairs of two folders: files of the same name, endings apart."""
    for path in (image, mask):
        if not path.exists():
            raise InputError(f"there is no file or folder {path}.")
    if image.is_dir() != mask.is_dir():
        folder, file = (image, mask) if image.is_dir() else (mask, image)
        raise InputError(f"{folder} is a folder, but {file} is a file: expected two folders or two files.")
    if image.is_dir():
        return _pair_folders(image, mask, out, preview, form)
    if out.is_dir():
        raise InputError(f"{out} is a folder; for one pair name a file, such as {out / 'result.png'}.")
    check_format(out)
    if preview is not None and preview.suffix.lower() != ".png":
        raise InputError(f"the preview {preview} ends in {preview.suffix or 'nothing'!r}, expected .png.")
    _keep_apart({"image": image, "mask": mask, "output": out, "preview": preview})
    return Pairing((Pair(image, mask, out, preview),))


def _pair_folders(images: Path, masks: Path, out: Path, preview: Path | None, form: str) -> Pairing:
    if f".{form}" not in FORMATS:
        raise InputError(f"the format is {form!r}, expected one of {', '.join(f[1:] for f in FORMATS)}.")
    for folder in (out, preview):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file, but images and masks are folders: expected a folder.")
    _keep_apart({"images": images, "masks": masks, "outputs": out, "previews": preview})
    of_image = by_name(images, image_suffixes())
    of_mask = by_name(masks, image_suffixes() | set(ARRAYS))
    pairs, ambiguous = [], []
    for name in sorted(of_image.keys() & of_mask.keys()):
        several = [found for found in (of_image[name], of_mask[name]) if len(found) > 1]
        if several:
            ambiguous.append(f"{name}: {' and '.join(str(path) for path in several[0])} have the same name.")
            continue
        shown = None if preview is None else preview / f"{name}.png"
        pairs.append(Pair(of_image[name][0], of_mask[name][0], out / f"{name}.{form}", shown))
    if not pairs and not ambiguous:
        raise InputError(
            f"no image in {images} (of {len(of_image)}) has the name of a mask in {masks} (of {len(of_mask)}): "
            "cat.jpg goes with cat.png."
        )
    alone = [
        tuple(path for name in sorted(these.keys() - those.keys()) for path in these[name])
        for these, those in ((of_image, of_mask), (of_mask, of_image))
    ]
    return Pairing(tuple(pairs), alone[0], alone[1], tuple(ambiguous))


def by_name(folder: Path, suffixes: set[str]) -> dict[str, list[Path]]:
    """Files of a folder that have one of these endings, by name without it; hidden files do not count."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in suffixes and not path.name.startswith(".") and path.is_file():
            found.setdefault(path.stem, []).append(path)
    return found


def _keep_apart(paths: dict[str, Path | None]) -> None:
    """Raises where two of the paths are the same, so that no input is overwritten."""
    seen: dict[Path, str] = {}
    for role, path in paths.items():
        if path is None:
            continue
        other = seen.setdefault(path.resolve(), role)
        if other != role:
            raise InputError(f"{path} is given for {other} and for {role}: choose another for one of them.")
