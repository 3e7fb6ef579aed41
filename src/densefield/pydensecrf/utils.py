"""Unary energies from labels or probabilities, and features for addPairwiseEnergy."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from numbers import Number
from typing import Any, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError, InputTypeError, warn
from densefield.pydensecrf.buffers import SMALLEST_WIDTH, Float32

Widths = float | Sequence[float] | npt.NDArray[np.floating]

_log = logging.getLogger(__name__)


def unary_from_labels(
    labels: npt.NDArray[np.integer],  # any shape
    n_labels: int,
    gt_prob: float,
    zero_unsure: bool = True,
) -> Float32:
    """Energies (L, N) of a labelling that is right with probability `gt_prob`.

    With `zero_unsure` (the default) label 0 means unknown, and the classes are 1…L.

    >>> unary_from_labels(np.array([0, 1, 2]), 2, 0.8).round(2)
    array([[0.69, 0.22, 1.61],
           [0.69, 1.61, 0.22]], dtype=float32)
    """
    given, confidence = np.asarray(labels).ravel(), cast(object, gt_prob)
    if given.dtype.kind not in "iub":
        raise InputTypeError(f"labels have dtype {given.dtype}, expected integers: use labels.astype(int).")
    try:
        count = n_labels.__index__()
        p = confidence if isinstance(confidence, np.floating) else float(gt_prob)
    except (AttributeError, TypeError, ValueError):
        raise InputTypeError(
            f"n_labels is {n_labels!r} and gt_prob {gt_prob!r}, expected an integer and a probability."
        ) from None
    if count < 2:
        raise InputError(f"n_labels is {count}, expected 2 or more: one label leaves nothing to choose.")
    if not 0 < p < 1:
        raise InputError(f"gt_prob is {gt_prob!r}, expected a probability above 0 and below 1.")
    first = 1 if zero_unsure else 0
    index = given.astype(np.int64) - first  # unsigned labels have no -1
    known = index >= 0 if zero_unsure else np.ones(index.shape, bool)
    if index.size and (index.min() < -first or index.max() >= count):
        raise InputError(
            f"labels range from {int(given.min())} to {int(given.max())}, expected "
            + (f"1 to {count}, and 0 where unsure." if zero_unsure else f"0 to {count - 1}.")
        )
    # Rounded as in pydensecrf, which computes in the precision of its arguments.
    energies = np.full((count, given.size), -np.log((1.0 - p) / (n_labels - 1)), np.float32)
    energies[index[known], np.flatnonzero(known)] = -np.log(p)
    energies[:, ~known] = -np.log(1.0 / n_labels)
    return energies


def unary_from_softmax(
    sm: npt.ArrayLike,  # (L, …)
    scale: float | None = None,
    clip: float | None = 1e-5,
) -> Float32:
    """Energies (L, N), -log p, of probabilities (L, …).

    With `scale` s, they are first mixed with even odds, s·p + (1 - s)/L; probabilities below `clip` count as `clip`.

    >>> unary_from_softmax(np.array([[0.5, 1.0], [0.5, 0.0]])).round(2)
    array([[ 0.69, -0.  ],
           [ 0.69, 11.51]], dtype=float32)
    """
    p = np.asarray(sm)
    if p.dtype.kind not in "fiub":
        raise InputTypeError(f"sm has dtype {p.dtype}, expected probabilities (labels, …).")
    if p.ndim == 0 or len(p) == 0:
        raise InputError(f"sm has shape {p.shape}, expected probabilities (labels, …).")
    if scale is not None:
        if not 0 < scale <= 1:
            raise InputError(f"scale is {scale!r}, expected more than 0 and at most 1.")
        mixed = scale * p
        p = mixed.astype(np.result_type(mixed, np.float64)) + (1 - scale) * np.float64(1 / len(p))
    if clip is not None:
        p = np.clip(p, clip, 1.0)
    energies: Float32 = -np.log(p).reshape(len(p), -1).astype(np.float32, order="C")
    return energies


def create_pairwise_gaussian(
    sdims: Widths,  # one width per axis
    shape: Sequence[int],  # of the image, without channels
) -> Float32:
    """Features (axes, N): positions over their widths, in the order of the image's axes, so rows before columns.

    >>> create_pairwise_gaussian((2, 1), (2, 3)).tolist()
    [[0.0, 0.0, 0.0, 0.5, 0.5, 0.5], [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]]
    """
    try:
        sizes = tuple(size.__index__() for size in shape)
    except (AttributeError, TypeError):
        raise InputTypeError(f"shape is {shape!r}, expected the image's size along each axis.") from None
    if not sizes or min(sizes) < 0:
        raise InputError(f"shape is {shape!r}, expected the image's size along each axis.")
    widths = _listed_widths(sdims, "sdims", len(sizes), "axes")
    if len(widths) < len(sizes):
        raise InputError(f"sdims is {sdims!r}, expected one width for each of the {len(sizes)} axes of {shape!r}.")
    features = np.indices(sizes, np.float32)
    _divide(features, widths, "sdims")
    return features.reshape(len(sizes), math.prod(sizes))


def create_pairwise_bilateral(
    sdims: Widths,  # one width per axis
    schan: Widths,  # one width for all channels, or one for each
    img: npt.NDArray[np.generic],
    chdim: int = -1,
) -> Float32:
    """Features (axes + channels, N): positions as in create_pairwise_gaussian, then channels, each over its width.

    `chdim` is the axis of `img` that counts channels; -1, the default, means that there is none, not that it is the
    last. As in pydensecrf, axes and channels beyond the last width are not scaled, which gives a warning.

    >>> create_pairwise_bilateral((1, 1), 10, np.zeros((4, 5, 3), np.uint8), chdim=2).shape
    (5, 20)
    """
    image = np.asarray(img)
    if image.dtype.kind not in "fiub":
        raise InputTypeError(f"img has dtype {image.dtype}, expected numbers.")
    if chdim == -1:
        channels = image[None]
    elif isinstance(chdim, SupportsIndex) and -image.ndim <= chdim.__index__() < image.ndim:
        channels = np.moveaxis(image, chdim.__index__(), 0)
    else:
        raise InputError(f"chdim is {chdim!r} for an image of shape {image.shape}, expected one of its axes, or -1.")
    axes = channels.ndim - 1
    positions = _listed_widths(sdims, "sdims", axes, "axes")
    colours = _listed_widths(schan, "schan", len(channels), "channels")
    if len(positions) < axes:
        hint = f" If the last axis counts channels, use chdim={axes - 1}." if chdim == -1 and axes > 2 else ""
        _warn_of_rest("sdims", len(positions), f"{axes} axes of an image of shape {image.shape}, chdim={chdim}", hint)
    if len(colours) < len(channels):
        hint = " One number is the width of all channels." if len(colours) == 1 else ""
        _warn_of_rest("schan", len(colours), f"{len(channels)} channels", hint)
    features = np.empty((axes + len(channels), *channels.shape[1:]), np.float32)
    features[:axes] = np.indices(features.shape[1:], np.float32)
    features[axes:] = channels
    _divide(features[:axes], positions, "sdims")
    _divide(features[axes:], colours, "schan")
    return features.reshape(len(features), math.prod(channels.shape[1:]))


def compute_unary(labels: npt.NDArray[np.integer], M: int, GT_PROB: float = 0.5) -> Float32:
    """The old name of unary_from_labels."""
    _log.warning("compute_unary is deprecated: use unary_from_labels.")
    return unary_from_labels(labels, M, GT_PROB)


def softmax_to_unary(sm: npt.ArrayLike, GT_PROB: float = 1) -> Float32:
    """The old name of unary_from_softmax, with `GT_PROB` for the scale."""
    _log.warning("softmax_to_unary is deprecated: use unary_from_softmax.")
    return unary_from_softmax(sm, scale=None if GT_PROB == 1 else GT_PROB, clip=None)


def _listed_widths(widths: object, name: str, count: int, what: str) -> list[Any]:
    """At most `count` widths, each as it came: its type decides how the quotient is rounded.

    One number stands for all. A width is a number other than 0 and NaN, or an array of them that fits the image.

    >>> _listed_widths(3, "sdims", 2, "axes"), _listed_widths((5.0, 4.0), "sdims", 3, "axes")
    ([3, 3], [5.0, 4.0])
    """
    expected = f"a number, or one for each of the {count} {what}"
    if isinstance(widths, Number) or (isinstance(widths, np.ndarray) and widths.ndim == 0):
        each: list[Any] = [widths] * count
    elif isinstance(widths, Iterable) and not isinstance(widths, str):
        each = list(widths)
    else:
        raise InputTypeError(f"{name} is {widths!r}, expected {expected}.")
    if len(each) > count:
        raise InputError(f"{name} is {widths!r}, expected {expected}.")
    for width in each:
        try:
            numbers = np.asarray(width)
        except ValueError:  # rows of unequal length
            raise InputError(f"{name} is {widths!r}, expected {expected}.") from None
        if numbers.dtype.kind not in "fiub":
            raise InputTypeError(f"{name} is {widths!r}, expected {expected}.")
        if not (np.abs(numbers.astype(np.float64)) >= SMALLEST_WIDTH).all():  # NaN is not greater either
            raise InputError(f"{name} is {widths!r}, expected widths other than 0 and NaN.")
    return each


def _divide(features: Float32, widths: Sequence[Any], name: str) -> None:
    """Divide each of the first features (k, …) by its width, in place; there are at most k widths."""
    for index, width in enumerate(widths):
        feature = features[index, ...]  # a view, of a single number too
        try:
            with np.errstate(over="ignore"):  # a width beyond float32 is infinite
                feature /= width
        except ValueError:
            raise InputError(
                f"a width in {name} has shape {np.shape(width)}, expected a number, or an array that fits "
                f"{feature.shape}."
            ) from None


def _warn_of_rest(name: str, count: int, available: str, hint: str) -> None:
    warn(f"{name} has {count} widths for the {available}; those beyond are not scaled, as in pydensecrf.{hint}")
