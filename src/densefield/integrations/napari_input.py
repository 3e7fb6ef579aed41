"""What the widget for napari computes: the labels of all pixels, from the data of an image and a labels layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError
from densefield.refinement import propagate, refine

Mode = Literal["mask", "scribbles"]


@dataclass(frozen=True)
class LayerInput:
    """The data of layers, and the parameters of the widget.

    Parameters
    ----------
    image
        (H, W), (H, W, C), (D, H, W) or (D, H, W, C): the data of the image layer.
    rgb
        Whether the last axis of the image holds colours.
    contrast
        Lowest and highest displayed value of an image without colours.
    labels
        The data of the labels layer.
    mode
        "mask" to refine all labels, with 0 for the background; "scribbles" to spread them, with 0 for unlabelled.
    roughness
        Roughness of the mask in pixels; None estimates it.
    spacing
        Size of a pixel along x, y(, z).
    """

    image: npt.NDArray[Any]
    rgb: bool
    contrast: tuple[float, float]
    labels: npt.NDArray[Any]
    mode: Mode = "mask"
    roughness: float | None = None
    spacing: tuple[float, ...] | None = None

    def equals(self, other: LayerInput | None) -> bool:
        """Whether the other input has the same result; changes inside the image's array do not count."""
        if other is None or self.image is not other.image:
            return False
        mine, others = ((each.rgb, each.contrast, each.mode, each.roughness, each.spacing) for each in (self, other))
        return mine == others and np.array_equal(self.labels, other.labels)


def dense_labels(given: LayerInput) -> npt.NDArray[Any]:
    """The labels of all pixels, in the dtype of the labels layer.

    Parameters
    ----------
    given
        The input.

    >>> image = np.zeros((20, 30), np.uint8)
    >>> image[:, 12:] = 255
    >>> labels = np.zeros((20, 30), np.int32)
    >>> labels[5, 3:8], labels[9:16, 25] = 7, 40
    >>> np.unique(dense_labels(LayerInput(image, False, (0, 255), labels, "scribbles")), return_counts=True)
    (array([ 7, 40], dtype=int32), array([240, 360]))
    """
    grid = given.image.shape[:-1] if given.rgb else given.image.shape
    if given.labels.ndim not in (2, 3):
        raise InputError(f"the labels layer has {given.labels.ndim} axes, expected an image (2) or a volume (3).")
    if grid != given.labels.shape:
        raise InputError(
            f"the image has {_by(grid)} pixels and the labels layer {_by(given.labels.shape)}: choose layers of the "
            "same size."
        )
    values, numbers = np.unique(given.labels, return_inverse=True)
    numbers = numbers.reshape(given.labels.shape)
    colours = displayed_colours(given)
    if given.mode == "mask":
        if len(values) < 2:
            raise InputError(f"all pixels have label {values[0]}: paint an object first, with 0 for the background.")
        # Every number is a label.
        q = refine(colours, labels=numbers, void=None, roughness=given.roughness, spacing=given.spacing, data_range=255)
    else:
        painted = values != 0
        if painted.sum() < 2:
            raise InputError("paint scribbles with two labels or more: objects, and the background with its own label.")
        scribbles = np.where(given.labels == 0, -1, numbers)
        q = propagate(colours, scribbles, unlabelled=-1, spacing=given.spacing, data_range=255)
    found: npt.NDArray[Any] = values[q.argmax(axis=0)].astype(given.labels.dtype)
    return found


def displayed_colours(given: LayerInput) -> npt.NDArray[Any]:
    """The image in levels 0…255, as displayed: between the contrast limits, or in colours without alpha.

    Parameters
    ----------
    given
        The input.

    >>> image = np.array([[-1000.0, 40.0, 60.0, 900.0]])
    >>> displayed_colours(LayerInput(image, False, (0, 80), np.zeros((1, 4), int))).tolist()
    [[0.0, 127.5, 191.25, 255.0]]
    """
    if given.rgb:
        image = given.image[..., :3]
        low, high = 0.0, 1.0 if image.dtype.kind == "f" else float(np.iinfo(image.dtype).max)
    else:
        image, (low, high) = given.image, given.contrast
    if image.dtype == np.uint8 and (low, high) == (0, 255):
        return image
    scaled: npt.NDArray[np.float32] = np.asarray(image, np.float32) - np.float32(low)
    scaled *= np.float32(255 / max(high - low, 1e-30))
    return np.clip(scaled, 0, 255, out=scaled)


def _by(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
