"""Findings about kernels: how many neighbours a pixel has, and how far neighbours can change its scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from densefield.crf.compatibility import checked_weight
from densefield.crf.kernels import Kernel
from densefield.crf.pairwise import Pairwise
from densefield.crf.problem import Problem
from densefield.diagnose.result import Finding, percent
from densefield.filters.threads import check_threads

Array = npt.NDArray[np.floating]

# Default widths are a tenth of the diagonal of a 500-pixel photo. On large photos less than a quarter of that is a
# problem; on small images widths are often small on purpose.
LARGE_PHOTO = 1500.0  # diagonal in pixels
SMALL_REACH, VERY_SMALL_REACH = 40.0, 100.0  # the diagonal over sigma_xy

ISOLATED = 2.0  # Σ_j k(i,j) including k(i,i) = 1: below it, all others together count less than the pixel itself


def neighbourhood(term: Pairwise[Array], calibrate: bool, threads: int | None) -> Array:
    """Σ_j k(i,j), (N,), in any order: the number of neighbours of a pixel, itself included.

    Without calibration the sums of a lattice are too small, by a third in five dimensions.
    """
    count = term.filtering(np.ones_like(term.before))[:, 0]
    if calibrate and term.lattice is not None:
        lattice = term.lattice
        count = count * (lattice.native.calibrated_magnitude(check_threads(threads)) / lattice.magnitude)
    return count


def widths(kernels: Sequence[Kernel], problem: Problem, alike: bool, threads: int | None) -> Iterator[Finding]:
    """Kernels so narrow that pixels have no neighbours, or so wide that all pixels are neighbours.

    If all colours are `alike`, which is another finding, a bilateral kernel is not reported as too wide.
    """
    for kernel, term in zip(kernels, problem.pairwise, strict=True):
        count = neighbourhood(term, False, threads)
        if _isolated(count) > 0.5 or _fewest(count) > 0.25:  # either may be due to the lattice's magnitude
            count = neighbourhood(term, True, threads)
        isolated, fewest = _isolated(count), _fewest(count)
        if isolated > 0.5:
            yield Finding(
                "problem",
                f"The {kernel.name} kernel is so narrow that most pixels have no neighbour that counts.",
                f"at {percent(isolated)} of the pixels all others together count less than the pixel itself; widths "
                f"are {_widths_in_words(kernel)}, and the median pixel is joined to {np.median(count) - 1:.2g} others",
                _cure_for_narrow(kernel),
            )
        elif fewest > 0.5 and not (alike and "channel" in kernel.widths_of_parts()):
            yield Finding(
                "problem",
                f"The {kernel.name} kernel is so wide that every pixel is joined to most of the image, and all "
                "receive the same message.",
                f"nine in ten pixels are joined to at least {percent(min(fewest, 1.0))} of the {len(count)} pixels; "
                f"widths are {_widths_in_words(kernel)}",
                "Take smaller widths.",
            )
        else:
            yield from _reach(kernel, problem.shape)


def _isolated(count: Array) -> float:
    """The share of pixels whose neighbours together count less than the pixel itself."""
    return float((count < ISOLATED).mean())


def _fewest(count: Array) -> float:
    """The share of the image that the tenth of pixels with the fewest neighbours is joined to.

    A large even background alone is no fault.
    """
    return float(np.percentile(count, 10)) / len(count)


def _reach(kernel: Kernel, grid: tuple[int, ...]) -> Iterator[Finding]:
    """A bilateral kernel whose positions play no part, or reach next to nowhere, at this resolution."""
    if kernel.name != "bilateral" or kernel.covariance is not None:
        return
    across = float(np.linalg.norm(grid))
    sigma = np.asarray(kernel.widths_of_parts()["position"], np.float64)
    sides = f"sigma_xy is {sigma.mean():.4g} pixels, the image is {across:.0f} from corner to corner"
    if sigma.min() > 2 * across:
        yield Finding("note", "sigma_xy is so large that pixels of like colour agree across the whole image.", sides)
    elif sigma.max() < across / (SMALL_REACH if across >= LARGE_PHOTO else VERY_SMALL_REACH):
        yield Finding(
            "problem" if across >= LARGE_PHOTO else "note",
            "The widths are small for an image of this size, so agreement does not reach far.",
            sides,
            f"Widths are in pixels of the image. Multiply those of positions by {across / 10 / sigma.mean():.2g}, or "
            f"shrink image and scores to {10 * sigma.mean() / across:.2g} of their size.",
        )


def _widths_in_words(kernel: Kernel) -> str:
    if kernel.covariance is not None:
        return "those of its covariance"
    parts = kernel.widths_of_parts().items()
    return " and ".join(f"{np.asarray(width, np.float64).mean():.4g} for {part}" for part, width in parts)


def _cure_for_narrow(kernel: Kernel) -> str:
    parts = kernel.widths_of_parts()
    if "position" in parts and np.asarray(parts["position"], np.float64).max() < 1:
        return "Take a width of at least a pixel for positions."
    return "Take larger widths; for photos of 500 pixels 60 for positions and 10 for colours are a start."


def weights(kernels: Sequence[Kernel], num_classes: int) -> Iterator[Finding]:
    """Kernels that do nothing, or drive pixels apart."""
    if not kernels:
        yield Finding(
            "problem", "There is no kernel, so nothing joins the pixels.", "kernels = []", "Pass Spatial or Bilateral."
        )
    if kernels and not any(np.any(kernel.weight) for kernel in kernels):
        yield Finding(
            "problem",
            "All kernels have the weight 0, so nothing joins the pixels.",
            f"weights = {[0] * len(kernels)}",
            "Give one a weight above 0, such as 3.",
        )
        return
    for kernel in kernels:
        mu = compatibility_matrix(kernel, num_classes)
        if not mu.any():
            yield Finding("note", f"The {kernel.name} kernel has the weight 0 and does nothing.")
            continue
        others = ~np.eye(num_classes, dtype=bool)
        same, different = float(np.diag(mu).mean()), float(mu[others].mean())
        if same < different:
            yield Finding(
                "problem",
                f"The {kernel.name} kernel drives neighbours apart.",
                f"its weight is {same:.4g} for equal labels and {different:.4g} for different ones, on average",
                "Weights are scores: positive ones for equal labels make neighbours agree. Negate those of energies.",
            )


def compatibility_matrix(kernel: Kernel, num_classes: int) -> npt.NDArray[np.float64]:
    """μ (L, L) of any form of weight."""
    mu = checked_weight(kernel.weight, num_classes)
    return mu if mu.ndim == 2 else np.eye(num_classes) * mu


def largest_message(kernels: Sequence[Kernel], problem: Problem) -> Array:
    """The largest difference of two scores that the messages of all kernels can make, (N,).

    Σ_m (Σ_j k̂_m(i,j)) · max_{a,b,l} (μ_m(a,l) - μ_m(b,l)), reached if all neighbours have the same label l.
    """
    points = problem.scores.shape[1]
    ones = np.ones((points, 1), problem.scores.dtype)
    most = np.zeros(points)
    for kernel, term in zip(kernels, problem.pairwise, strict=True):
        mu = compatibility_matrix(kernel, len(problem.scores))
        most += term.smooth(ones)[:, 0] * float(np.ptp(mu, axis=0).max())
    return problem.on_grid(most)


def margins(scores: Array) -> Array:
    """The best score of each pixel less the second best, (N,), for scores (L, N)."""
    second, best = np.partition(scores, -2, axis=0)[-2:]
    margin: Array = best - second
    return margin


def overconfident(margin: Array, most: Array) -> Iterator[Finding]:
    """Scores so confident that neighbours cannot change a label."""
    movable = float((margin < most).mean())
    if movable >= 0.01 or not most.any():
        return
    factor = float(np.percentile(margin, 10) / max(np.median(most), 1e-12))
    yield Finding(
        "problem",
        "The scores are so confident that neighbours can change the label of hardly any pixel.",
        f"the best label leads by {np.median(margin):.3g} (median), neighbours can move a score by "
        f"{np.median(most):.3g}; {percent(movable)} of the pixels can change at all",
        f"Lower the confidence, or divide the scores by a temperature, or raise the weights {factor:.2g}-fold.",
    )
