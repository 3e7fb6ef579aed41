"""Refinement of masks, probabilities and logits in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from densefield.crf.arrays import checked_numbers, image_array
from densefield.crf.kernels import Custom, Kernel
from densefield.crf.label_mask import expanded
from densefield.crf.model import CRF, PHOTO_KERNELS
from densefield.crf.unary import Unary, only_input, unary
from densefield.errors import InputError, InputTypeError
from densefield.filters.threads import check_threads
from densefield.labels import Void
from densefield.refinement.mask_input import (
    check_label_shape,
    mask_input,
    refined_mask,
    split_image,
    warn_of_range,
    without_edges,
)
from densefield.refinement.scores import possible_labels, score_kernels, with_colours

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
    roughness: float | None = None,
    temperature: float | None = None,
    confidence: float | None = None,
    crf: CRF | DenseCRF | None = None,
    kernels: Sequence[Kernel] | None = None,
    iterations: int | None = None,
    ignore: npt.NDArray[np.bool_] | None = None,  # (H, W)
    spacing: Sequence[float] | None = None,
    data_range: float | Sequence[float] | None = None,
    threads: int | None = None,
) -> npt.NDArray[np.float32]:
    """Probabilities (L, H, W) that follow the edges of the image, from a mask of labels, probabilities, or logits.

    How far the edges of a mask may move depends on how rough it is, which is estimated from mask and image. Parameters
    were learnt on photos.

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
    roughness
        How far the edges of `labels` lie from the true ones, in pixels; estimated by default. 1 is for masks that are
        nearly exact.
    temperature
        Number by which logits, or logarithms of probabilities, are divided: above 1 for overconfident networks.
    confidence
        Probability that a label of the mask is correct, at every pixel alike; the other labels of the mask share the
        rest. This is the usual model of dense CRFs, which replaces the estimate of roughness. `kernels` and `crf` use
        it too, with 0.7 by default.
    crf
        A CRF to use instead of `kernels` and `iterations`, such as a tuned one: CRF.load("crf.toml").
    kernels
        Kernels to use instead of the learnt ones.
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
    >>> image = np.zeros((20, 30, 3), np.uint8)
    >>> image[:, 12:] = 255
    >>> rough = np.zeros((20, 30), np.uint8)
    >>> rough[:, 15:] = 1  # three columns too late
    >>> int(refine(image, labels=rough).argmax(0)[0].argmax())
    12
    """
    check_combination(probabilities, labels, logits, roughness, temperature, confidence, crf, kernels)
    if labels is not None and confidence is None and crf is None and kernels is None:
        pixels, mask = mask_input(image, labels, num_classes, void, ignore)
        found = refined_mask(pixels, mask, roughness, iterations, spacing, data_range, threads)
        if data_range is None:
            warn_of_range(pixels, mask)
        q = without_edges(mask) if found is None else found.marginals
        return expanded(q, mask.labels, mask.num_classes)
    pixels, scores = inputs(image, probabilities, labels, logits, num_classes, void, confidence, temperature, ignore)
    default = crf is None and kernels is None and confidence is None
    if default:
        kernels = score_kernels(scores.scores.shape[1:], spacing)
        scores = possible_labels(scores, check_threads(threads))
    model = for_present_labels(chosen_crf(crf, kernels, iterations, data_range, threads), scores)
    problem = model.problem_with_warnings(scores.scores, pixels, ignore=scores.ignore, spacing=spacing)
    if default:
        problem = with_colours(problem, pixels, model.options, scores.ignore)
    return scores.expand(model.marginals_of(problem))


def check_combination(
    probabilities: object,
    labels: object,
    logits: object,
    roughness: object,
    temperature: object,
    confidence: object,
    crf: object,
    kernels: object,
) -> None:
    """Raises if an argument of refine() is given that has no effect."""
    only_input(probabilities, labels, logits)
    own = [
        name for name, value in {"confidence": confidence, "crf": crf, "kernels": kernels}.items() if value is not None
    ]
    if roughness is not None:
        if labels is None:
            raise InputError("got roughness= without labels=: it is for masks. Use temperature=.")
        if own:
            raise InputError(f"got roughness= together with {own[0]}=, expected one of them.")
    if confidence is not None and labels is None:
        raise InputError("got confidence= without labels=: it is for masks. Use temperature=.")
    if temperature is not None and labels is not None:
        raise InputError("got temperature= with labels=: it is for probabilities and logits. Use roughness=.")


def checked_temperature(temperature: object) -> float:
    """The temperature as a number."""
    value = checked_numbers(temperature, "temperature", "a number above 0")
    if value.ndim or not 0 < value < np.inf:
        raise InputError(f"temperature is {temperature!r}, expected a finite number above 0; 1 has no effect.")
    return float(value)


def inputs(
    image: Any,
    probabilities: Any,
    labels: Any,
    logits: Any,
    num_classes: int | None,
    void: Void,
    confidence: float | None,
    temperature: float | None,
    ignore: npt.NDArray[np.bool_] | None,
) -> tuple[Any, Unary]:
    """The image and the unary scores of the arguments of refine(); masks of masked arrays are added to `ignore`."""
    given: Any = next((each for each in (probabilities, labels, logits) if each is not None), ())
    axes = np.ndim(given) - (labels is None and np.ndim(given) > 2)
    pixels, ignore = split_image(image, axes, ignore)
    scores = unary(
        probabilities,
        labels,
        logits,
        num_classes=num_classes,
        void=void,
        confidence=0.7 if confidence is None else confidence,
        ignore=ignore,
    )
    if labels is not None:
        check_label_shape(scores.scores.shape[1:], image_array(pixels).shape)
    if temperature is not None:
        scores = replace(scores, scores=scores.scores / np.float32(checked_temperature(temperature)))
    return pixels, scores


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
            raise InputTypeError(f"crf is of type {type(crf).__name__}, expected a CRF. For a file use CRF.load(path).")
    for kernel in model.kernels:
        if isinstance(kernel, Custom):
            raise InputError(
                f"a kernel compares {kernel.feature!r}, but refine has positions and colours alone. Use "
                f"CRF(kernels).solve(scores, image, features={{{kernel.feature!r}: array}})."
            )
    changes = {"data_range": data_range, "threads": threads}
    wanted = {name: value for name, value in changes.items() if value is not None}
    return model.replace(**wanted) if wanted else model
