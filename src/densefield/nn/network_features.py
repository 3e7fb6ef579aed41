"""What a network returns: scores, or scores and features that a kernel of the CRF compares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.nn.functional import interpolate

from densefield.errors import InputError, InputTypeError

_MODES = {1: "linear", 2: "bilinear", 3: "trilinear"}  # by the number of axes


def outputs_of(output: Any) -> tuple[Any, Any]:
    """The scores and the features in the output of a network; None if it returns scores alone.

    >>> outputs_of("scores"), outputs_of(("scores", "features"))
    (('scores', None), ('scores', 'features'))
    """
    if not isinstance(output, tuple):
        return output, None
    if len(output) != 2:
        raise InputError(f"the network returned {len(output)} values, expected scores, or scores and features.")
    return output


def features_at_size(features: Any, scores: Any) -> Any:
    """Features (B, d, …), or a list of (d, …), at the size of the scores; smaller ones are upsampled linearly.

    >>> import torch
    >>> features_at_size(torch.zeros(2, 4, 3, 5), torch.zeros(2, 21, 9, 10)).shape
    torch.Size([2, 4, 9, 10])
    """
    if isinstance(scores, Tensor):
        return _at_size(features, scores)
    if not isinstance(features, Sequence) or len(features) != len(scores):
        came = f"of {len(features)}" if isinstance(features, Sequence) else f"of type {type(features).__name__}"
        raise InputError(f"the network returned scores of {len(scores)} images, but features {came}.")
    return [_at_size(each[None], f[None])[0] for each, f in zip(features, scores, strict=True)]


def _at_size(features: object, scores: Tensor) -> Tensor:
    if not isinstance(features, Tensor) or not features.is_floating_point():
        came = f"of {features.dtype}" if isinstance(features, Tensor) else f"of type {type(features).__name__}"
        raise InputTypeError(f"the network returned features {came}, expected a tensor of floating point numbers.")
    shape, size = features.shape, tuple(scores.shape[2:])
    fits = features.ndim == scores.ndim and shape[0] == scores.shape[0]
    if not fits or any(n > most for n, most in zip(shape[2:], size, strict=True)):
        raise InputError(
            f"the network returned features of shape {tuple(shape)} and scores of shape {tuple(scores.shape)}: "
            "expected features (batch, channels, …) of the same batch and axes, at most as large."
        )
    if tuple(shape[2:]) == size:
        return features
    return interpolate(features, size=size, mode=_MODES[len(size)], align_corners=False)
