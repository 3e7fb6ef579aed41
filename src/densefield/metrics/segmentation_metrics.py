"""Batches of predictions and true labels as torch tensors, checked and counted, on any number of processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import torch
from torch import Tensor

from densefield.errors import InputError, InputTypeError
from densefield.labels import VOID
from densefield.metrics.counts import ImageCounts, count_pixels
from densefield.metrics.metrics import SegmentationResult, combine_images

Batch = Tensor | Sequence[Tensor]


class SegmentationMetrics:
    """Counts batches of predictions, image by image; ``compute()`` gives a SegmentationResult.

    Parameters
    ----------
    num_classes
        The number of classes L, from 1 to 255; label 255 is void and not counted.

    Examples
    --------
    >>> import torch
    >>> metrics = SegmentationMetrics(num_classes=3)
    >>> metrics.update(torch.tensor([[[0, 1, 1, 1]]]), torch.tensor([[[0, 0, 1, 255]]]))
    >>> result = metrics.compute()
    >>> result.iou, result.mean_iou  # label 2 is neither true nor predicted
    (array([0.5, 0.5, nan]), 0.5)
    """

    def __init__(self, num_classes: int) -> None:
        if (
            isinstance(num_classes, bool)
            or not isinstance(num_classes, SupportsIndex)
            or not 1 <= num_classes.__index__() <= VOID
        ):
            raise InputError(f"num_classes is {num_classes!r}, expected an integer from 1 to {VOID}.")
        self.num_classes = num_classes.__index__()
        self._images: list[tuple[str | None, ImageCounts]] = []

    def update(self, prediction: Batch, truth: Batch, names: Sequence[str] | None = None) -> None:
        """Counts a batch.

        Parameters
        ----------
        prediction
            Log marginals (B, L, H, W), or labels (B, H, W); or a list of images of different sizes.
        truth
            Labels (B, H, W), 255 for void; or a list.
        names
            Names of the images. An image whose name is repeated counts once, so that the images a distributed sampler
            repeats do no harm.
        """
        predictions, truths = _items(prediction, "the prediction"), _items(truth, "the truth")
        if len(predictions) != len(truths):
            raise InputError(
                f"the prediction has {len(predictions)} images and the truth {len(truths)}, expected equal numbers."
            )
        counts = [count_image(p, y, self.num_classes) for p, y in zip(predictions, truths, strict=True)]
        self._images += zip(_checked_names(names, len(counts)), counts, strict=True)

    def compute(self) -> SegmentationResult:
        """Metrics of all images; of those of all processes if torch.distributed is initialised."""
        images, distributed = self._images, torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            parts: list[Any] = [None] * distributed.get_world_size()
            distributed.all_gather_object(parts, images)
            images = [image for part in parts for image in part]
        return combine_images(images, self.num_classes)

    def reset(self) -> None:
        """Forgets all images."""
        self._images.clear()


def count_image(
    prediction: Tensor,  # (L, H, W) log marginals, or (H, W) labels
    truth: Tensor,  # (H, W) labels, 255 for void
    num_classes: int,
) -> ImageCounts:
    """Counts of one image, whose prediction and truth are checked."""
    prediction, y = prediction.detach(), _checked_truth(truth.detach(), num_classes)
    if not prediction.is_floating_point():
        return count_pixels(_checked_labels(prediction, y, num_classes).cpu().numpy(), y.cpu().numpy(), num_classes)
    log_q = _checked_log_marginals(prediction, y, num_classes)
    top, labels = log_q.max(dim=0)
    place = y.to(log_q.device, torch.int64)
    true_log_marginal = log_q.gather(0, place.where(place != VOID, 0)[None])[0]
    return count_pixels(
        labels.cpu().numpy(),
        y.cpu().numpy(),
        num_classes,
        true_log_marginal=true_log_marginal.cpu().numpy(),
        confidence=top.exp().cpu().numpy(),
    )


def confusion_matrix(
    log_marginals: Tensor,  # (B, L, H, W)
    labels: Tensor,  # (B, H, W), 255 for void
) -> Tensor:
    """Pixels (L, L) by true and predicted label, on the device of the tensors; `Counts.from_confusion` takes them.

    >>> confusion_matrix(torch.tensor([[[[0.0, -1.0]], [[-1.0, 0.0]]]]), torch.tensor([[[0, 0]]])).tolist()
    [[1, 1], [0, 0]]
    """
    num_classes, counted = log_marginals.shape[1], labels != VOID
    cells = labels[counted] * num_classes + log_marginals.argmax(1)[counted]
    return torch.bincount(cells, minlength=num_classes * num_classes).reshape(num_classes, num_classes)


def _items(batch: object, name: str) -> Sequence[Tensor]:
    """The images of a batch."""
    items: Sequence[Any] = batch if isinstance(batch, list | tuple) else [batch]
    for item in items:
        if not isinstance(item, Tensor):
            raise InputTypeError(
                f"{name} is of type {type(item).__name__}, expected a torch tensor with the images of a batch along "
                "its first axis, or a list of tensors. Use torch.from_numpy for arrays."
            )
    return list(batch) if isinstance(batch, Tensor) and batch.ndim else items


def _checked_truth(truth: Tensor, num_classes: int) -> Tensor:
    """Labels (H, W), 0…L-1 or 255."""
    _check_integers(truth, "the truth")
    if truth.ndim != 2:
        raise InputError(
            f"the truth of an image has shape {tuple(truth.shape)}, expected (rows, columns), in a batch "
            "(batch, rows, columns)."
        )
    wrong = (truth != VOID) & ((truth < 0) | (truth >= num_classes))
    if bool(wrong.any()):
        value = int(truth[wrong][0])
        raise InputError(
            f"the truth holds label {value}, expected 0 to {num_classes - 1}, or {VOID} for void. Map other values to "
            f"{VOID}, or use SegmentationMetrics with more classes."
        )
    return truth


def _checked_labels(prediction: Tensor, truth: Tensor, num_classes: int) -> Tensor:
    """Labels (H, W), 0…L-1."""
    _check_integers(prediction, "the prediction")
    if prediction.shape != truth.shape:
        raise InputError(
            f"a predicted image has shape {tuple(prediction.shape)} and its truth {tuple(truth.shape)}, expected "
            "the same. Resize the prediction to the size of the truth."
        )
    wrong = (prediction < 0) | (prediction >= num_classes)
    if bool(wrong.any()):
        value = int(prediction[wrong][0])
        raise InputError(
            f"the prediction holds label {value}, expected 0 to {num_classes - 1} at every pixel, even "
            "where the truth is void. Take the best label of each pixel, scores.argmax(1)."
        )
    return prediction


def _checked_log_marginals(prediction: Tensor, truth: Tensor, num_classes: int) -> Tensor:
    """Log marginals (L, H, W) in float32 or float64, whose exponentials sum to one."""
    if tuple(prediction.shape) != (num_classes, *truth.shape):
        came, expected = tuple(prediction.shape), (num_classes, *truth.shape)
        hint = "Resize the prediction to the size of the truth."
        if prediction.ndim == 3 and came[1:] == expected[1:]:
            hint = f"Use SegmentationMetrics with {came[0]} classes."
        elif came == (*truth.shape, num_classes):
            hint = "The classes are the last axis: use movedim(-1, 1) on the batch."
        raise InputError(f"the log marginals of an image have shape {came}, expected {expected}. {hint}")
    precise = prediction.dtype in (torch.float32, torch.float64)
    log_q = prediction if precise else prediction.float()
    if log_q.numel() == 0:
        return log_q
    total = log_q.exp().sum(dim=0)  # many times as fast as logsumexp, and an overflow is an error as well
    if bool(((total - 1).abs() <= (1e-3 if precise else 2e-2)).all()):
        return log_q
    if bool(log_q.isnan().any()):
        raise InputError("the log marginals hold NaN. Look for NaN in the scores that they come from.")
    if float(log_q.min()) >= 0 and bool(((log_q.sum(dim=0) - 1).abs() <= 2e-2).all()):
        raise InputError("the prediction holds probabilities, expected their logarithms. Use probabilities.log().")
    raise InputError(
        f"the marginals, exp of the prediction, sum to {float(total.min()):.4g} … {float(total.max()):.4g} over the "
        "labels, expected 1. For scores use torch.log_softmax(scores, dim=1)."
    )


def _check_integers(labels: Tensor, name: str) -> None:
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise InputTypeError(f"{name} has dtype {labels.dtype}, expected integers. Use .long() on labels.")


def _checked_names(names: object, images: int) -> Sequence[str | None]:
    if names is None:
        return [None] * images
    if not isinstance(names, list | tuple):
        raise InputTypeError(f"names are {names!r}, expected a list with the name of each image.")
    if len(names) != images:
        raise InputError(f"there are {len(names)} names for {images} images, expected equal numbers.")
    for name in names:
        if not isinstance(name, str):
            raise InputTypeError(f"the name of an image is {name!r}, expected a str. Use str(name).")
    return names
