"""Colours of labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

VOC_CLASSES = 21  # with the background


def voc_palette() -> npt.NDArray[np.uint8]:
    """The 256 colours of PASCAL VOC, (256, 3): bits of the label, dealt out to r, g, b from the highest down.

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


def voc_labels(colours: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8] | None:
    """The labels (H, W) of a mask in the colours of PASCAL VOC, (H, W, 3); None where it has other colours.

    Black and grey alone are taken for those of VOC where they are a class of VOC's own, as the grey of a car is.

    >>> voc_labels(np.array([[[0, 0, 0], [192, 128, 128], [224, 224, 192]]], np.uint8)).tolist()
    [[0, 15, 255]]
    >>> voc_labels(np.array([[[0, 0, 0], [1, 2, 3]]], np.uint8)) is None
    True
    """
    palette = voc_palette()
    place = np.array([1 << 16, 1 << 8, 1])  # of a colour among all there are
    label_of = np.zeros(1 << 24, np.uint8)
    label_of[palette @ place] = np.arange(256)
    labels: npt.NDArray[np.uint8] = label_of[colours @ place]
    grey = (colours == colours[..., :1]).all()
    known = (palette[labels] == colours).all() and not (grey and (labels >= VOC_CLASSES).any())
    return labels if known else None
