"""Using any dataset: pairs or dicts of an image and its labels, as arrays, tensors or Pillow images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.datasets.folder import check_classes
from densefield.datasets.sample import Sample, entries_of
from densefield.errors import DensefieldError, InputError, InputTypeError
from densefield.labels import VOID

Array = npt.NDArray[Any]

IMAGE_KEY, LABEL_KEYS = "image", ("mask", "label", "labels", "annotation")
EXPECTED = f"a pair (image, labels), or a dict with {IMAGE_KEY!r} and one of {', '.join(map(repr, LABEL_KEYS))}"


def as_dataset(samples: Any, classes: int | Sequence[str] | None = None, *, name: str = "image") -> AdaptedDataset:
    """Makes a dataset of densefield from any sequence of images with labels.

    Every sample is checked when it is read; errors name it, for instance ``train_000012``.

    Parameters
    ----------
    samples
        A torch ``Dataset``, a list, or anything else with a length. Its items are pairs (image, labels), dicts with
        "image" and "mask", "label", "labels" or "annotation", or a `Sample`. Images are colours 0…255 of integers,
        (H, W, 3) or (3, H, W), or grey, (H, W), as arrays, tensors or Pillow images. Labels are integers (H, W), from 0
        to L-1, and 255 for void.
    classes
        The number of classes L, or their names; by default ``samples.classes``.
    name
        Begins the names of samples, unless ``samples.ids`` has one for each.

    >>> image, labels = np.zeros((4, 6, 3), np.uint8), np.ones((4, 6), np.int64)
    >>> dataset = as_dataset([(image, labels)] * 3, classes=["sky", "tree"], name="train")
    >>> dataset.ids[0], dataset[2].labels.dtype
    ('train_000000', dtype('uint8'))
    """
    return AdaptedDataset(_sequence(samples, name), classes, name)


class AdaptedDataset:
    """Samples of any form, as `Sample`."""

    def __init__(self, samples: Any, classes: int | Sequence[str] | None, name: str) -> None:
        self._samples, self.split = samples, name
        own = getattr(samples, "classes", None)
        names = isinstance(own, Sequence) and not isinstance(own, str) and all(isinstance(each, str) for each in own)
        if not isinstance(classes, int):
            if classes is None and not names:
                raise InputError(
                    f"the number of classes of {name} is unknown: pass it, or give {type(samples).__name__} a list of "
                    "names as its attribute `classes`."
                )
            self.classes = check_classes(own if classes is None else classes, "classes")
        elif names and own is not None:
            if len(own) != classes:
                raise InputError(f"the number of classes is {classes}, but {name} has {len(own)}: use equal numbers.")
            self.classes = check_classes(own, f"the classes of {name}")
        else:
            self.classes = check_classes([str(label) for label in range(classes)], "classes")
        self.ids: tuple[str, ...] = _ids(samples, name)
        self.entries = entries_of(samples)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Sample:
        id = self.ids[index]
        return as_sample(_item(self._samples, index, id), id, len(self.classes))


def as_sample(item: object, id: str, num_classes: int) -> Sample:
    """One sample, checked; errors begin with its `id`.

    >>> as_sample({"image": np.zeros((4, 6), np.uint8), "mask": np.ones((4, 6), bool)}, "a", 2).image.shape
    (4, 6, 3)
    """
    image, labels = _parts(item, id)
    colours = colour_array(image, id)
    truth = None if labels is None else label_array(labels, id, colours.shape[:2], num_classes)
    if isinstance(item, Sample):
        return replace(item, image=colours, labels=truth, id=id)
    return Sample(colours, truth, id)


def first_image(samples: Any, name: str) -> Sample:
    """The first sample without its labels, when the number of classes is not known yet."""
    items = _sequence(samples, name)
    id = _ids(items, name)[0]
    return Sample(colour_array(_parts(_item(items, 0, id), id)[0], id), None, id)


def _item(samples: Any, index: int, id: str) -> object:
    """An item of the user's dataset; what reading it raises is an InputError that names it."""
    try:
        return samples[index]
    except DensefieldError:
        raise
    except Exception as error:  # code of the user
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"{id}: reading it raised {type(error).__name__}: {reason}.") from error


def _parts(item: object, id: str) -> tuple[object, object]:
    """The image and the labels of a sample."""
    if isinstance(item, Sample):
        return item.image, item.labels
    if isinstance(item, Mapping):
        keys = [key for key in LABEL_KEYS if key in item]
        if IMAGE_KEY in item and len(keys) == 1:
            return item[IMAGE_KEY], item[keys[0]]
        there = ", ".join(map(repr, item)) or "nothing in it"
        raise InputError(f"{id} is a dict with {there}, expected {EXPECTED}.")
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    came = f"{len(item)} values" if isinstance(item, tuple | list) else f"of type {type(item).__name__}"
    raise InputTypeError(f"{id} is {came}, expected {EXPECTED}: return that from the dataset.")


