"""Lambert's W of an exponential, which no argument makes overflow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Double = npt.NDArray[np.float64]

_NEGLIGIBLE = -40.0  # below it ω² is lost to rounding beside ω, so that ω = e^x


def lambert_of_exponential(x: Double) -> Double:
    """ω with ω + log ω = x, that is W(e^x), for x from -∞ upwards, of any shape.

    It is e^x far below zero and x - log x far above. The steps are those of Fritsch, Shafer and Crowley (1973), whose
    error is of the fourth order: from log(1 + e^x), which is never farther off than two fifths, two steps suffice.

    >>> lambert_of_exponential(np.array([-np.inf, 1.0, 1e4])).round(3).tolist()
    [0.0, 1.0, 9990.791]
    """
    above = np.maximum(x, _NEGLIGIBLE)
    w = np.maximum(above, 0) + np.log1p(np.exp(-np.abs(above)))
    for _ in range(2):
        rest = above - w - np.log(w)
        ratio = rest / (1 + w)
        scale = 1 + w + rest * (2 / 3)
        w *= 1 + ratio * (scale - ratio / 2) / (scale - ratio)
    return np.where(x < _NEGLIGIBLE, np.exp(np.minimum(x, 0)), w)
