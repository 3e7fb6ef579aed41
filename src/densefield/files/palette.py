"""Colours of labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


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
