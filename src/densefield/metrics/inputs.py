"""Predictions and truths, checked, as what is counted of their pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from densefield.errors import InputError, InputTypeError
from densefield.labels import VOID
from densefield.metrics.image_scores import ImageScores, score_image

Batch = Tensor | Sequence[Tensor]


def scored_items(prediction: object, truth: object, num_classes: int) -> Iterator[ImageScores]:
    """Counts of each item of a batch."""
    predictions, truths = _items(prediction, "the prediction"), _items(truth, "the truth")
    if len(predictions) != len(truths):
        raise InputError(f"the prediction has {len(predictions)} images and the truth {len(truths)}, expected as many.")
    for p, y in zip(predictions, truths, strict=True):
        yield _scored(p.detach(), y.detach(), num_classes)


def _items(given: object, name: str) -> Sequence[Tensor]:
    items: Sequence[Any] = given if isinstance(given, list | tuple) else [given]
    for item in items:
        if not isinstance(item, Tensor):
            raise InputTypeError(
                f"{name} is a {type(item).__name__}, expected a torch tensor with the images of a batch along its "
                "first axis, or a list of tensors. Use torch.from_numpy for arrays."
            )
    return list(given) if isinstance(given, Tensor) and given.ndim else items


def _scored(prediction: Tensor, truth: Tensor, num_classes: int) -> ImageScores:
    """Counts of one image."""
    y = _checked_truth(truth, num_classes)
    if not prediction.is_floating_point():
        return score_image(_checked_labels(prediction, y, num_classes).cpu().numpy(), y.cpu().numpy(), num_classes)
    log_q = _checked_log_marginals(prediction, y, num_classes)
    top, labels = log_q.max(dim=0)
    place = y.to(log_q.device, torch.int64)
    of_truth = log_q.gather(0, place.where(place != VOID, 0)[None])[0]
    return score_image(
        labels.cpu().numpy(),
        y.cpu().numpy(),
        num_classes,
        true_log_marginal=of_truth.cpu().numpy(),
        confidence=top.exp().cpu().numpy(),
    )


def _checked_truth(truth: Tensor, num_classes: int) -> Tensor:
    """Labels (H, W), 0…L-1 or 255."""
    _check_whole(truth, "the truth")
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
            f"{VOID}, or make SegmentationScores with more classes."
        )
    return truth


def _checked_labels(prediction: Tensor, truth: Tensor, num_classes: int) -> Tensor:
    """Labels (H, W), 0…L-1."""
    _check_whole(prediction, "the prediction")
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
            hint = f"Make SegmentationScores with {came[0]} classes."
        elif came == (*truth.shape, num_classes):
            hint = "The labels come last: use movedim(-1, 1) on the batch."
        raise InputError(f"the log marginals of an image have shape {came}, expected {expected}. {hint}")
    precise = prediction.dtype in (torch.float32, torch.float64)
    log_q = prediction if precise else prediction.float()
    if log_q.numel() == 0:
        return log_q
    total = log_q.exp().sum(dim=0)  # many times as quick as logsumexp, and what overflows is wrong as well
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


def _check_whole(labels: Tensor, name: str) -> None:
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise InputTypeError(f"{name} has dtype {labels.dtype}, expected whole numbers. Use .long() on labels.")
