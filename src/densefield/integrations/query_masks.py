"""Scores of every class at every pixel from the outputs of the segmentation models of transformers.

Models such as SegFormer and UPerNet return one logit for each class and coarse pixel. Models such as MaskFormer,
Mask2Former, OneFormer and EoMT return queries: each has logits of classes, the last of which means that the query shows
nothing, and a mask of logits. Semantic inference adds the masks of a class up, weighted by its probability.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from densefield.errors import InputError, InputTypeError
from densefield.networks.upsampling import Size, resize

# Added to the sums of masks before the logarithm: a class without any mask has the score log(1e-4) = -9.2.
FLOOR = 1e-4


def semantic_scores(outputs: Any, size: Size | None = None, *, floor: float = FLOOR) -> Tensor:
    """Scores (B, L, H, W) from the output of a segmentation model of transformers, for a CRF.

    Logits of pixels are resized. For queries q with class logits c and mask logits m, the scores are
    log(Σ_q softmax(c_q)_l · sigmoid(m_q) + floor), without the class "nothing", which is the last one. The sums have
    the resolution of the masks and are resized before the logarithm, as `post_process_semantic_segmentation` does for
    MaskFormer.

    Parameters
    ----------
    outputs
        The output of the model: an object with ``logits`` (B, L, h, w), or with ``class_queries_logits`` (B, Q, L + 1)
        and ``masks_queries_logits`` (B, Q, h, w).
    size
        Rows and columns of the scores; by default those of the output.
    floor
        Added to the sums before the logarithm, more than 0. It bounds how strongly a query can reject a class, and lets
        the CRF decide where no query has a mask.

    >>> import torch
    >>> from types import SimpleNamespace
    >>> mask = torch.tensor([[[[9.0, -9.0]]]])  # one query: its mask is the left pixel
    >>> classes = torch.tensor([[[0.0, 9.0, 0.0]]])  # of class 1 of 2
    >>> outputs = SimpleNamespace(class_queries_logits=classes, masks_queries_logits=mask)
    >>> semantic_scores(outputs).exp().round(decimals=2)[0, 1]
    tensor([[1., 0.]])
    >>> semantic_scores(SimpleNamespace(logits=torch.zeros(2, 21, 16, 16)), size=(64, 60)).shape
    torch.Size([2, 21, 64, 60])
    """
    classes, masks = _found(outputs, "class_queries_logits"), _found(outputs, "masks_queries_logits")
    if classes is not None and masks is not None:
        if not isinstance(floor, int | float) or not floor > 0:
            raise InputError(f"floor is {floor!r}, expected a number above 0, such as {FLOOR}.")
        sums = _semantic_sums(classes, masks)
        return torch.log(resize(sums, size or _size(sums)) + floor)
    logits = _found(outputs, "logits")
    if logits is None or logits.ndim != 4 or not logits.is_floating_point():
        came = "" if logits is None else f" with logits of shape {tuple(logits.shape)}"
        raise InputTypeError(
            f"the output is of type {type(outputs).__name__}{came}, expected the output of a model for semantic "
            "segmentation: with logits (batch, classes, rows, columns), or with class_queries_logits and "
            "masks_queries_logits" + (": call the model with return_dict=True." if isinstance(outputs, tuple) else ".")
        )
    return resize(logits, size or _size(logits))


def _semantic_sums(
    classes: Tensor,  # (B, Q, L + 1) logits; the last class is "nothing"
    masks: Tensor,  # (B, Q, h, w) logits
) -> Tensor:  # (B, L, h, w)
    """The masks of each class, added up and weighted by the class probabilities of their queries."""
    if classes.ndim != 3 or masks.ndim != 4 or classes.shape[:2] != masks.shape[:2] or classes.shape[2] < 2:
        raise InputError(
            f"the class logits have shape {tuple(classes.shape)} and the mask logits {tuple(masks.shape)}, expected "
            "(batch, queries, classes + 1) and (batch, queries, rows, columns)."
        )
    probabilities = classes.float().softmax(dim=-1)[..., :-1]
    return torch.einsum("bql,bqhw->blhw", probabilities, masks.float().sigmoid())


def _size(scores: Tensor) -> Size:
    return scores.shape[-2], scores.shape[-1]


def _found(outputs: Any, name: str) -> Tensor | None:
    """A tensor of the output of a model, by its name; None if there is none."""
    found = outputs.get(name) if isinstance(outputs, Mapping) else getattr(outputs, name, None)
    return found if isinstance(found, Tensor) else None
