"""Random changes of an image and its labels, in step: scale, mirror, crop, colours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densefield.datasets.sample import Sample
from densefield.errors import InputError, InputTypeError
from densefield.scenes.random import Draws

Pixels = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.uint8]

VOID = 255
_TRANSFORMS = 2  # keeps the draws of transforms apart from other draws of the same seed


@dataclass(frozen=True)
class Augmentation:
    """What training does to an image before the network sees it.

    * ``crop``: rows and columns of what comes out, whatever goes in.
    * ``scales``: the image is scaled by a factor between these two.
    * ``mirror``: left and right are swapped in half of the cases.
    * ``jitter``: brightness, saturation and contrast are each multiplied by a factor within 1 ± this.
    * ``fill``: the colour of padding, which should be the network's mean, ``network.normalization.fill``; by default
      ImageNet's.
    """

    crop: tuple[int, int]
    scales: tuple[float, float] = (0.5, 1.5)
    mirror: bool = True
    jitter: float = 0.2
    fill: tuple[int, int, int] = (124, 116, 104)

    def __post_init__(self) -> None:
        """Checks every setting."""
        if len(self.crop) != 2 or not all(isinstance(side, int) and side > 0 for side in self.crop):
            raise InputError(f"crop is {self.crop}, expected rows and columns, each 1 or more.")
        if len(self.scales) != 2 or not 0 < self.scales[0] <= self.scales[1] < float("inf"):
            raise InputError(f"scales are {self.scales}, expected two factors above 0, the smaller first.")
        if not 0 <= self.jitter < 1:
            raise InputError(f"jitter is {self.jitter}, expected 0 or more, and less than 1.")
        if len(self.fill) != 3 or not all(isinstance(value, int) and 0 <= value <= 255 for value in self.fill):
            raise InputError(f"fill is {self.fill}, expected three integers from 0 to 255.")


@dataclass(frozen=True)
class Window:
    """A part of an image that has been scaled to (rows, columns): `size` pixels from (top, left) on.

    It may reach beyond the image, so top and left may be below 0.

    >>> Window((4, 6), -2, 1, (8, 5)).inside
    (2, 6, 0, 5)
    """

    scaled: tuple[int, int]
    top: int
    left: int
    size: tuple[int, int]

    @property
    def inside(self) -> tuple[int, int, int, int]:
        """Which rows and columns of the window show the image: top, bottom, left, right."""
        (rows, columns), (height, width) = self.scaled, self.size
        top, left = max(-self.top, 0), max(-self.left, 0)
        bottom, right = min(rows - self.top, height), min(columns - self.left, width)
        return top, max(bottom, top), left, max(right, left)


def augment(sample: Sample, how: Augmentation, seed: int, epoch: int, index: int) -> Sample:
    """The sample as it is seen in this epoch; it depends on the arguments alone.

    Padding, where the crop reaches beyond the image, has void labels and the colour ``how.fill``. `inside` of the
    result says which part is not padding.

    >>> sample = Sample(np.zeros((4, 6, 3), np.uint8), np.ones((4, 6), np.uint8), "a")
    >>> seen = augment(sample, Augmentation(crop=(8, 8), scales=(1, 1)), seed=3, epoch=0, index=0)
    >>> seen.image.shape, int((seen.label == 1).sum()), int((seen.label == 255).sum())
    ((8, 8, 3), 24, 40)
    >>> top, bottom, left, right = seen.inside
    >>> bool((seen.label[top:bottom, left:right] == 1).all())
    True
    """
    label = known_label(sample)
    draws = Draws(_TRANSFORMS, seed, epoch, index)
    window = _drawn_window(label.shape[0], label.shape[1], how, draws)
    swapped = how.mirror and draws.chance(0.5)
    brightness, saturation, contrast = (draws.number(1 - how.jitter, 1 + how.jitter) for _ in range(3))
    image, label = cut_out(sample.image, label, window, how.fill, (brightness, saturation, contrast))
    top, bottom, left, right = window.inside
    if swapped:
        image, label = mirror(image), mirror(label)
        left, right = how.crop[1] - right, how.crop[1] - left
    whole = (top, bottom, left, right) == (0, how.crop[0], 0, how.crop[1])
    return Sample(image, label, sample.id, None if whole else (top, bottom, left, right))


def known_label(sample: Sample) -> Labels:
    """The labels of a sample that fits together; raises where it has none, or of another size."""
    image, label = sample.image, sample.label
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise InputTypeError(f"{sample.id}: the image is {image.dtype} {image.shape}, expected uint8 (H, W, 3).")
    if label is None:
        raise InputError(f"{sample.id} has no labels, and cannot be trained on: use a split with masks.")
    if label.dtype != np.uint8 or label.shape != image.shape[:2]:
        raise InputError(
            f"{sample.id}: labels are {label.dtype} {label.shape}, expected uint8 {image.shape[:2]} like the image."
        )
    if label.size == 0:
        raise InputError(f"{sample.id} is empty: it has the size {image.shape[:2]}.")
    return label


def _drawn_window(rows: int, columns: int, how: Augmentation, draws: Draws) -> Window:
    """Any place where the crop lies within the image, or the image within the crop, on each axis by itself."""
    scale = draws.number(*how.scales)
    scaled = max(1, round(rows * scale)), max(1, round(columns * scale))
    corner = []
    for side, wanted in zip(scaled, how.crop, strict=True):
        room = side - wanted
        corner.append(draws.whole(room + 1) if room >= 0 else -draws.whole(1 - room))
    return Window(scaled, corner[0], corner[1], how.crop)


def cut_out(
    image: Pixels,  # (H, W, 3)
    label: Labels,  # (H, W)
    window: Window,
    fill: tuple[int, int, int],
    factors: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> tuple[Pixels, Labels]:
    """The window of the scaled image and labels; `fill` and void beyond them; colours changed as by jitter_colours().

    Only what is seen is scaled. Colours are blended (Pillow's bilinear filter, which averages where it shrinks);
    labels are those of the nearest pixel.
    """
    (rows, columns), (height, width) = window.scaled, window.size
    seen = np.empty((height, width, 3), np.uint8)
    seen[...] = fill
    labels = np.full((height, width), VOID, np.uint8)
    first_row, last_row, first_column, last_column = window.inside
    if first_row == last_row or first_column == last_column:
        return seen, labels
    here = (slice(first_row, last_row), slice(first_column, last_column))
    top, bottom = first_row + window.top, last_row + window.top
    left, right = first_column + window.left, last_column + window.left
    full = label.shape
    if window.scaled == full:
        part = image[top:bottom, left:right]
    else:
        from PIL import Image  # here, so that the settings can be had without it

        down, across = full[0] / rows, full[1] / columns
        box = (left * across, top * down, min(right * across, full[1]), min(bottom * down, full[0]))
        resized = Image.fromarray(image).resize((right - left, bottom - top), Image.Resampling.BILINEAR, box=box)
        part = np.asarray(resized)
    seen[here] = jitter_colours(part, *factors)
    row = _nearest(np.arange(top, bottom), rows, full[0])
    column = _nearest(np.arange(left, right), columns, full[1])
    labels[here] = label[row][:, column]  # in two steps: nine times as fast as by pairs of indices
    return seen, labels


def _nearest(at: npt.NDArray[np.intp], scaled: int, full: int) -> npt.NDArray[np.intp]:
    """The pixel, of so many, that lies under the middle of a pixel of the scaled ones."""
    result: npt.NDArray[np.intp] = (2 * at + 1) * full // (2 * scaled)
    return result


def mirror(values: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """An image (H, W, 3) or labels (H, W) with left and right swapped.

    >>> mirror(np.array([[1, 2, 3]], np.uint8)).tolist()
    [[3, 2, 1]]
    """
    return np.ascontiguousarray(values[:, ::-1])


def jitter_colours(image: Pixels, brightness: float, saturation: float, contrast: float) -> Pixels:
    """Colours (H, W, 3) times the brightness; then their distance from grey, and from the mean grey, multiplied.

    >>> jitter_colours(np.array([[[100, 100, 100], [200, 200, 200]]], np.uint8), 1.0, 1.0, 0.5)[0, :, 0].tolist()
    [125, 175]
    """
    if brightness == saturation == contrast == 1:
        return image
    red, green, blue = (image[..., channel].astype(np.int32) for channel in range(3))
    grey = (77 * red + 150 * green + 29 * blue + 128) >> 8
    mean = brightness * (int(grey.sum()) / max(grey.size, 1))  # integers add up alike everywhere
    own = contrast * brightness * saturation
    rest = grey.astype(np.float32) * (contrast * brightness * (1 - saturation)) + ((1 - contrast) * mean + 0.5)
    result: npt.NDArray[np.float32] = image * np.float32(own)
    result += rest[..., None]
    np.clip(result, 0, 255, out=result)
    return result.astype(np.uint8)
