"""The loss of training: the negative log-likelihood of the true labels under the marginals."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from densefield.errors import InputError, InputTypeError
from densefield.labels import VOID

Reduction = Literal["mean", "sum"]

_ROUNDING = 1e-2  # how far above 0 rounding may move a log marginal of half precision


def log_likelihood_loss(
    log_marginals: Tensor,
    labels: Tensor,
    *,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The negative log-likelihood of the true labels over all pixels that are not void (paper, Eq. 6 and 8).

    Without a CRF, q = softmax(f), it is the cross-entropy of the scores f. If all pixels are void, the loss and its
    gradient are 0.

    Parameters
    ----------
    log_marginals
        (B, L, H, W), or with other axes of pixels.
    labels
        (B, H, W): integers 0…L-1, or 255 for void.
    reduction
        "sum" is the paper's L = -Σ_i log q_i(y_i). "mean" divides it by the number of labelled pixels of the batch, so
        that the learning rate does not depend on the image size.
    label_smoothing
        ε of smoothed labels, from 0 to less than 1: the true label has the probability 1 - ε, and ε is shared equally
        by all classes. It penalises marginals that are too confident.

    >>> import torch
    >>> q = torch.tensor([[0.5, 0.1, 0.3], [0.5, 0.9, 0.7]])
    >>> labels = torch.tensor([[[0, 1, 255]]])
    >>> log_likelihood_loss(q.log().reshape(1, 2, 1, 3), labels)  # -(log 0.5 + log 0.9)/2
    tensor(0.3993)
    """
    if reduction not in get_args(Reduction):
        raise InputError(f"reduction is {reduction!r}, expected one of {', '.join(get_args(Reduction))}.")
    if not 0 <= label_smoothing < 1:
        raise InputError(f"label_smoothing is {label_smoothing!r}, expected a number from 0 to less than 1.")
    _check(log_marginals, labels)
    log_q = log_marginals if log_marginals.dtype == torch.float64 else log_marginals.float()
    counted = labels != VOID
    truth = labels.long().where(counted, 0).unsqueeze(1)
    losses = -log_q.gather(1, truth).squeeze(1)
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * log_q.mean(dim=1)
    total = losses.where(counted, 0.0).sum()
    return total if reduction == "sum" else total / counted.sum().clamp(min=1)


def _check(log_marginals: object, labels: object) -> None:
    for given, name, expected in (
        (log_marginals, "log marginals", "(batch, classes, rows, columns)"),
        (labels, "labels", "(batch, rows, columns)"),
    ):
        if not isinstance(given, Tensor):
            raise InputTypeError(f"the {name} are of type {type(given).__name__}, expected a torch tensor {expected}.")
    assert isinstance(log_marginals, Tensor) and isinstance(labels, Tensor)
    if not log_marginals.is_floating_point():
        raise InputTypeError(f"the log marginals have dtype {log_marginals.dtype}, expected floating point numbers.")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise InputTypeError(f"the labels have dtype {labels.dtype}, expected integers. Use labels.long().")
    shape = tuple(log_marginals.shape)
    if log_marginals.ndim < 3 or shape[1] == 0:
        raise InputError(f"the log marginals have shape {shape}, expected (batch, classes, rows, columns).")
    if tuple(labels.shape) != (shape[0], *shape[2:]):
        raise InputError(
            f"the labels have shape {tuple(labels.shape)}, expected {(shape[0], *shape[2:])}: one for each pixel of "
            f"the log marginals {shape}."
        )
    if not torch.compiler.is_compiling() and labels.numel():  # a compiler cannot branch on values
        _check_values(log_marginals.detach(), labels)


def _check_values(log_marginals: Tensor, labels: Tensor) -> None:
    count = log_marginals.shape[1]
    wrong = (labels != VOID) & ((labels < 0) | (labels >= count))
    if bool(wrong.any()):
        raise InputError(
            f"the labels hold {int(labels[wrong][0])}, expected 0 to {count - 1}, or {VOID} for void. Map other values "
            f"to {VOID}, or give the network more outputs."
        )
    most = float(log_marginals.max())
    if math.isnan(most):
        raise InputError("the log marginals hold NaN. Look for NaN in the scores, or lower the rate of learning.")
    if most > _ROUNDING:
        raise InputError(
            f"the log marginals reach {most:.4g}, expected logarithms of probabilities, 0 at most. For scores use "
            "torch.log_softmax(scores, dim=1)."
        )
