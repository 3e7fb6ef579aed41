"""Features of an image's pixels, described instead of written out: the lattice makes them where it keeps them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from densefield import _core
from densefield.filters.pixel_order import Walk


class PixelFeatures:
    """x and y over their widths, then channels over theirs, in single precision, (N, 2 + C).

    Pixels are in the order of the walk where there is one, else row by row.

    >>> pixels = np.array([[0], [10], [20], [30]], np.uint8)
    >>> PixelFeatures(pixels, 2, (1.0, 4.0), (10.0,)).array().tolist()
    [[0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.25, 2.0], [1.0, 0.25, 3.0]]
    """

    def __init__(
        self,
        pixels: npt.NDArray[np.uint8],  # (N, C), row by row; C may be 0
        width: int,  # of the image
        position_widths: Sequence[float],  # of x and y
        channel_widths: Sequence[float],  # (C,)
        walk: Walk | None = None,
    ) -> None:
        self.shape = len(pixels), 2 + pixels.shape[1]
        through = None if walk is None else walk.native
        self.native = _core.PixelFeatures(pixels, width, list(position_widths), list(channel_widths), through)

    def array(self) -> npt.NDArray[np.float32]:
        """The features written out."""
        features = np.empty(self.shape, np.float32)
        self.native.fill(features)
        return features
