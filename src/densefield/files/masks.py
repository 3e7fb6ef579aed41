"""Reading masks: indexed, grey and coloured pictures, and arrays of labels, probabilities or logits."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from densefield.errors import InputError
from densefield.files.images import open_image
from densefield.files.palette import voc_labels, voc_palette

Form = Literal["indexed", "labels", "object", "voc colours", "colours", "soft", "probabilities", "logits"]

VOID = 255  # the label of pixels that no one labelled; the same in all layers
ARRAYS = (".npy", ".npz")
MOST_GREYS = 100  # more different values than this are shades, unless someone says that they are labels
MOST_COLOURS = 100  # more than this are a photo, or blurred


@dataclass(frozen=True)
class Mask:
    """What a file says of the labels: whole labels (H, W), or probabilities or logits (L, H, W).

    The form is "indexed" for a picture with a palette, "labels" for a grey one or an array, "object" for a grey one of
    0 and 255 alone (then 255 is label 1), "soft" for a grey one that holds the probability of label 1. Of pictures in
    colours, those of PASCAL VOC are numbered as VOC does ("voc colours"), others by their order ("colours").
    """

    form: Form
    values: npt.NDArray[np.generic]
    palette: npt.NDArray[np.uint8] | None = None  # (n, 3), of a picture that is indexed or in colours

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.values.shape[-2:]
        return rows, columns

    def unary(self) -> dict[str, npt.NDArray[np.generic]]:
        """The argument that `refine` and `explain` take it by."""
        names = {"probabilities": "probabilities", "soft": "probabilities", "logits": "logits"}
        return {names.get(self.form, "labels"): self.values}

    def labels(self) -> npt.NDArray[np.integer]:
        """The label that it gives each pixel, 255 where unknown, (H, W)."""
        return self.values.argmax(axis=0) if self.values.ndim == 3 else self.values.astype(np.intp)


def read_mask(path: Path, *, logits: bool = False, soft: bool = False, num_labels: int | None = None) -> Mask:
    """The mask in a file; its form is told by the file itself, save for `logits` and `soft`."""
    if logits and soft:
        raise InputError("a mask holds logits or is a soft picture, not both.")
    if path.suffix.lower() in ARRAYS:
        if soft:
            raise InputError(f"{path} is an array, but soft masks are grey pictures: leave out --soft.")
        return _array_mask(path, logits, num_labels)
    if logits:
        raise InputError(f"{path} is a picture, but logits are arrays: expected .npy or .npz.")
    return _picture_mask(path, soft, num_labels)


def _array_mask(path: Path, logits: bool, num_labels: int | None) -> Mask:
    array = _load_array(path)
    if array.ndim == 2 and (array.dtype == np.bool_ or np.issubdtype(array.dtype, np.integer)):
        if logits:
            raise InputError(
                f"{path} holds labels ({array.dtype}), but logits are floating point (labels, rows, columns)."
            )
        return Mask("labels", array.astype(np.uint8) if array.dtype == np.bool_ else array)
    if array.ndim != 3 or not np.issubdtype(array.dtype, np.floating):
        raise InputError(
            f"{path} holds {array.dtype} of shape {array.shape}, expected whole numbers (rows, columns) for labels, or "
            "floating point (labels, rows, columns) for probabilities or logits."
        )
    if num_labels is not None and len(array) != num_labels:
        raise InputError(
            f"{path} has shape {array.shape}, that is {len(array)} labels, but {num_labels} were asked for."
        )
    return Mask("logits" if logits else "probabilities", array)


def _load_array(path: Path) -> npt.NDArray[np.generic]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            if len(loaded.files) != 1:
                raise InputError(f"{path} holds {len(loaded.files)} arrays ({', '.join(loaded.files)}), expected one.")
            only: npt.NDArray[np.generic] = loaded[loaded.files[0]]
            return only
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except InputError:
        raise
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read as an array: {error}.") from error


def _picture_mask(path: Path, soft: bool, num_labels: int | None) -> Mask:
    picture = open_image(path)
    if soft:
        if picture.mode not in ("1", "L"):
            raise InputError(f"{path} has pixels of mode {picture.mode}, but a soft mask is grey, of 8 bits.")
        share = np.asarray(picture.convert("L"), np.float32) / 255
        return Mask("soft", np.stack([1 - share, share]))
    if picture.format == "JPEG":
        raise InputError(f"{path} is a JPEG, which blurs labels: save masks as PNG, or pass --soft for a soft one.")
    if picture.mode == "P":
        palette = np.array(picture.getpalette("RGB"), np.uint8).reshape(-1, 3)
        return Mask("indexed", np.asarray(picture), palette)
    if picture.mode in ("RGB", "RGBA"):
        return _colour_mask(path, picture)
    if picture.mode not in ("1", "L"):
        raise InputError(not_labels(path, picture))
    greys = np.asarray(picture.convert("L"))
    different = np.unique(greys)
    # More than two labels were asked for: then 255 is not one of them.
    if set(different.tolist()) <= {0, VOID} and (num_labels is None or num_labels <= 2):
        return Mask("object", (greys == VOID).astype(np.uint8))
    if len(different) > MOST_GREYS and num_labels is None:
        raise InputError(
            f"{path} has {len(different)} different grey values. If they are probabilities of one object pass --soft; "
            "if they are labels pass their number as --labels."
        )
    return Mask("labels", greys)


def _colour_mask(path: Path, picture: Image.Image) -> Mask:
    colours = np.asarray(picture.convert("RGB"))
    labels = voc_labels(colours)
    if labels is not None:
        return Mask("voc colours", labels, voc_palette())
    palette, numbers = np.unique(colours.reshape(-1, 3), axis=0, return_inverse=True)
    if len(palette) > MOST_COLOURS or (palette == palette[:, :1]).all():
        raise InputError(not_labels(path, picture))
    return Mask("colours", numbers.reshape(colours.shape[:2]).astype(np.uint8), palette)


def not_labels(path: Path, picture: Image.Image) -> str:
    """What is wrong with a picture whose pixels are no labels, and the cure."""
    what = f"{path} has pixels of mode {picture.mode}, expected an indexed or grey picture whose values are labels"
    if picture.mode not in ("RGB", "RGBA"):
        return f"{what}: convert it."
    colours = np.asarray(picture.convert("RGB"))
    if (colours == colours[..., :1]).all():
        return f"{what}. Its three channels are equal: save one of them."
    count = len(np.unique(colours.reshape(-1, 3), axis=0))
    return f"{what}. It has {count} colours: number them, and save the numbers as an indexed or grey PNG."
