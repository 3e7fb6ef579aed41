"""What the transforms for MONAI get: arrays, their sizes and spacing, and their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from monai.data import MetaTensor
from monai.data.utils import affine_to_spacing
from monai.utils import convert_data_type

from densefield.crf.arrays import checked_numbers
from densefield.crf.unary import kind_of_scores
from densefield.errors import InputError, InputTypeError, warn
from densefield.labels import PROBABILITY_RANGE, SUM_TOLERANCE

Kind = Literal["probabilities", "logits", "labels"]
Array = npt.NDArray[Any]

# Parts of data_range that an image spans: outside of them the CRF sees hardly any edge, or one between any two voxels.
NARROW, WIDE = 0.1, 4.0


def array_of(data: Any, name: str) -> Array:
    """The data as an array; numbers of bfloat16, which NumPy does not have, in single precision."""
    if not isinstance(data, torch.Tensor | np.ndarray):
        raise InputTypeError(f"{name} is of type {type(data).__name__}, expected a tensor or an array.")
    if isinstance(data, torch.Tensor) and data.dtype == torch.bfloat16:
        data = data.float()
    array: Array = convert_data_type(data, np.ndarray)[0]
    return array


def check_sizes(segmentation: tuple[int, ...], image: tuple[int, ...]) -> None:
    """Raises unless both are channel-first, of one spatial size."""
    hint = ""
    if len(segmentation) in (3, 4) and len(image) == len(segmentation) and segmentation[1:] == image[1:]:
        if 0 in segmentation or 0 in image:
            raise InputError(f"the segmentation has shape {segmentation} and the image {image}: one of them is empty.")
        return
    if image == segmentation[1:] or image[1:] == segmentation:
        hint = " One of them has no channel axis: use EnsureChannelFirst."
    elif len(segmentation) == len(image) == 5:
        hint = " For batches use decollate_batch first."
    elif len(segmentation) == len(image):
        hint = " Resample one of them to the other, or apply Invert to both."
    raise InputError(
        f"the segmentation has shape {segmentation} and the image {image}, expected (classes, …) and (channels, …) "
        f"with the same two or three spatial axes.{hint}"
    )


def spacing_of(img: Any, image: Any, given: Sequence[float] | None, axes: int) -> tuple[float, ...]:
    """Size of a voxel along each axis of the arrays: the given one, that of the metadata, or 1."""
    affines = [
        np.asarray(each.affine) for each in (image, img) if isinstance(each, MetaTensor) and "affine" in each.meta
    ]
    if (
        len(affines) == 2
        and affines[0].shape == affines[1].shape
        and not np.allclose(affines[0], affines[1], rtol=1e-3, atol=1e-3)
    ):
        raise InputError(
            f"the image and the segmentation lie differently in space: their affines are {affines[0].tolist()} and "
            f"{affines[1].tolist()}. Resample or invert both alike before this transform."
        )
    spacing = affine_to_spacing(affines[0], r=axes) if given is None and affines else given
    if spacing is None:
        return (1.0,) * axes
    name = "spacing" if given is not None else "the spacing of the affine"
    expected = f"{axes} numbers above 0, one for each axis of the arrays"
    steps = checked_numbers(spacing, name, expected)
    if steps.shape != (axes,) or not (np.isfinite(steps).all() and (steps > 0).all()):
        raise InputError(f"{name} is {steps.tolist()}, expected {expected}.")
    return tuple(steps.tolist())


def warn_of_range(image: Array, data_range: float | Sequence[float]) -> None:  # (C, …)
    """Warns if a channel has a much larger range than it should, or all have a much smaller one."""
    ranges = checked_numbers(data_range, "data_range", "a number above 0, or one for each channel")
    if ranges.shape not in ((), (len(image),)) or not (ranges > 0).all():
        return  # refine() raises
    low, high = (bound(image.reshape(len(image), -1), axis=1).astype(np.float64) for bound in (np.min, np.max))
    parts = (high - low) / ranges
    varies = parts > 0  # a constant channel has no range
    if (parts >= WIDE).any():
        channel, effect = int(parts.argmax()), "an edge between any two voxels"
    elif varies.any() and (parts[varies] < NARROW).all():
        channel, effect = int(parts.argmax()), "hardly any edge"
    else:
        return
    expected = float(ranges if ranges.ndim == 0 else ranges[channel])
    warn(
        f"the image has values from {low[channel]:.6g} to {high[channel]:.6g}, but data_range is {expected:.6g}: the "
        f"CRF sees {effect}. Scale it before, such as by ScaleIntensityRange, or pass "
        f"data_range={high[channel] - low[channel]:.6g}."
    )


def check_options(options: Mapping[str, Any], kind: Kind) -> None:
    """Raises if there is an option that has no effect for this kind of segmentation."""
    for name in ("roughness", "confidence") if kind != "labels" else ("temperature",):
        if options.get(name) is not None:
            expected = "kind='labels'" if kind != "labels" else "kind='probabilities' or 'logits'"
            raise InputError(f"{name} is given, but kind is {kind!r}: it is for {expected}.")


def checked_scores(scores: Array, kind: Kind) -> Array:  # (L, …)
    """Probabilities or logits; raises, or warns, if they are something else."""
    if not np.issubdtype(scores.dtype, np.floating):
        raise InputTypeError(
            f"the {kind} are {scores.dtype}, expected floating point numbers: for class indices or one-hot pass "
            "kind='labels'."
        )
    missing = int(np.isnan(scores).any(axis=0).sum())
    if missing:
        raise InputError(f"the {kind} hold NaN at {missing} of {scores[0].size} voxels: check what computes them.")
    if kind == "logits":
        if kind_of_scores(scores) == "probabilities":
            warn("the logits are probabilities: they are at least 0 and sum to 1. Pass kind='probabilities'.")
            return scores - 1  # the same logits up to a constant, which refine() does not warn of again
        return scores
    low, high = float(scores.min()), float(scores.max())
    if low < PROBABILITY_RANGE[0] or high > PROBABILITY_RANGE[1]:
        raise InputError(
            f"the probabilities range from {low:.4g} to {high:.4g}, expected 0 to 1: for a network's scores pass "
            "kind='logits'."
        )
    total = scores.sum(axis=0, dtype=np.float32)
    if len(scores) > 1 and not np.allclose(total, 1, atol=SUM_TOLERANCE):
        raise InputError(
            f"the probabilities sum to {float(total.min()):.4g} … {float(total.max()):.4g} over the channels, expected "
            "1. For classes that overlap, as after a sigmoid, refine each channel by itself."
        )
    return scores
