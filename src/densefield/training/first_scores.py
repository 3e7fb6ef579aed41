"""The user's network on one image, before anything starts."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from densefield.datasets.sample import Sample
from densefield.errors import DensefieldError, InputError, warn
from densefield.networks.adapter import NetworkAdapter
from densefield.networks.network import input_size_of
from densefield.networks.upsampling import Size
from densefield.nn.segmenter import Segmenter


def check_scores(segmenter: Segmenter, sample: Sample, num_classes: int) -> None:
    """Raises unless the network scores that many classes of a whole image, as it does in validation.

    Warns if the scores are probabilities: the loss would take the softmax of a softmax.
    """
    scores = _scores(segmenter, sample, num_classes)
    count = len(scores)
    if count != num_classes:
        other, setting = f"num_classes is {num_classes}", "num_classes"
        if segmenter.crf is not None:
            other, setting = f"the CRF has {num_classes}", "num_classes of the CRF"
        raise InputError(
            f"the network scores {count} classes, but {other}: change the network's last layer, or {setting}."
        )
    if _are_probabilities(scores):
        warn(
            f"the network's scores of the image {sample.id} are probabilities: they are between 0 and 1, and sum to 1 "
            "over the classes. Logits are expected, since training takes their softmax: remove the softmax at the end "
            "of the network (activation=None in segmentation_models_pytorch)."
        )


def _are_probabilities(scores: Tensor) -> bool:  # (L, H, W)
    """Whether all scores are between 0 and 1, and sum to 1 over the classes.

    Scores are resized to the image linearly, with weights that are not negative and sum to 1: probabilities stay such.

    >>> _are_probabilities(torch.full((4, 2, 3), 0.25)), _are_probabilities(torch.full((4, 2, 3), 0.2501))
    (True, False)
    """
    # The softmax and two steps of resizing each change a score by some rounding errors of itself, and those of a sum of
    # 1 are together as many of 1. An untrained network can have a sum near 1 by chance, so more is not tolerated.
    tolerance = 16 * torch.finfo(scores.dtype).eps
    total = scores.cpu().double().sum(dim=0)
    return bool(scores.min() >= 0) and bool((total - 1).abs().max() <= tolerance)


def count_scores(segmenter: Segmenter, sample: Sample) -> int:
    """The number of classes that the network scores."""
    return len(_scores(segmenter, sample, None))


def _scores(segmenter: Segmenter, sample: Sample, num_classes: int | None) -> Tensor:  # (L, H, W)
    """The network's scores of an image in evaluation mode; raises if they cannot be scores of `num_classes`."""
    device = next((each.device for each in segmenter.network.parameters()), torch.device("cpu"))
    image = torch.from_numpy(np.ascontiguousarray(sample.image.transpose(2, 0, 1)))[None].to(device)
    modes = {module: module.training for module in segmenter.network.modules()}
    segmenter.network.eval()
    try:
        with torch.no_grad():
            scores = segmenter.scores(image)
            if scores.shape[1] != num_classes:
                _check_class_axis(segmenter.network, scores, num_classes)
        if bool(scores.isnan().any()):
            raise InputError(f"the network's scores of the image {sample.id} hold NaN: check its weights.")
        found: Tensor = scores[0]
        return found
    except DensefieldError:
        raise
    except Exception as error:  # code of the user
        reason = " ".join(str(error).split()).rstrip(".")
        rows, columns = sample.image.shape[:2]
        raise InputError(
            f"the network fails on the image {sample.id} of {rows}×{columns} pixels: {type(error).__name__}: {reason}. "
            "If it needs sizes that are multiples of a number, set network.multiple (multiple=) to that, 32 for "
            "instance; if it needs one size, set data.network_size (network_size=) to rows and columns."
        ) from error
    finally:
        for module, mode in modes.items():
            module.training = mode


def _check_class_axis(network: nn.Module, scores: Tensor, num_classes: int | None) -> None:  # (1, L, H, W)
    """Raises if a module returns scores (B, h, w, L): their second and third axis cover the image."""
    if not isinstance(network, NetworkAdapter):
        return
    size = scores.shape[2], scores.shape[3]
    rows, columns = (side + -side % network.multiple for side in input_size_of(size, network.input_size))
    dtype = next((each.dtype for each in network.parameters() if each.is_floating_point()), torch.float32)
    shape = tuple(network.coarse_scores(torch.zeros(1, 3, rows, columns, dtype=dtype, device=scores.device)).shape)
    covers = [_has_aspect((shape[axis], shape[axis + 1]), (rows, columns)) for axis in (1, 2)]
    if covers[0] and (not covers[1] or shape[3] == num_classes):
        raise InputError(
            f"the network returned scores of shape {shape} for an image of {rows}×{columns} pixels, expected (batch, "
            "classes, rows, columns): the class axis must be the second. Return scores.movedim(-1, 1)."
        )


def _has_aspect(scores: Size, image: Size) -> bool:
    """Whether scores can be those of an image at another resolution.

    >>> _has_aspect((10, 13), (40, 50)), _has_aspect((10, 3), (40, 50))
    (True, False)
    """
    # A stride leaves a side of the scores up to one larger or smaller than its share.
    return abs(scores[0] / image[0] - scores[1] / image[1]) <= 1 / image[0] + 1 / image[1]
