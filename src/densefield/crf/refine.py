"""Refinement of masks, probabilities and logits in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from densefield.crf.arrays import checked_ignore, image_array, split_mask
from densefield.crf.kernels import Custom, Kernel
from densefield.crf.model import CRF, PHOTO_KERNELS
from densefield.crf.unary import Unary, unary
from densefield.errors import InputError, InputTypeError
from densefield.labels import Void

if TYPE_CHECKING:  # which needs torch
    from densefield.nn.dense_crf import DenseCRF

ITERATIONS = 5


def refine(
    image: Any,  # (H, W, C) or (H, W)
    *,
    labels: Any = None,  # (H, W)
    probabilities: Any = None,  # (L, H, W), or (H, W)
    logits: Any = None,  # (L, H, W)
    num_classes: int | None = None,
    void: Void = "auto",
    confidence: float = 0.7,
    crf: CRF | DenseCRF | None = None,
    kernels: Sequence[Kernel] | None = None,
    iterations: int | None = None,
    ignore: npt.NDArray[np.bool_] | None = None,  # (H, W)
    spacing: Sequence[float] | None = None,
    data_range: float | Sequence[float] | None = None,
    threads: int | None = None,
) -> npt.NDArray[np.float32]:
    """Probabilities (L, H, W) that follow the edges of the image, from a mask of labels, probabilities, or logits.

    Arrays may be NumPy arrays, Pillow images, torch tensors on the CPU, or anything else with ``__array__``. Masked
    elements of masked arrays are ignored, as with `ignore`.

    Parameters
    ----------
    image
        (H, W, C) or (H, W), colours 0…255; or a volume. A constant alpha channel is ignored.
    labels
        A mask (H, W) of integers or booleans. Labels that do not occur get probability 0. A mask that holds only 0 and
        one of 127, 128, 254, 255 and 65535 is binary: the other value is label 1.
    probabilities
        (L, H, W), or (H, W): the probability of the foreground, label 1.
    logits
        (L, H, W): a network's scores.
    num_classes
        The number of classes of the result, for `labels`; by default the highest label plus one.
    void
        The value of `labels` that means unknown. "auto" is 255, unless there are more than 255 classes. With None every
        value is a label.
    confidence
        Probability that a label of the mask is correct. The other labels of the mask share the rest.
    crf
        A CRF to use instead of `kernels` and `iterations`, such as a tuned one: CRF.load("crf.toml").
    kernels
        By default Spatial(3, weight=3) and Bilateral(60, 10, weight=5).
    iterations
        Number of mean-field iterations, by default 5.
    ignore
        True for pixels that neither send nor receive messages, and may hold any values.
    spacing
        Size of a pixel along x, y(, z), by default 1.
    data_range
        Range of the image's colours, such as 1 or 65535; by default 255, with a warning if the values contradict it.
    threads
        Number of threads, by default all available processors.

    >>> import numpy as np
    >>> image = np.zeros((4, 6, 3), np.uint8)
    >>> image[:, 3:] = 255
    >>> rough = np.array([[0, 0, 0, 0, 1, 1]] * 4)  # one column too wide
    >>> refine(image, labels=rough).argmax(0)[0]
    array([0, 0, 0, 1, 1, 1])
    """
    model = chosen_crf(crf, kernels, iterations, data_range, threads)
    pixels, scores = inputs(image, probabilities, labels, logits, num_classes, void, confidence, ignore)
    q = for_present_labels(model, scores).marginals(scores.scores, pixels, ignore=scores.ignore, spacing=spacing)
    return scores.expand(q)


def inputs(
    image: Any,
    probabilities: Any,
    labels: Any,
    logits: Any,
    num_classes: int | None,
    void: Void,
    confidence: float,
    ignore: npt.NDArray[np.bool_] | None,
) -> tuple[Any, Unary]:
    """The image and the unary scores of the arguments of refine(); masks of masked arrays are added to `ignore`."""
    pixels, masked = split_mask(image)
    if masked is not None:
        given: Any = next((each for each in (probabilities, labels, logits) if each is not None), ())
        axes = np.ndim(given) - (labels is None and np.ndim(given) > 2)
        masked = np.asarray(masked.any(axis=-1)) if masked.ndim > axes else masked
        more = checked_ignore(ignore, masked.shape)
        ignore = masked if more is None else masked | more
    scores = unary(
        probabilities, labels, logits, num_classes=num_classes, void=void, confidence=confidence, ignore=ignore
    )
    if labels is not None:
        _check_label_shape(scores.scores.shape[1:], image_array(pixels).shape)
    return pixels, scores


def _check_label_shape(labels: tuple[int, ...], image: tuple[int, ...]) -> None:
    """Raises unless a mask has the size of the image."""
    if image in (labels, (*labels, image[-1] if image else 0)):
        return
    hint = ""
    if labels[:2] == image[:2] and len(labels) == 3:
        hint = " Use labels[..., 0]." if labels[2] == 1 else " For one-hot labels use labels.argmax(axis=-1)."
    elif labels == image[1:]:
        hint = " The image has its channels first: use numpy.moveaxis(image, 0, -1)."
    elif labels == image[1::-1]:
        hint = " Rows and columns are swapped."
    elif len(labels) == 2 and len(image) in (2, 3):
        hint = (
            f" Resize them without blending, such as by PIL.Image.NEAREST, to {image[0]} rows and {image[1]} columns."
        )
    raise InputError(f"labels have shape {labels}, but the image has {image}: expected {image[:2]}.{hint}")


def for_present_labels(crf: CRF, unary: Unary) -> CRF:
    """The CRF with the weights of the labels that occur."""
    for kernel in crf.kernels:
        weight = np.asarray(kernel.weight)
        if unary.num_classes and weight.ndim and len(weight) != unary.num_classes:
            raise InputError(
                f"the {kernel.name} kernel has weights for {len(weight)} classes, but the mask has "
                f"{unary.num_classes}: pass num_classes={len(weight)}."
            )
    if unary.labels is None or all(np.ndim(kernel.weight) == 0 for kernel in crf.kernels):
        return crf
    return crf.replace(kernels=[kernel.for_labels(unary.labels, unary.num_classes) for kernel in crf.kernels])


def chosen_crf(
    crf: Any,
    kernels: Sequence[Kernel] | None,
    iterations: int | None,
    data_range: float | Sequence[float] | None,
    threads: int | None,
) -> CRF:
    """The CRF to use; its kernels must compare positions and colours only."""
    if crf is None:
        photo = PHOTO_KERNELS if kernels is None else kernels
        model = CRF(photo, iterations=ITERATIONS if iterations is None else iterations)
    elif kernels is not None or iterations is not None:
        raise InputError("got crf= together with kernels= or iterations=, expected one of them: use crf.replace(…).")
    else:
        model = crf.to_numpy() if hasattr(crf, "to_numpy") else crf
        if not isinstance(model, CRF):
            raise InputTypeError(f"crf is a {type(crf).__name__}, expected a CRF. For a file use CRF.load(path).")
    for kernel in model.kernels:
        if isinstance(kernel, Custom):
            raise InputError(
                f"a kernel compares {kernel.feature!r}, but refine has positions and colours alone. Use "
                f"CRF(kernels).solve(scores, image, features={{{kernel.feature!r}: array}})."
            )
    changes = {"data_range": data_range, "threads": threads}
    wanted = {name: value for name, value in changes.items() if value is not None}
    return model.replace(**wanted) if wanted else model
