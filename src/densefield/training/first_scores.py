"""The user's network on one image, before anything starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from densefield.datasets.sample import Sample
from densefield.errors import DensefieldError, InputError, warn
from densefield.networks.adapter import NetworkAdapter
from densefield.networks.network import input_size_of
from densefield.networks.upsampling import Size
from densefield.nn.segmenter import Segmenter
from densefield.runs.config import NetworkConfig, TrainingConfig


def check_scores(segmenter: Segmenter, sample: Sample, settings: NetworkConfig) -> None:
    """Raises unless the network scores as many classes of a whole image as its settings say, as it does in validation.

    Warns if the scores come from a softmax or a sigmoid: the loss takes another softmax.
    """
    num_classes = settings.num_classes
    scores = _scores(segmenter, sample, num_classes)
    count = len(scores)
    if count != num_classes:
        if "num_classes" not in settings.model_fields_set:
            raise InputError(
                f"the network scores {count} classes, but num_classes is missing (default {num_classes}): set "
                f"network.num_classes = {count}."
            )
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
    elif scores.min() >= 0 and scores.max() <= 1 and _ends_in_sigmoid(segmenter.network, scores[None]):
        warn(
            f"the network's scores of the image {sample.id} are between 0 and 1, since the network ends in a sigmoid. "
            "Logits are expected, since training takes their softmax: remove the sigmoid at the end of the network "
            "(activation=None in segmentation_models_pytorch)."
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


def _ends_in_sigmoid(network: nn.Module, scores: Tensor) -> bool:  # (1, L, H, W)
    """Whether the last operation of a module is a sigmoid, besides operations such as clamping and slicing.

    Values alone do not tell: those of an untrained network may lie between 0 and 1 by chance.
    """
    if not isinstance(network, NetworkAdapter):
        return False
    with _in_evaluation_mode(network), torch.enable_grad():
        image = _blank_input(network, scores).requires_grad_()
        step = network.coarse_scores(image.clone()).grad_fn  # modules cannot change a leaf in place
    while step is not None and len(step.next_functions) == 1:
        if "sigmoid" in step.name().lower():
            return True
        step = step.next_functions[0][0]
    return False


def count_scores(segmenter: Segmenter, sample: Sample) -> int:
    """The number of classes that the network scores."""
    return len(_scores(segmenter, sample, None))


def _scores(segmenter: Segmenter, sample: Sample, num_classes: int | None) -> Tensor:  # (L, H, W)
    """The network's scores of an image in evaluation mode; raises if they cannot be scores of `num_classes`."""
    device = next((each.device for each in segmenter.network.parameters()), torch.device("cpu"))
    image = torch.from_numpy(sample.image.transpose(2, 0, 1).copy())[None].to(device)
    try:
        with _in_evaluation_mode(segmenter.network), torch.no_grad():
            scores, features = segmenter.outputs(image)
            segmenter.check_features(features)
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
            "If this comes from the image's size: for multiples of a number, such as 32, set network.multiple "
            "(multiple=); for one size, set data.network_size (network_size=) to rows and columns."
        ) from error


@contextmanager
def naming_batch_statistics(settings: TrainingConfig) -> Iterator[None]:
    """Turns torch's error about batch normalisation of one value, as after pooling, into one that names the cure."""
    try:
        yield
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise InputError(
            f"the network fails in training with batch {settings.batch} and accumulate {settings.accumulate}: "
            f"{str(error).rstrip('.')}. Batch normalisation needs two images or more in each part of a batch and in "
            "each process: raise batch, or lower accumulate."
        ) from error


@contextmanager
def _in_evaluation_mode(network: nn.Module) -> Iterator[None]:
    """The network in evaluation mode, and afterwards each module in its mode from before."""
    modes = {module: module.training for module in network.modules()}
    network.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _blank_input(network: NetworkAdapter, scores: Tensor) -> Tensor:  # (1, L, H, W)
    """An input (1, 3, h, w) of the module, as large as for an image of the size of the scores."""
    size = scores.shape[2], scores.shape[3]
    rows, columns = (side + -side % network.multiple for side in input_size_of(size, network.input_size))
    dtype = next((each.dtype for each in network.parameters() if each.is_floating_point()), torch.float32)
    return torch.zeros(1, 3, rows, columns, dtype=dtype, device=scores.device)


def _check_class_axis(network: nn.Module, scores: Tensor, num_classes: int | None) -> None:  # (1, L, H, W)
    """Raises if a module returns scores (B, h, w, L): their second and third axis cover the image."""
    if not isinstance(network, NetworkAdapter):
        return
    image = _blank_input(network, scores)
    rows, columns = image.shape[2:]
    shape = tuple(network.coarse_scores(image).shape)
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
