"""How far each pixel is from the boundaries of the true labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

BANDS = 20  # the widest trimap, in pixels


def boundary_distance(truth: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The distance of each pixel (H, W) to the nearest pixel of another label, from 1 to 20; 21 where it is more.

    The trimap of width r is where this is r or less (Krähenbühl and Koltun, 2011). Distances are max(Δx, Δy), so that
    it is what a square of side 2r + 1 reaches. Void is a label like others here: in PASCAL VOC it covers the boundaries
    themselves. The frame of the image is no boundary.

    >>> import numpy as np
    >>> boundary_distance(np.array([[0, 0, 0, 0, 1, 1]]))
    array([[4, 3, 2, 1, 1, 2]], dtype=uint8)
    >>> boundary_distance(np.zeros((1, 2)))
    array([[21, 21]], dtype=uint8)
    """
    # A pixel has the distance 1 + its distance to the nearest pixel that touches another label. So the pixels at
    # distance r or less are those that touch one, grown r - 1 times by a pixel to all sides.
    near = _touches_another(truth)
    distance = np.full(truth.shape, BANDS + 1, np.uint8)
    for r in range(1, BANDS + 1):
        distance -= near
        if r < BANDS:
            near = _grown(near)
    return distance


def _touches_another(truth: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whether one of the eight neighbours has another label."""
    touches = np.zeros(truth.shape, bool)
    rows, columns = truth.shape
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        first = np.s_[: rows - down, max(0, -right) : columns - max(0, right)]
        second = np.s_[down:, max(0, right) : columns - max(0, -right)]
        differs = truth[first] != truth[second]
        touches[first] |= differs
        touches[second] |= differs
    return touches


def _grown(near: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """With the eight neighbours of every pixel."""
    grown = near.copy()
    grown[1:] |= near[:-1]
    grown[:-1] |= near[1:]
    wide: npt.NDArray[np.bool_] = grown.copy()
    wide[:, 1:] |= grown[:, :-1]
    wide[:, :-1] |= grown[:, 1:]
    return wide
