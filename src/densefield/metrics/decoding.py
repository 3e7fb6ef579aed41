"""Labels of one image from its marginals, chosen for a high expected intersection over union or Dice score."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from densefield.errors import InputError, InputTypeError
from densefield.labels import PROBABILITY_RANGE, SUM_TOLERANCE
from densefield.metrics.decoding_rules import (
    Array,
    Labels,
    OverlapMetric,
    decide,
    expected_overlap,
    mean_score,
    pixels_and_intersection,
    presence_of,
)

DecodingMetric = Literal["iou", "dice", "accuracy"]


def decode(
    marginals: object,
    metric: DecodingMetric = "iou",
    *,
    all_present: bool = False,
    ignore: object = None,
) -> Labels:
    """Labels of one image with a high expected mean IoU or Dice score over classes.

    The arg max of the marginals has the highest expected accuracy, but not the highest expected IoU: a few pixels of a
    doubtful class cost little accuracy, but the mean counts that class like all others. With the pixels P_l of label l,
    their expected intersection I_l = Σ_{i: y_i = l} p_il with the truth, the expected area T_l = Σ_i p_il of the truth,
    and the probability π_l = max_i p_il that the class is in the image, the expected scores are

        IoU_l = I_l / (P_l + (T_l - I_l) / π_l),    Dice_l = 2 I_l / (P_l + T_l / π_l).

    A class that is neither true nor predicted does not count: the sum over the used classes is divided by their number
    plus Σ π_l over the others. The labels are a local maximum, at least as good as the arg max.

    Parameters
    ----------
    marginals
        Probabilities (L, H, W) of the classes, which sum to one. They should be calibrated: see `fit_temperature`.
    metric
        "iou", "dice", or "accuracy" for the arg max.
    all_present
        Every class is known to be in the image, and all count: π_l = 1.
    ignore
        A boolean array (H, W), True for pixels that are not counted, such as void. They are labelled nevertheless.

    Returns
    -------
    Labels (H, W).

    Examples
    --------
    >>> import numpy as np
    >>> p = np.full((1, 100), 0.02)
    >>> p[:, 40:60], p[:, 60] = 0.45, 0.55  # a likely object, and a pixel above one half
    >>> marginals = np.stack([1 - p, p])
    >>> decode(marginals, "accuracy").sum().item(), decode(marginals, "iou").sum().item()
    (1, 21)
    >>> p[:, 40:60] = 0.02  # without the object
    >>> decode(np.stack([1 - p, p]), "iou").sum().item()
    0
    """
    if metric not in get_args(DecodingMetric):
        raise InputError(f"metric is {metric!r}, expected one of {', '.join(get_args(DecodingMetric))}.")
    p, counted = checked_marginals(marginals, ignore)
    if metric == "accuracy":
        labels: Labels = p.argmax(axis=0)
        return labels
    return decide(counted, metric, all_present).labels(p)


def expected_score(
    marginals: object,
    labels: object,
    metric: OverlapMetric = "iou",
    *,
    all_present: bool = False,
    ignore: object = None,
) -> float:
    """The expected mean IoU or Dice score of labels, without the truth: the objective of `decode`.

    Parameters
    ----------
    marginals
        Probabilities (L, H, W).
    labels
        Labels (H, W), 0…L-1.
    metric
        "iou" or "dice".
    all_present, ignore
        As in `decode`.

    Examples
    --------
    >>> import numpy as np
    >>> marginals = np.array([[[1.0, 1.0, 0.0, 0.0]], [[0.0, 0.0, 1.0, 1.0]]])
    >>> expected_score(marginals, np.array([[0, 0, 1, 1]])), expected_score(marginals, np.array([[0, 1, 1, 1]]))
    (1.0, 0.5833333333333333)
    """
    check_overlap_metric(metric)
    p, counted = checked_marginals(marginals, ignore)
    y = as_array(labels, "labels are")
    if y.dtype.kind not in "iu" or y.shape != p.shape[1:]:
        raise InputError(f"labels are {y.dtype} {y.shape}, expected integers {p.shape[1:]}, the size of the marginals.")
    y = y.ravel() if ignore is None else y[~np.asarray(ignore)]
    if y.size and not 0 <= int(y.min()) <= int(y.max()) < len(p):
        raise InputError(
            f"labels range from {y.min()} to {y.max()}, expected 0 to {len(p) - 1}. Leave void out with "
            "ignore=(labels == 255)."
        )
    if not y.size:
        return float("nan")
    presence = presence_of(counted, all_present)
    pixels, intersection = pixels_and_intersection(counted, y)
    values, _ = expected_overlap(metric, pixels, intersection, counted.sum(axis=1, dtype=np.float64), presence)
    return mean_score(values, (pixels > 0) | all_present, presence)


def as_array(given: object, subject: str) -> Array:
    """The argument as an array, without a copy if it is one; `subject` begins the error message."""
    if isinstance(given, np.ma.MaskedArray):
        raise InputTypeError(
            f"{subject} a masked array, whose mask would be lost. Pass its data, and the mask as ignore=."
        )
    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:  # a tensor on a GPU, or one that requires a gradient
        raise InputTypeError(
            f"{subject} of type {type(given).__name__}, which NumPy cannot read: {error} For a torch tensor use "
            "tensor.detach().float().cpu().numpy()."
        ) from error


def check_overlap_metric(metric: object) -> None:
    """Raises unless the metric is "iou" or "dice"."""
    if metric not in get_args(OverlapMetric):
        raise InputError(f"metric is {metric!r}, expected one of {', '.join(get_args(OverlapMetric))}.")


def checked_marginals(marginals: object, ignore: object) -> tuple[Array, Array]:
    """Marginals (L, …) as an array, and those of the pixels that are not ignored, (L, N); no copies if possible."""
    given = as_array(marginals, "the marginals are")
    if given.dtype.kind != "f":
        raise InputTypeError(
            f"the marginals are {given.dtype} {given.shape}, expected floating point numbers (classes, rows, columns)."
        )
    if given.ndim < 3 or not len(given):
        hint = " For one foreground probability p use numpy.stack([1 - p, p])." if given.ndim == 2 else ""
        raise InputError(f"the marginals have shape {given.shape}, expected (classes, rows, columns).{hint}")
    if ignore is None:
        counted = given.reshape(len(given), -1)
    else:
        left_out = as_array(ignore, "ignore is")
        if left_out.dtype != np.bool_ or left_out.shape != given.shape[1:]:
            raise InputError(
                f"ignore is {left_out.dtype} {left_out.shape}, expected a boolean array {given.shape[1:]}, True for "
                "pixels to leave out."
            )
        counted = given[:, ~left_out]
    if counted.size:
        _check_probabilities(counted)
    return given, counted


def _check_probabilities(p: Array) -> None:  # (L, N)
    low, high = float(p.min()), float(p.max())
    if np.isnan(low):
        raise InputError(
            "the marginals hold NaN. Leave those pixels out with ignore=numpy.isnan(marginals).any(axis=0)."
        )
    if low < PROBABILITY_RANGE[0] or high > PROBABILITY_RANGE[1]:
        hint = "exponentials of log marginals: numpy.exp(log_marginals)" if high <= 1e-4 else "softmax of scores"
        raise InputError(f"the marginals range from {low:.4g} to {high:.4g}, expected 0 to 1. Pass the {hint}.")
    total = p.sum(axis=0, dtype=np.float32)
    if abs(total - 1).max() > SUM_TOLERANCE:  # half precision rounds each by up to 1/4096 of itself
        raise InputError(
            f"the marginals sum to {total.min():.4g} … {total.max():.4g} over the classes (first axis), expected 1. "
            "For (rows, columns, classes) use numpy.moveaxis(marginals, -1, 0)."
        )
