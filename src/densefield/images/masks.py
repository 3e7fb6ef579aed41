"""Reading masks: indexed, grey and coloured pictures, and arrays of labels, probabilities or logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from densefield.errors import InputError
from densefield.images.palette import voc_labels, voc_palette
from densefield.images.reading import SIXTEEN_BITS, count_frames, open_image
from densefield.images.tiff_tags import kept_tags
from densefield.io.untrusted import read_array
from densefield.labels import VOID, Void, binary_foreground, void_value

Values = npt.NDArray[np.integer[Any]] | None  # of all masks of a series
Form = Literal["indexed", "labels", "binary", "voc colours", "colours", "soft", "probabilities", "logits"]

ARRAYS = (".npy", ".npz")
MAX_CLASSES = 1 << 16  # larger numbers are identifiers, not classes
MAX_GREYS = 100  # more different values are shades of grey, unless the number of classes is given
MAX_COLOURS = 100  # more colours are a photo or a blurred mask


@dataclass(frozen=True)
class Mask:
    """The labels (H, W), probabilities or logits (L, H, W) of a file.

    Parameters
    ----------
    form
        "indexed" for a picture with a palette; "labels" for a grey picture or an array of integers; "binary" for a
        binary mask such as 0/255, whose foreground is label 1; "soft" for a grey picture of the probability of label 1;
        "voc colours" for a picture in the colours of PASCAL VOC, with VOC's labels; "colours" for a picture in other
        colours, numbered in their order; "probabilities" or "logits" for an array of them.
    values
        Labels (H, W), or probabilities or logits (L, H, W).
    palette
        The colours of labels, (n, 3), if the picture is indexed or in colours.
    void
        The value of unknown pixels; None if every value is a label.
    foreground
        The value of label 1 in a file of the form "binary".
    sixteen_bits
        The picture has 16 bits per pixel.
    tags
        Of a TIFF picture: its resolution, and its description by ImageJ or OME.

    >>> Mask("labels", np.array([[0, 7], [255, 0]]), void=255).labels().tolist()
    [[0, 7], [-1, 0]]
    """

    form: Form
    values: npt.NDArray[np.generic]
    palette: npt.NDArray[np.uint8] | None = None
    void: int | None = None
    foreground: int = 255
    sixteen_bits: bool = False
    tags: Mapping[int, Any] = field(default_factory=dict)

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.values.shape[-2:]
        return rows, columns

    def unary(self) -> dict[str, Any]:
        """The mask as arguments of `refine` and `explain`."""
        if self.form in ("probabilities", "soft"):
            return {"probabilities": self.values}
        return {"logits": self.values} if self.form == "logits" else {"labels": self.values, "void": self.void}

    def renumbered(self) -> tuple[Mask, npt.NDArray[np.intp]]:
        """The mask with its labels renumbered to 0, 1, … without gaps, and the original labels.

        >>> mask, numbers = Mask("labels", np.array([[7, 300], [255, 7]]), void=255).renumbered()
        >>> mask.values.tolist(), mask.void, numbers.tolist()
        ([[0, 1], [2, 0]], 2, [7, 300])
        """
        labels = self.labels()
        numbers = np.unique(labels[labels >= 0])
        values = np.where(labels >= 0, np.searchsorted(numbers, labels), len(numbers))
        return replace(self, values=values, void=len(numbers)), numbers

    def labels(self) -> npt.NDArray[np.intp]:
        """The label of each pixel, (H, W); -1 is unknown."""
        if self.values.ndim == 3:
            best: npt.NDArray[np.intp] = self.values.argmax(axis=0)
            return best
        labels = self.values.astype(np.intp)
        return labels if self.void is None else np.where(labels == self.void, -1, labels)


def read_mask(
    path: Path,
    *,
    logits: bool = False,
    soft: bool = False,
    num_classes: int | None = None,
    void: Void = "auto",
    among: npt.NDArray[np.integer] | None = None,
) -> Mask:
    """Read the mask in a file.

    Parameters
    ----------
    path
        A picture, or .npy or .npz with one array.
    logits
        Floating point arrays hold logits instead of probabilities.
    soft
        Grey pictures hold the probability of label 1, 0…255.
    num_classes
        The number of classes; with more than two, a mask of 0 and 255 is not binary.
    void
        The value of unknown pixels; "auto" is 255, None is no value.
    among
        The values that occur in all masks of a series, such as the frames of a video: they decide together whether the
        masks are binary. By default the values of this mask. Masks in colours of a series may hold greys alone.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "a.npy"), np.array([[0, 3], [1, 255]]))
    ...     mask = read_mask(Path(folder, "a.npy"))
    >>> mask.form, mask.void, mask.size
    ('labels', 255, (2, 2))
    """
    if logits and soft:
        raise InputError(
            "got logits=True and soft=True, expected at most one of them: a mask is an array or a picture."
        )
    if path.suffix.lower() in ARRAYS:
        if soft:
            raise InputError(f"{path} is an array, but soft masks are grey pictures: leave out soft=True.")
        return _array_mask(path, logits, num_classes, void, among)
    if logits:
        raise InputError(f"{path} is a picture, but logits=True expects arrays: .npy or .npz.")
    picture = open_image(path)
    return replace(_picture_mask(path, picture, soft, num_classes, void, among), tags=kept_tags(picture))


def _array_mask(path: Path, logits: bool, num_classes: int | None, void: Void, among: Values) -> Mask:
    _, array = read_array(path, partial(_only_name, path))
    if array.ndim == 2 and (array.dtype == np.bool_ or np.issubdtype(array.dtype, np.integer)):
        if logits:
            raise InputError(
                f"{path} holds labels ({array.dtype}), but logits=True expects floating point (classes, rows, columns)."
            )
        labels = array.astype(np.uint8) if array.dtype == np.bool_ else array
        return _label_mask(path, labels, num_classes, void, among)
    if array.ndim == 2 and np.issubdtype(array.dtype, np.floating) and not logits:
        share = array.astype(np.float32)  # probability of the foreground
        array = np.stack([1 - share, share])
    if array.ndim != 3 or not np.issubdtype(array.dtype, np.floating):
        raise InputError(
            f"{path} holds {array.dtype} of shape {array.shape}, expected integers (rows, columns) for labels, or "
            "floating point (classes, rows, columns) for probabilities or logits."
        )
    if num_classes is not None and len(array) != num_classes:
        raise InputError(
            f"{path} has shape {array.shape}, that is {len(array)} classes, but num_classes={num_classes} was given."
        )
    return Mask("logits" if logits else "probabilities", array)


def _label_mask(
    path: Path, values: npt.NDArray[Any], num_classes: int | None, void: Void, among: Values, sixteen_bits: bool = False
) -> Mask:
    """Integers as a binary mask if possible, else as labels."""
    occurring = values if among is None else among
    unknown = void_value(void, occurring, num_classes)
    known = occurring if void == "auto" or unknown is None else occurring[occurring != unknown]
    highest = int(known.max(initial=0))
    if highest >= MAX_CLASSES:
        raise InputError(
            f"{path} has label {highest}, expected labels below {MAX_CLASSES}. Number them from 0: values, labels = "
            "numpy.unique(labels, return_inverse=True)."
        )
    foreground = binary_foreground(known, num_classes, void)
    if foreground is None:
        return Mask("labels", values, void=unknown, sixteen_bits=sixteen_bits)
    binary = (values == foreground).astype(np.uint8)
    if void == "auto" or unknown is None or not (values == unknown).any():
        return Mask("binary", binary, foreground=foreground, sixteen_bits=sixteen_bits)
    binary[values == unknown] = VOID
    return Mask("binary", binary, void=VOID, foreground=foreground, sixteen_bits=sixteen_bits)


def _only_name(path: Path, names: list[str]) -> str:
    if len(names) != 1:
        raise InputError(f"{path} holds {len(names)} arrays ({', '.join(names)}), expected one.")
    return names[0]


def _picture_mask(
    path: Path, picture: Image.Image, soft: bool, num_classes: int | None, void: Void, among: Values
) -> Mask:
    frames = count_frames(path)
    if frames > 1:
        raise InputError(f"{path} holds {frames} pictures, expected one: save each to a file of its own.")
    if soft:
        if picture.mode not in ("1", "L"):
            raise InputError(f"{path} has pixels of mode {picture.mode}, but soft=True expects 8 bits of grey.")
        share = np.asarray(picture.convert("L"), np.float32) / 255
        return Mask("soft", np.stack([1 - share, share]))
    if picture.format in ("JPEG", "MPO"):
        raise InputError(
            f"{path} is a JPEG, which blurs labels: save masks as PNG, or pass soft=True if it holds probabilities."
        )
    if picture.mode == "P":
        palette = np.array(picture.getpalette("RGB"), np.uint8).reshape(-1, 3)
        indices = np.asarray(picture)
        unknown = void_value(void, indices if among is None else among, num_classes)
        return Mask("indexed", indices, palette, unknown)
    if picture.mode in ("RGB", "RGBA"):
        return _colour_mask(path, picture, num_classes, void, allows_greys=among is not None)
    if picture.mode not in ("1", "L", *SIXTEEN_BITS):
        raise InputError(not_labels(path, picture))
    greys = np.asarray(picture.convert("L") if picture.mode == "1" else picture)
    different = np.unique(greys)
    if len(different) > MAX_GREYS and num_classes is None:
        raise InputError(
            f"{path} has {len(different)} different grey values. If they are probabilities of one object pass "
            "soft=True; if they are labels pass their number: num_classes=."
        )
    sixteen_bits = picture.mode in SIXTEEN_BITS
    if sixteen_bits and different.tolist() in ([0, 65535], [65535]):
        raise InputError(f"{path} has 16 bits and only the values {{0, 65535}}: save it with 8 bits, as 0 and 255.")
    if among is None and not greys.any() and (num_classes is None or num_classes <= 2) and void != 0:
        return Mask("binary", greys.astype(np.uint8), sixteen_bits=sixteen_bits)  # binary masks may be empty
    return _label_mask(path, greys, num_classes, void, among, sixteen_bits)


def _colour_mask(path: Path, picture: Image.Image, num_classes: int | None, void: Void, *, allows_greys: bool) -> Mask:
    colours = np.asarray(picture.convert("RGB"))
    labels = voc_labels(colours)
    if labels is not None:
        return Mask("voc colours", labels, voc_palette(), void_value(void, labels, num_classes))
    palette, numbers = np.unique(colours.reshape(-1, 3), axis=0, return_inverse=True)
    if len(palette) > MAX_COLOURS or (not allows_greys and (palette == palette[:, :1]).all()):
        raise InputError(not_labels(path, picture))
    unknown = None if void == "auto" else void  # no colour means unknown by default
    return Mask("colours", numbers.reshape(colours.shape[:2]).astype(np.uint8), palette, unknown)


def not_labels(path: Path, picture: Image.Image) -> str:
    """Error message for a picture whose pixels are not labels."""
    what = f"{path} has pixels of mode {picture.mode}, expected an indexed or grey picture whose values are labels"
    if picture.mode not in ("RGB", "RGBA"):
        return f"{what}: convert it."
    colours = np.asarray(picture.convert("RGB"))
    if (colours == colours[..., :1]).all():
        return f"{what}. Its three channels are equal: save one of them."
    count = len(np.unique(colours.reshape(-1, 3), axis=0))
    return f"{what}. It has {count} colours: number them, and save the numbers as an indexed or grey PNG."
