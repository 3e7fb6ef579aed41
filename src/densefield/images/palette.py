"""Colours of labels: the PASCAL VOC palette, and overlays on photos."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from densefield.labels import VOID

Pixels = npt.NDArray[np.uint8] | npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.integer]

VOC_CLASSES = 21  # with the background
OPACITY = 0.6  # of the labels' colours over the image
SEPARATOR = 2  # pixels between pictures
CONTOUR = (255, 255, 255)


def voc_palette() -> Bytes:
    """The 256 colours of PASCAL VOC, (256, 3): bits of the label, distributed to r, g, b from the highest down.

    >>> voc_palette()[[0, 1, 2, 15, 255]].tolist()
    [[0, 0, 0], [128, 0, 0], [0, 128, 0], [192, 128, 128], [224, 224, 192]]
    """
    labels = np.arange(256)
    colours = np.zeros((256, 3), np.uint8)
    for place in range(8):
        for channel in range(3):
            bit = (labels >> (3 * place + channel)) & 1
            colours[:, channel] |= (bit << (7 - place)).astype(np.uint8)
    return colours


def voc_labels(colours: Bytes) -> Bytes | None:
    """The labels (H, W) of a mask in the colours of PASCAL VOC; None if it has other colours.

    A mask of black and grey only is read as VOC colours if its greys are classes of VOC, such as the grey of car.

    Parameters
    ----------
    colours
        The mask, (H, W, 3).

    >>> voc_labels(np.array([[[0, 0, 0], [192, 128, 128], [224, 224, 192]]], np.uint8)).tolist()
    [[0, 15, 255]]
    >>> voc_labels(np.array([[[0, 0, 0], [1, 2, 3]]], np.uint8)) is None
    True
    """
    palette = voc_palette()
    place = np.array([1 << 16, 1 << 8, 1])  # index of a colour among all 24-bit colours
    label_of = np.zeros(1 << 24, np.uint8)
    label_of[palette @ place] = np.arange(256)
    labels: Bytes = label_of[colours @ place]
    grey = (colours == colours[..., :1]).all()
    known = (palette[labels] == colours).all() and not (grey and (labels >= VOC_CLASSES).any())
    return labels if known else None


def overlay(image: Pixels, labels: Labels, colours: Bytes, void: int = VOID) -> Bytes:
    """The image with the labels' colours blended over it, (H, W, 3); unknown pixels keep the image's colours.

    Parameters
    ----------
    image
        Colours 0…255, (H, W, 3).
    labels
        The label of each pixel, (H, W); colours repeat after 256 labels.
    colours
        The colour of each label, (256, 3).
    void
        The label of unknown pixels.

    >>> overlay(np.zeros((1, 2, 3)), np.array([[1, 255]], np.uint8), voc_palette()).tolist()
    [[[77, 0, 0], [0, 0, 0]]]
    """
    photo = image.astype(np.float32)
    tint = colours[labels.astype(np.intp, copy=False) % 256].astype(np.float32)
    opacity = np.where(labels == void, 0, OPACITY).astype(np.float32)[..., None]
    blend: Bytes = np.rint(photo + opacity * (tint - photo)).astype(np.uint8)
    return blend


def outlined_overlay(image: Bytes, labels: Labels, colours: Bytes) -> Bytes:
    """The overlay with a contour between labels; -1 is unknown."""
    picture = overlay(image, labels, colours, void=-1)
    border = np.zeros(labels.shape, bool)
    border[1:] |= labels[1:] != labels[:-1]
    border[:-1] |= labels[1:] != labels[:-1]
    border[:, 1:] |= labels[:, 1:] != labels[:, :-1]
    border[:, :-1] |= labels[:, 1:] != labels[:, :-1]
    picture[border] = CONTOUR
    return picture


def side_by_side(pictures: Sequence[Pixels]) -> Bytes:
    """Pictures (H, W, 3) in a row, separated by white.

    >>> side_by_side([np.zeros((2, 5, 3)), np.zeros((2, 4, 3))]).shape
    (2, 11, 3)
    """
    white = np.full((len(pictures[0]), SEPARATOR, 3), 255)
    spaced = [part for picture in pictures for part in (white, picture)][1:]
    return np.concatenate(spaced, axis=1).astype(np.uint8)
