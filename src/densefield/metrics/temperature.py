"""Calibration of scores by one temperature (Guo et al., 2017)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, SupportsFloat

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError
from densefield.labels import VOID
from densefield.metrics.decoding import as_array

Array = npt.NDArray[Any]

LOWEST, HIGHEST = 0.01, 100.0  # temperatures
SAMPLES = 4096  # pixels of each image
_ITERATIONS = 100


def fit_temperature(images: Iterable[tuple[object, object]], *, samples: int = SAMPLES) -> float:
    """The temperature T that minimises the mean of -log softmax(scores / T) of the true labels.

    T above 1 means that the scores are overconfident. The arg max does not depend on it, but `decode` does. The loss is
    convex in 1/T, so the minimum is unique; T is at least 0.01 and at most 100.

    Parameters
    ----------
    images
        Pairs of scores (L, H, W) and true labels (H, W), 255 for void. Log marginals are scores too.
    samples
        Pixels sampled from each image, at random with a fixed seed. Their scores are kept in memory.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(59)
    >>> scores = random.normal(0, 2, (3, 100, 100))
    >>> labels = (scores + random.gumbel(size=scores.shape)).argmax(axis=0)  # softmax(scores) is calibrated
    >>> round(fit_temperature([(3 * scores, labels)]), 1)
    3.0
    """
    pairs = enumerate(images)
    return best_temperature([sampled_margins(scores, labels, seed, samples) for seed, (scores, labels) in pairs])


def best_temperature(parts: Sequence[npt.NDArray[np.float32]]) -> float:
    """The temperature for the margins of sampled pixels of some images, those of `sampled_margins`.

    Parameters
    ----------
    parts
        The margins (n, L) of each image.
    """
    margins = np.concatenate(parts) if parts else np.zeros((0, 1))
    if not margins.size:
        raise InputError("no pixel has a true label, expected pairs of scores (classes, rows, columns) and labels.")
    low, high = np.log(LOWEST), np.log(HIGHEST)
    for _ in range(_ITERATIONS):  # bisection of the slope of the loss
        middle = (low + high) / 2
        if _slope(margins, np.exp(-middle)) > 0:
            low = middle  # 1/T is too large
        else:
            high = middle
        if high - low < 1e-6:
            break
    return float(np.exp((low + high) / 2))


def apply_temperature(scores: object, temperature: float) -> npt.NDArray[np.float32]:
    """Marginals softmax(scores / temperature), for `decode`.

    Parameters
    ----------
    scores
        Scores or log marginals (L, …).
    temperature
        The temperature, above 0.

    Examples
    --------
    >>> apply_temperature(np.log([[[0.8]], [[0.2]]]), 2.0).ravel().round(2)
    array([0.67, 0.33], dtype=float32)
    """
    if not isinstance(temperature, SupportsFloat) or not 0 < float(temperature) < np.inf:
        raise InputError(f"temperature is {temperature!r}, expected a number above 0.")
    f = _checked_scores(scores)
    q: npt.NDArray[np.float32] = f * np.float32(1 / float(temperature))
    q -= q.max(axis=0)
    np.exp(q, out=q)
    q /= q.sum(axis=0)
    return q


def _slope(margins: Array, inverse: float) -> float:
    """The derivative by 1/T of the mean of log Σ_l exp(d_l / T), for d_l = f_l - f_y."""
    z = margins * np.float32(inverse)
    z -= z.max(axis=1, keepdims=True)
    np.exp(z, out=z)
    total = z.sum(axis=1)
    z *= margins
    return float((z.sum(axis=1) / total).mean(dtype=np.float64))


def sampled_margins(scores: object, labels: object, seed: int, samples: int = SAMPLES) -> npt.NDArray[np.float32]:
    """Differences (n, L) of the scores to that of the true label, at sampled pixels that have one.

    Parameters
    ----------
    scores, labels
        Scores (L, H, W) and true labels (H, W) of an image.
    seed
        Of the sample: the number of the image.
    samples
        The largest number of pixels.
    """
    f, y = _checked_scores(scores), as_array(labels, "labels are")
    if y.dtype.kind not in "iu" or y.shape != f.shape[1:]:
        raise InputError(f"labels are {y.dtype} {y.shape}, expected integers {f.shape[1:]}, the size of the scores.")
    places = np.flatnonzero(y != VOID)
    if len(places) > samples:
        places = np.random.default_rng(seed).choice(places, samples, replace=False, shuffle=False)
    true = y.ravel()[places].astype(np.intp)
    if true.size and not 0 <= int(true.min()) <= int(true.max()) < len(f):
        raise InputError(
            f"labels range from {true.min()} to {true.max()}, expected 0 to {len(f) - 1}, or {VOID} for void."
        )
    sampled = f.reshape(len(f), -1)[:, places].T
    margins: Array = sampled - np.take_along_axis(sampled, true[:, None], axis=1)
    return margins


def _checked_scores(scores: object) -> npt.NDArray[np.float32]:
    f = as_array(scores, "scores are")
    if f.dtype.kind != "f" or f.ndim < 2 or not len(f):
        raise InputError(f"scores are {f.dtype} {f.shape}, expected floating point numbers (classes, rows, columns).")
    f = f.astype(np.float32, copy=False)
    if not np.isfinite(f).all():
        raise InputError("scores hold NaN or infinity. For probabilities pass numpy.log(numpy.maximum(p, 1e-5)).")
    return f
