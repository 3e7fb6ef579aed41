"""Transforms of an image together with its labels: random scale, mirror, crop and colours; shrinking."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from densefield.datasets.sample import Dataset, Sample, entries_of
from densefield.datasets.sampling import TRANSFORMS, random_generator, random_integer
from densefield.errors import InputError, InputTypeError
from densefield.labels import VOID

Pixels = npt.NDArray[np.uint8]  # (H, W, 3)
Labels = npt.NDArray[np.uint8]  # (H, W)

SCALES = (0.5, 1.5)  # of random crops


@dataclass(frozen=True)
class Augmentation:
    """Random changes of training images.

    Parameters
    ----------
    crop
        Rows and columns of the result; smaller images are padded. None keeps whole images at their own size.
    scales
        Minimum and maximum of the random scale factor of crops, by default 0.5 and 1.5. Whole images are not scaled.
    mirror
        Swap left and right with probability ½.
    jitter
        Brightness, saturation and contrast are each multiplied by a random factor within 1 ± this.
    fill
        The colour of padding: the network's mean, ``network.normalization.fill``, by default ImageNet's.

    >>> Augmentation(crop=(321, 321)).scales, Augmentation(crop=None).scales
    ((0.5, 1.5), None)
    """

    crop: tuple[int, int] | None
    scales: tuple[float, float] | None = None
    mirror: bool = True
    jitter: float = 0.2
    fill: tuple[int, int, int] = (124, 116, 104)

    def __post_init__(self) -> None:
        if self.crop is None:
            if self.scales is not None:
                raise InputError(f"scales are {self.scales}, but crop is None: whole images are not scaled.")
        elif self.scales is None:
            object.__setattr__(self, "scales", SCALES)
        if self.crop is not None and (
            len(self.crop) != 2 or not all(isinstance(side, int) and side > 0 for side in self.crop)
        ):
            raise InputError(f"crop is {self.crop}, expected rows and columns, each 1 or more.")
        if self.scales is not None and (
            len(self.scales) != 2 or not 0 < self.scales[0] <= self.scales[1] < float("inf")
        ):
            raise InputError(f"scales are {self.scales}, expected two factors above 0, the smaller first.")
        if not 0 <= self.jitter < 1:
            raise InputError(f"jitter is {self.jitter}, expected 0 or more, and less than 1.")
        if len(self.fill) != 3 or not all(isinstance(value, int) and 0 <= value <= 255 for value in self.fill):
            raise InputError(f"fill is {self.fill}, expected three integers from 0 to 255.")


@dataclass(frozen=True)
class Window:
    """A crop of `size` pixels from (top, left) on of an image scaled to (rows, columns).

    It may extend beyond the image, so top and left may be negative.

    >>> Window((4, 6), -2, 1, (8, 5)).inside
    (2, 6, 0, 5)
    """

    scaled: tuple[int, int]
    top: int
    left: int
    size: tuple[int, int]

    @property
    def inside(self) -> tuple[int, int, int, int]:
        """Rows and columns of the window that show the image: top, bottom, left, right."""
        (rows, columns), (height, width) = self.scaled, self.size
        top, left = max(-self.top, 0), max(-self.left, 0)
        bottom, right = min(rows - self.top, height), min(columns - self.left, width)
        return top, max(bottom, top), left, max(right, left)


def augment(sample: Sample, augmentation: Augmentation, seed: int, epoch: int, index: int) -> Sample:
    """Augment a sample; the result depends only on the arguments.

    Padding has void labels and the colour ``augmentation.fill``. `inside` of the result is the part that is not
    padding, and `spacing` the size of its pixels in those of the sample.

    Parameters
    ----------
    sample
        The image and its labels.
    augmentation
        The random changes.
    seed, epoch, index
        The random seed, the epoch, and the number of the sample.

    >>> sample = Sample(np.zeros((4, 6, 3), np.uint8), np.ones((4, 6), np.uint8), "a")
    >>> seen = augment(sample, Augmentation(crop=(8, 8), scales=(1, 1)), seed=3, epoch=0, index=0)
    >>> seen.image.shape, int((seen.labels == 1).sum()), int((seen.labels == 255).sum())
    ((8, 8, 3), 24, 40)
    >>> top, bottom, left, right = seen.inside
    >>> bool((seen.labels[top:bottom, left:right] == 1).all())
    True
    """
    labels = checked_labels(sample)
    rng, jitter = random_generator(TRANSFORMS, seed, epoch, index), augmentation.jitter
    rows, columns = labels.shape
    window = _random_window(rows, columns, augmentation, rng)
    mirrored = augmentation.mirror and rng.random() < 0.5
    brightness, saturation, contrast = (rng.uniform(1 - jitter, 1 + jitter) for _ in range(3))
    image, labels = scaled_crop(sample.image, labels, window, augmentation.fill, (brightness, saturation, contrast))
    top, bottom, left, right = window.inside
    if mirrored:
        image, labels = (np.ascontiguousarray(values[:, ::-1]) for values in (image, labels))
        left, right = window.size[1] - right, window.size[1] - left
    inside = (top, bottom, left, right)
    whole = inside == (0, window.size[0], 0, window.size[1])
    spacing = columns / window.scaled[1], rows / window.scaled[0]
    return Sample(image, labels, sample.id, None if whole else inside, spacing)


def checked_labels(sample: Sample) -> Labels:
    """The labels of a sample; raises if it has none, or if types and sizes are not those of a sample."""
    image, labels = sample.image, sample.labels
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise InputTypeError(f"{sample.id}: the image is {image.dtype} {image.shape}, expected uint8 (H, W, 3).")
    if labels is None:
        raise InputError(f"{sample.id} has no labels, and cannot be trained on: use a split with masks.")
    if labels.dtype != np.uint8 or labels.shape != image.shape[:2]:
        raise InputError(
            f"{sample.id}: labels are {labels.dtype} {labels.shape}, expected uint8 {image.shape[:2]} like the image."
        )
    if labels.size == 0:
        raise InputError(f"{sample.id} is empty: it has the size {image.shape[:2]}.")
    return labels


def _random_window(rows: int, columns: int, augmentation: Augmentation, rng: np.random.Generator) -> Window:
    """A random window: on each axis the crop lies within the image, or the image within the crop.

    Without a crop, it is the whole image.
    """
    if augmentation.crop is None or augmentation.scales is None:
        return Window((rows, columns), 0, 0, (rows, columns))
    scale = rng.uniform(*augmentation.scales)
    scaled = max(1, round(rows * scale)), max(1, round(columns * scale))
    corner = []
    for side, wanted in zip(scaled, augmentation.crop, strict=True):
        room = side - wanted
        corner.append(random_integer(rng, room + 1) if room >= 0 else -random_integer(rng, 1 - room))
    return Window(scaled, corner[0], corner[1], augmentation.crop)


def scaled_crop(
    image: Pixels,  # (H, W, 3)
    labels: Labels,  # (H, W)
    window: Window,
    fill: tuple[int, int, int] = (0, 0, 0),
    factors: tuple[float, float, float] = (1.0, 1.0, 1.0),  # of jitter_colours()
) -> tuple[Pixels, Labels]:
    """The window of the scaled image and labels, padded with `fill` and void, and with its colours changed.

    Colours are interpolated by Pillow's bilinear filter, which averages when it shrinks; labels by the nearest pixel.
    """
    (rows, columns), (height, width) = window.scaled, window.size
    crop = np.empty((height, width, 3), np.uint8)
    crop[...] = fill
    crop_labels = np.full((height, width), VOID, np.uint8)
    first_row, last_row, first_column, last_column = window.inside
    if first_row == last_row or first_column == last_column:
        return crop, crop_labels
    here = (slice(first_row, last_row), slice(first_column, last_column))
    top, bottom = first_row + window.top, last_row + window.top
    left, right = first_column + window.left, last_column + window.left
    full = labels.shape
    if window.scaled == full:
        part = image[top:bottom, left:right]
    else:
        from PIL import Image  # here, so that this module does not need Pillow

        down, across = full[0] / rows, full[1] / columns
        box = (left * across, top * down, min(right * across, full[1]), min(bottom * down, full[0]))
        resized = Image.fromarray(image).resize((right - left, bottom - top), Image.Resampling.BILINEAR, box=box)
        part = np.asarray(resized)
    crop[here] = jitter_colours(part, *factors)
    row = (2 * np.arange(top, bottom) + 1) * full[0] // (2 * rows)  # the pixel under the centre of a scaled pixel
    column = (2 * np.arange(left, right) + 1) * full[1] // (2 * columns)
    crop_labels[here] = labels[row][:, column]  # in two steps: nine times as fast as by pairs of indices
    return crop, crop_labels


def jitter_colours(image: Pixels, brightness: float, saturation: float, contrast: float) -> Pixels:
    """Multiply colours by the brightness, then their distance from grey and from the mean grey by the other factors.

    >>> jitter_colours(np.array([[[100, 100, 100], [200, 200, 200]]], np.uint8), 1.0, 1.0, 0.5)[0, :, 0].tolist()
    [125, 175]
    """
    if brightness == saturation == contrast == 1:
        return image
    red, green, blue = (image[..., channel].astype(np.int32) for channel in range(3))
    grey = (77 * red + 150 * green + 29 * blue + 128) >> 8
    mean = brightness * (int(grey.sum()) / max(grey.size, 1))
    own = contrast * brightness * saturation
    rest = grey.astype(np.float32) * (contrast * brightness * (1 - saturation)) + ((1 - contrast) * mean + 0.5)
    result: npt.NDArray[np.float32] = image * np.float32(own)
    result += rest[..., None]
    np.clip(result, 0, 255, out=result)
    return result.astype(np.uint8)


class ShrunkDataset:
    """A dataset whose larger images are shrunk, with their labels.

    Parameters
    ----------
    dataset
        The dataset to read from.
    longest_side
        Maximum height and width in pixels; smaller images stay as they are.

    >>> from densefield.scenes import SceneDataset
    >>> ShrunkDataset(SceneDataset(2, size=(96, 144)), longest_side=48)[0].image.shape
    (32, 48, 3)
    """

    def __init__(self, dataset: Dataset, longest_side: int) -> None:
        if longest_side < 1:
            raise InputError(f"longest_side is {longest_side}, expected 1 or more.")
        self._dataset, self._longest_side = dataset, longest_side
        self.classes, self.ids, self.entries = dataset.classes, dataset.ids, entries_of(dataset)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Sample:
        sample = self._dataset[index]
        size = shrunk_size(sample.image.shape[:2], self._longest_side)
        if size == sample.image.shape[:2]:
            return sample
        if sample.labels is None:
            return replace(sample, image=shrunk_image(sample.image, self._longest_side))
        image, labels = scaled_crop(sample.image, checked_labels(sample), Window(size, 0, 0, size))
        return replace(sample, image=image, labels=labels)


def shrunk_image(image: Pixels, longest_side: int) -> Pixels:
    """The image shrunk so that no side is longer than this."""
    size = shrunk_size(image.shape[:2], longest_side)
    return scaled_crop(image, np.zeros(image.shape[:2], np.uint8), Window(size, 0, 0, size))[0]


def shrunk_size(size: tuple[int, ...], longest_side: int) -> tuple[int, int]:
    """Rows and columns of an image whose longer side is limited to `longest_side`.

    >>> shrunk_size((375, 500), 288), shrunk_size((100, 80), 288), shrunk_size((500, 1), 50)
    ((216, 288), (100, 80), (50, 1))
    """
    rows, columns = size
    longest = max(rows, columns)
    if longest <= longest_side:
        return rows, columns
    return max(1, round(rows * longest_side / longest)), max(1, round(columns * longest_side / longest))
