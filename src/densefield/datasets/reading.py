"""Reading samples: images, masks, and the .mat files of the Semantic Boundaries Dataset (SBD)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from densefield.datasets.sample import Entry, Sample
from densefield.errors import DensefieldError, InputError
from densefield.images.masks import not_labels
from densefield.images.palette import voc_labels
from densefield.images.reading import SIXTEEN_BITS, open_image, read_rgb
from densefield.labels import VOID

Bytes = npt.NDArray[np.uint8]

# Formats that change labels. Programs that write GIF, Pillow too, renumber the palette.
UNSUITABLE = {"JPEG": "blurs labels", "MPO": "blurs labels", "GIF": "renumbers labels"}


def read_sample(entry: Entry, num_classes: int) -> Sample:
    """Read a sample and check that labels are within 0, …, L-1 or 255, and of the image's size."""
    if entry.mask is None:
        return Sample(read_photo(entry.image), None, entry.id)
    labels = read_labels(entry.mask, num_classes)
    image = read_photo(entry.image, labels.shape)
    check_size(entry, image, labels)
    return Sample(image, labels, entry.id)


def read_photo(path: Path, size: tuple[int, ...] | None = None) -> Bytes:
    """Read an image of a dataset, (H, W, 3); `size` is that of its mask, (rows, columns)."""
    try:
        return read_rgb(path, size)
    except InputError as error:
        raise _unreadable(error) from error


def read_labels(path: Path, num_classes: int) -> Bytes:
    """Read labels (H, W) from an indexed or grey picture, or from a .mat file of SBD; 255 is void."""
    labels = read_segmentation(path) if path.suffix == ".mat" else _picture_labels(path)
    wrong = ((labels >= num_classes) | (labels < 0)) & (labels != VOID)
    if wrong.any():
        row, column = np.unravel_index(wrong.argmax(), wrong.shape)
        raise InputError(
            f"{path} has label {labels[row, column]} at row {row}, column {column}, expected 0 to {num_classes - 1} "
            f"(there are {num_classes} classes), or {VOID} for void. Renumber the mask, or name the missing classes."
        )
    return labels.astype(np.uint8)


def check_size(entry: Entry, image: Bytes, labels: Bytes) -> None:
    """Raise if image and mask differ in size."""
    if image.shape[:2] != labels.shape:
        raise InputError(
            f"{entry.mask} has {labels.shape[1]} × {labels.shape[0]} pixels (width × height), but {entry.image} has "
            f"{image.shape[1]} × {image.shape[0]}: expected the same size. Take the mask that belongs to this image, "
            "or resize the mask without blending its labels."
        )


def _picture_labels(path: Path) -> npt.NDArray[np.integer]:
    try:
        picture = open_image(path)
    except InputError as error:
        raise _unreadable(error) from error
    if picture.format in UNSUITABLE:
        raise InputError(f"{path} is a {picture.format}, which {UNSUITABLE[picture.format]}: save masks as PNG.")
    if picture.mode in ("P", "L", "1", *SIXTEEN_BITS):
        return np.asarray(picture).astype(np.uint8) if picture.mode == "1" else np.asarray(picture)
    message = not_labels(path, picture)
    if picture.mode in ("RGB", "RGBA") and voc_labels(np.asarray(picture.convert("RGB"))) is not None:
        message += " They are colours of PASCAL VOC, so number them with densefield.images.voc_labels()."
    raise InputError(message)


def _unreadable(error: InputError) -> InputError:
    return InputError(f"{error} Download it again, or remove its name from the split.")


def require_scipy() -> None:
    """Raise if scipy is not installed."""
    try:
        import scipy.io  # type: ignore[import-untyped]  # noqa: F401
    except ModuleNotFoundError as error:
        raise DensefieldError(
            "the .mat files of SBD need scipy, which is not installed. Install it with: pip install scipy"
        ) from error


def read_segmentation(path: Path) -> npt.NDArray[np.integer]:
    """Read the label of each pixel, (H, W), from SBD's cls/ID.mat; SBD has no void."""
    require_scipy()
    from scipy.io import loadmat

    if not path.is_file():
        raise InputError(f"there is no file {path}. Unpack SBD again.")
    try:
        labels = loadmat(path, variable_names=["GTcls"])["GTcls"][0, 0]["Segmentation"]
    except Exception as error:  # damaged files raise errors of any type
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{path} cannot be read as a .mat file of SBD ({reason}). Download it again.") from error
    if not isinstance(labels, np.ndarray) or labels.ndim != 2 or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"{path} has no integer labels (rows, columns) in GTcls.Segmentation. Download it again.")
    return labels
