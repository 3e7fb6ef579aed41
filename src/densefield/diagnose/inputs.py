"""Findings about inputs: axes, colours, masks and scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from densefield.crf.image_range import range_problem
from densefield.crf.kernels import Kernel, channel_widths
from densefield.crf.unary import kind_of_scores
from densefield.diagnose.result import Finding, percent
from densefield.labels import Void, binary_foreground, void_value

Array = npt.NDArray[np.floating]
Image = npt.NDArray[np.generic]

SAMPLE = 1 << 14  # pixels that suffice to recognise probabilities


def axes_in_wrong_order(image: object, unary: object, has_class_axis: bool) -> Iterator[Finding]:
    """Axes of a 2-D image and of its scores or labels that match only in another order."""
    if not (isinstance(image, np.ndarray) and isinstance(unary, np.ndarray)) or unary.shape == image.shape[:2]:
        return  # inference raises the error
    if image.ndim not in (2, 3) or unary.ndim != 2 + has_class_axis:
        return
    grid = unary.shape[1:] if has_class_axis else unary.shape
    size = image.shape[:2]
    name = "probabilities or scores" if has_class_axis else "labels"
    shapes = f"the image is {image.shape}, the {name} are {unary.shape}"
    if grid == size:
        return
    image_first = image.ndim == 3 and image.shape[1:] in (grid, unary.shape[:2])
    if image_first:
        yield Finding(
            "problem",
            "The image has its channels first; they belong last.",
            shapes,
            "Use numpy.moveaxis(image, 0, -1).",
        )
        size = image.shape[1:]
    if has_class_axis and grid != size and unary.shape[:2] == size:
        yield Finding(
            "problem",
            "The probabilities have the classes last; they belong first.",
            shapes,
            "Use numpy.moveaxis(probabilities, -1, 0).",
        )
    elif grid != size and grid == size[::-1]:
        yield Finding(
            "problem",
            f"Rows and columns of the {name} are swapped.",
            shapes,
            "Use numpy.swapaxes(array, -1, -2) on one of the two; rows come before columns.",
        )


def colours(channels: Image, kernels: Sequence[Kernel], checked: bool) -> Iterator[Finding]:  # (N, C)
    """An image of a single colour, in another range than 0…255, or with colours closer than the kernel's width.

    With `checked` the range of the image is known, and the widths of the kernels are in its unit.
    """
    bilateral = [kernel for kernel in kernels if "channel" in kernel.widths_of_parts()]
    if not bilateral or not channels.size:
        return
    low, high = float(channels.min()), float(channels.max())
    if low == high:
        yield Finding(
            "problem",
            "The image is of one colour, so it has no edges to follow.",
            f"every value is {low:.4g}",
            "Check that the image was read; without one use kernels=[Spatial(3)].",
        )
        return
    widths = [channel_widths(kernel, channels.shape[1]) for kernel in bilateral]
    narrowest = min(float(each.min()) for each in widths)
    problem = None if checked else range_problem(low, high, narrowest, np.issubdtype(channels.dtype, np.integer))
    if problem is not None:
        yield Finding(
            "problem",
            "The image is probably not in the range 0…255 that widths of colours refer to.",
            f"{problem.what}; sigma_rgb is {narrowest:.4g}",
            problem.cure,
        )
        return
    spans = channels.max(axis=0).astype(np.float64) - channels.min(axis=0)
    for kernel, width in zip(bilateral, widths, strict=True):
        distance = float(np.sqrt(np.square(spans / width).sum()))
        if distance < 1:
            yield Finding(
                "problem",
                "The colours differ so little, compared with the width, that all pixels count as alike.",
                f"the image ranges from {low:.4g} to {high:.4g}, the {kernel.name} kernel's width is "
                f"{float(width.mean()):.4g}: its extremes still count {np.exp(-(distance**2) / 2):.2f} of a perfect "
                "match",
                "Check how the image was read, and scale it to 0…255, or take a sigma_rgb well below its range.",
            )


def mask_of_labels(given: object, num_classes: int | None, void: Void) -> Iterator[Finding]:
    """Masks without a known label, binary masks, and masks whose 255 was not meant as "unknown"."""
    labels = np.asarray(given)
    foreground = binary_foreground(labels, num_classes, void)
    if foreground is not None:
        yield Finding(
            "note",
            f"The mask is binary: {foreground} is label 1.",
            f"it holds {' and '.join(str(value) for value in np.unique(labels))} only",
            f"Where {foreground} means something else, pass num_classes= or void=.",
        )
        return
    unknown = void_value(void, labels, num_classes)
    if unknown is None:
        return
    known = labels[labels != unknown]
    share = 1 - known.size / labels.size
    if known.size == 0:
        yield Finding(
            "problem",
            "Every pixel of the mask is unknown.",
            f"all {labels.size} labels are {unknown}",
            f"Labels count from 0, and {unknown} means unknown. For an object of {unknown} pass labels=mask > 0.",
        )
    elif share > 0 and not known.any() and unknown:
        yield Finding(
            "problem",
            f"The mask holds only 0 and {unknown}, and {unknown} means unknown, not an object.",
            f"{percent(1 - share)} of the pixels are 0, {percent(share)} are {unknown}",
            "For a binary mask pass labels=mask > 0.",
        )


def logits_of_another_kind(scores: Array) -> Iterator[Finding]:  # (L, N)
    """Logits that are really probabilities, or energies -log p."""
    kind = kind_of_scores(scores)
    if kind == "probabilities":
        yield Finding(
            "problem",
            "The logits are probabilities: a second softmax makes them nearly even.",
            f"they are within 0…1 and sum to one, so softmax gives no label more than "
            f"{_most_after_softmax(len(scores)):.3g}",
            "Pass them as probabilities= of refine, or their logarithms as scores.",
        )
    elif kind == "energies":
        yield Finding(
            "problem",
            "The logits are energies, -log p: their sign is the wrong way round, so the worst label wins.",
            "exp(-logits) sums to one",
            "Pass logits=-energies. Scores are higher for better labels.",
        )


def flat_probabilities(logs: Array) -> Iterator[Finding]:  # (L, N)
    """Probabilities, given by their logarithms, that are a softmax of probabilities, found by undoing it.

    If p = softmax(s) and Σ_l s_l = 1, then s_l = log p_l + (1 - Σ_l′ log p_l′)/L. If that s is within 0…1 everywhere
    and reaches one somewhere, p was softmaxed twice. A sample of the pixels is checked.
    """
    sample = logs[:, :: max(1, logs.shape[1] // SAMPLE)].astype(np.float64)
    s = sample + (1 - sample.sum(0)) / len(sample)
    top, most = float(np.exp(sample.max())), _most_after_softmax(len(sample))
    numbers = f"no label has more than {top:.3g} at any pixel; a softmax of probabilities reaches {most:.3g} at most"
    if s.min() >= -0.02 and 0.95 <= s.max() <= 1.02:  # two hundredths for probabilities in half precision
        yield Finding(
            "problem",
            "The probabilities look as if softmax had been taken twice.",
            f"{numbers}, and undoing it gives numbers from {s.min():.2f} to {s.max():.2f} that sum to one",
            "Pass what the first softmax gave, or the network's own scores as logits=.",
        )
    elif top <= most and np.ptp(sample) > 1e-4:
        yield Finding("note", "The probabilities are nearly even everywhere, so neighbours decide.", numbers)


def _most_after_softmax(num_classes: int) -> float:
    """The most that softmax gives to a label where its input is within 0…1: e/(e + L - 1)."""
    return float(np.e / (np.e + num_classes - 1))
