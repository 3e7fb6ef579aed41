"""The doctor's look at what was passed in: axes, colours, scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from densefield.crf.finding import Finding, percent
from densefield.crf.kernels import Kernel
from densefield.crf.refine import VOID

Array = npt.NDArray[np.floating]
Image = npt.NDArray[np.generic]


def axes_in_wrong_order(image: object, unary: object, axis_of_labels: bool) -> Iterator[Finding]:
    """Axes of a flat image and of its scores (or labels) that match only when they are put in another order."""
    if not (isinstance(image, np.ndarray) and isinstance(unary, np.ndarray)):
        return  # inference says what is expected
    if image.ndim not in (2, 3) or unary.ndim != 2 + axis_of_labels:
        return
    grid = unary.shape[1:] if axis_of_labels else unary.shape
    size = image.shape[:2]
    name = "probabilities or scores" if axis_of_labels else "labels"
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
    if axis_of_labels and grid != size and unary.shape[:2] == size:
        yield Finding(
            "problem",
            "The probabilities have the labels last; they belong first.",
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


def colours(image: Image, kernels: Sequence[Kernel], points: int) -> Iterator[Finding]:
    """An image of one colour, or one whose colours differ by less than the width that they are compared with."""
    looking = [kernel for kernel in kernels if "channel" in kernel.widths_of_parts()]
    if not looking:
        return
    low, high = float(image.min()), float(image.max())
    if low == high:
        yield Finding(
            "problem",
            "The image is of one colour, so it has no edges to follow.",
            f"every value is {low:.4g}",
            "Check that the image was read; without one use kernels=[Spatial(3)].",
        )
        return
    for kernel in looking:
        channels = image.reshape(points, -1)
        spans = np.ptp(channels.astype(np.float64), axis=0)
        widths = channel_widths(kernel, len(spans))
        distance = float(np.sqrt(np.square(spans / widths).sum()))
        if distance < 1:
            yield Finding(
                "problem",
                "The colours differ so little, compared with the width, that all pixels count as alike.",
                f"the image ranges from {low:.4g} to {high:.4g}, the {kernel.name} kernel's width is "
                f"{float(widths.mean()):.4g}: its extremes still count {np.exp(-(distance**2) / 2):.2f} of a perfect "
                "match",
                _cure_for_colours(image, low, high),
            )


def _cure_for_colours(image: Image, low: float, high: float) -> str:
    if np.issubdtype(image.dtype, np.floating) and low >= 0 and high <= 1:
        return "Widths are for colours 0…255: pass image * 255."
    if low < 0:
        return "It seems shifted and scaled for a network: pass the original image, 0…255."
    return "Check how the image was read, and scale it to 0…255, or take a sigma_rgb well below its range."


def channel_widths(kernel: Kernel, channels: int) -> npt.NDArray[np.float64]:
    """The widths (C,) of colours, from a covariance where the kernel has one."""
    if kernel.covariance is not None:
        return np.sqrt(np.diag(np.asarray(kernel.covariance, np.float64)))[-channels:]
    return np.broadcast_to(np.asarray(kernel.widths_of_parts()["channel"], np.float64), channels)


def mask_of_labels(labels: npt.NDArray[np.integer]) -> Iterator[Finding]:
    """Masks whose 255 was not meant as "unknown", and masks that know nothing."""
    known = labels[labels != VOID]
    share = 1 - known.size / labels.size
    if known.size == 0:
        yield Finding(
            "problem",
            "Every pixel of the mask is unknown.",
            f"all {labels.size} labels are {VOID}",
            f"Labels count from 0, and {VOID} means unknown. For an object of {VOID} pass (mask > 0).astype('uint8').",
        )
    elif share > 0 and not known.any():
        yield Finding(
            "problem",
            f"The mask holds only 0 and {VOID}, and {VOID} means unknown, not an object.",
            f"{percent(1 - share)} of the pixels are 0, {percent(share)} are {VOID}",
            "Pass labels=(mask > 127).astype('uint8').",
        )


def logits_of_another_kind(logits: Array) -> Iterator[Finding]:
    """Logits that are really probabilities, or energies -log p."""
    f = logits.astype(np.float64)
    if f.min() >= -1e-4 and f.max() <= 1 + 1e-4 and np.allclose(f.sum(0), 1, atol=0.02):
        yield Finding(
            "problem",
            "The logits are probabilities: a second softmax makes them nearly even.",
            f"they are within 0…1 and sum to one at every pixel, so softmax gives no label more than "
            f"{_most_after_softmax(len(f)):.3g}",
            "Pass them as probabilities=.",
        )
        return
    as_energies = np.isclose(np.exp(-np.maximum(f, -50)).sum(0), 1, atol=0.02).mean()
    if as_energies > 0.5:
        yield Finding(
            "problem",
            "The logits are energies, -log p: their sign is the wrong way round, so the worst label wins.",
            f"exp(-logits) sums to one at {percent(float(as_energies))} of the pixels",
            "Pass logits=-energies. Scores are higher for better labels.",
        )


def flat_probabilities(probabilities: Array) -> Iterator[Finding]:
    """Probabilities that are a softmax of probabilities, found by undoing it.

    If p = softmax(s) and Σ_l s_l = 1, then s_l = log p_l + (1 - Σ_l′ log p_l′)/L. If that s is within 0…1 everywhere
    and reaches one somewhere, p was softmaxed twice.
    """
    logs = np.log(np.maximum(probabilities.astype(np.float64), 1e-12))
    s = logs + (1 - logs.sum(0)) / len(logs)
    top, most = float(probabilities.max()), _most_after_softmax(len(logs))
    numbers = f"no label has more than {top:.3g} at any pixel; a softmax of probabilities reaches {most:.3g} at most"
    if s.min() >= -0.02 and 0.95 <= s.max() <= 1.02:  # two hundredths for probabilities in half precision
        yield Finding(
            "problem",
            "The probabilities look as if softmax had been taken twice.",
            f"{numbers}, and undoing it gives numbers from {s.min():.2f} to {s.max():.2f} that sum to one",
            "Pass what the first softmax gave, or the network's own scores as logits=.",
        )
    elif top <= most and np.ptp(probabilities) > 1e-4:
        yield Finding("note", "The probabilities are nearly even everywhere, so neighbours decide.", numbers)


def _most_after_softmax(labels: int) -> float:
    """The most that softmax gives to a label where its input is within 0…1: e/(e + L - 1)."""
    return float(np.e / (np.e + labels - 1))