def colour_array(image: object, id: str) -> npt.NDArray[np.uint8]:
    """Colours (H, W, 3) of an image in any usual form; errors begin with `id`."""
    expected = "expected colours 0…255 as uint8, (rows, columns, 3) or (3, rows, columns)"
    mode = getattr(image, "mode", None)
    if isinstance(mode, str) and hasattr(image, "convert") and mode[0] not in "IF":  # Pillow clips 16 and 32 bits
        image = image.convert("RGB")
    values = _array(image, f"{id}: the image", expected)
    came = f"{id}: the image is {values.dtype} {values.shape}"
    if values.dtype.kind == "f":
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
        cure = "Return the image before it is converted or normalised: densefield does that for the network itself."
        if 0 <= low <= high <= 1:
            cure = f"They look like colours 0…1. {cure} Or return (255 * image).round().to(torch.uint8)."
        raise InputTypeError(f"{came} with values from {low:.4g} to {high:.4g}, {expected}. {cure}")
    if values.dtype.kind not in "iu":
        raise InputTypeError(f"{came}, {expected}.")
    if values.ndim == 2:
        values = values[..., None]
    if values.ndim != 3 or 0 in values.shape:
        hint = " Return one image at a time: batches are made here." if values.ndim == 4 else ""
        raise InputError(f"{came}, {expected}.{hint}")
    # A tensor has its channels first if both ends could be channels, an array last.
    last, first = values.shape[2] in (1, 3), values.shape[0] in (1, 3)
    if not last and not first:
        hint = ""
        if 4 in (values.shape[0], values.shape[2]):
            hint = " If the fourth is alpha, leave it out: image[..., :3], or image[:3]."
        raise InputError(f"{came}, {expected}.{hint}")
    if first and (not last or _is_tensor(image)):
        values = np.moveaxis(values, 0, -1)
    if values.dtype != np.uint8:
        low, high = int(values.min()), int(values.max())
        if low < 0 or high > 255:
            raise InputError(f"{came} with values from {low} to {high}, {expected}. Scale them to 0…255.")
    colours = np.broadcast_to(values, (*values.shape[:2], 3))
    return np.ascontiguousarray(colours, np.uint8)


def label_array(labels: object, id: str, size: tuple[int, ...], num_classes: int) -> npt.NDArray[np.uint8]:
    """Labels (H, W) for an image of this size; errors begin with `id`."""
    expected = f"expected integers {size}, like the image"
    values = _array(labels, f"{id}: the labels", expected)
    came = f"{id}: the labels are {values.dtype} {values.shape}"
    if values.ndim == 3 and 1 in (values.shape[0], values.shape[2]):
        values = values[0] if values.shape[0] == 1 else values[..., 0]
    if values.dtype.kind not in "iub":
        cure = "Return labels.round().long(), or those of the file before it is converted."
        raise InputTypeError(f"{came}, {expected}. {cure}")
    if values.shape != tuple(size):
        hint = ""
        if values.ndim == 3 and num_classes in (values.shape[0], values.shape[2]) and values.max() <= 1:
            axis = 0 if values.shape[0] == num_classes else -1
            hint = f" If they are one-hot, return labels.argmax({axis})."
        elif values.ndim == 3 and values.shape[2] in (3, 4):
            hint = " They look like the colours of a mask: return the number of each pixel's class instead."
        elif values.shape == tuple(size)[::-1]:
            hint = " Rows and columns are exchanged: return labels.T, or transpose the image."
        raise InputError(f"{came}, but the image is {size}, {expected}.{hint}")
    wrong = ((values < 0) | (values >= num_classes)) & (values != VOID)
    if wrong.any():
        value = int(values[wrong][0])
        hint = f" Write {VOID} in place of {value} if it means unknown." if value < 0 else ""
        raise InputError(
            f"{id} has the label {value} at {int(wrong.sum())} of {wrong.size} pixels, expected 0 to {num_classes - 1} "
            f"(there are {num_classes} classes), or {VOID} for void.{hint}"
        )
    return np.ascontiguousarray(values, np.uint8)


def _is_tensor(value: object) -> bool:
    return hasattr(value, "detach")


def _array(value: Any, subject: str, expected: str) -> Array:
    """A tensor, a Pillow image or an array-like as an array."""
    if _is_tensor(value):
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() else value  # NumPy has no bfloat16
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        return np.asarray(value)
    raise InputTypeError(
        f"{subject} is of type {type(value).__name__}, {expected}, as an array, a tensor or a Pillow image."
    )


def _sequence(samples: Any, name: str) -> Any:
    """The samples as something with a length and indices."""
    expected = f"expected a torch Dataset or a list; each item is {EXPECTED}"
    if hasattr(samples, "batch_sampler") and hasattr(samples, "dataset"):
        raise InputTypeError(f"{name} is a DataLoader: pass its dataset, loader.dataset. Batches are made here.")
    if isinstance(samples, str | bytes | Mapping) or samples is None:
        raise InputTypeError(f"{name} is of type {type(samples).__name__}, {expected}.")
    try:
        length = len(samples)
    except TypeError:
        raise InputTypeError(
            f"{name} is of type {type(samples).__name__}, which has no length, {expected}. If it ends, pass "
            f"list({name})."
        ) from None
    if length == 0:
        raise InputError(f"{name} is empty, expected one sample or more.")
    if hasattr(samples, "__getitem__"):
        return samples
    if isinstance(samples, Iterable):
        return list(samples)
    raise InputTypeError(f"{name} is of type {type(samples).__name__}, {expected}.")


def _ids(samples: Any, name: str) -> tuple[str, ...]:
    """The names of samples: their own, if these are as many different ones, or numbers."""
    own = getattr(samples, "ids", None)
    if isinstance(own, Sequence) and all(isinstance(id, str) for id in own) and len(set(own)) == len(samples):
        return tuple(own)
    return tuple(f"{name}_{index:06d}" for index in range(len(samples)))
