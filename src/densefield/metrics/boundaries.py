"""Distances of pixels to the boundaries of the true labels.

By hand, not by scipy.ndimage.distance_transform_cdt: metrics need NumPy alone, and a second path would not be shorter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

BANDS = 20  # the widest trimap, in pixels


def boundary_distance(truth: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The distance of each pixel of `truth` (H, W) to the nearest pixel of another label, 1 to 20; 21 if larger.

    The trimap of width r is the set of pixels at distance r or less (Krähenbühl and Koltun, 2011). Distances are
    `max(|Δx|, |Δy|)`. Void counts as a label here: in PASCAL VOC it covers the boundaries themselves. The edge of the
    image is not a boundary.

    >>> import numpy as np
    >>> boundary_distance(np.array([[0, 0, 0, 0, 1, 1]]))
    array([[4, 3, 2, 1, 1, 2]], dtype=uint8)
    >>> boundary_distance(np.zeros((1, 2)))
    array([[21, 21]], dtype=uint8)
    """
    # Pixels at distance r or less are those that touch another label, dilated r - 1 times by one pixel.
    near = _touches_another(truth)
    distance = np.full(truth.shape, BANDS + 1, np.uint8)
    for r in range(1, BANDS + 1):
        distance -= near
        if r < BANDS:
            near = _dilated(near)
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


def _dilated(near: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The mask with the eight neighbours of each of its pixels."""
    tall = near.copy()
    tall[1:] |= near[:-1]
    tall[:-1] |= near[1:]
    wide: npt.NDArray[np.bool_] = tall.copy()
    wide[:, 1:] |= tall[:, :-1]
    wide[:, :-1] |= tall[:, 1:]
    return wide
