"""The doctor's look at the result: what changed, what vanished."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from densefield.diagnose.finding import Finding, percent

Labels = npt.NDArray[np.intp]
Array = npt.NDArray[np.floating]

LITTLE = 0.001  # a smaller share of changed pixels is nothing, to the eye
BLANK = 0.999  # a label with this share of the pixels has them all, for the eye


def is_blank(before: Labels) -> bool:
    """Whether the pixels that prefer a label all prefer the same, or there are none."""
    return before.size == 0 or bool(before.min() == before.max())


def blank_before(before: Labels) -> Finding:
    """What an input says that has one label everywhere, or none; `before` holds labels of pixels that prefer one."""
    if before.size == 0:
        return Finding(
            "problem", "No pixel prefers any label, so there is nothing to spread.", "all scores of a pixel are equal"
        )
    return Finding(
        "problem",
        "The input has the same label everywhere, so there is nothing else to spread.",
        f"label {int(before[0])} is best at all {before.size} pixels that prefer one",
        "Check the mask or the probabilities.",
    )


def blank_after(before: Labels, after: Labels, margin: Array, most: Array, sound: bool) -> Iterator[Finding]:
    """One label that took everything, or labels that are gone; `sound` where no problem was found before."""
    labels = int(max(before.max(), after.max())) + 1
    was = np.bincount(before, minlength=labels) / before.size
    now = np.bincount(after, minlength=labels) / after.size
    winner = int(now.argmax())
    shares = f"label {winner} grew from {percent(was[winner])} to {percent(now[winner])} of the pixels"
    if now[winner] > BLANK and was[winner] < 0.99:
        ratio = float(np.median(most) / max(np.median(margin), 1e-12))
        yield Finding(
            "problem",
            f"The result is blank: label {winner} took over.",
            f"{shares}; neighbours can move a score by {np.median(most):.3g}, but the best label leads by only "
            f"{np.median(margin):.3g} (medians)",
            f"Lower the weights, which are {ratio:.2g} times that lead, or take smaller widths, or pass surer scores."
            if sound
            else "Cure the problems above first.",
        )
        return
    gone = [label for label in range(labels) if was[label] > 0 and now[label] == 0]
    if gone:
        named = ", ".join(f"{label} ({percent(was[label])})" for label in gone[:5]) + (", …" if gone[5:] else "")
        yield Finding("note", "Labels disappeared.", f"labels, with their former share of the pixels: {named}")


def summary(before: Labels, after: Labels, moved: Callable[[], float], movable: float, sound: bool) -> Finding:
    """How much changed; `moved` gives the largest change of a marginal, `movable` is the share of pixels that could."""
    changed = float((before != after).mean()) if before.size else 0.0
    what = f"{percent(changed)} of the pixels changed their label."
    if changed >= LITTLE or not before.size:
        return Finding("note", f"No problem found: {what}" if sound else what)
    numbers = f"the largest change of a marginal is {moved():.2g}; {percent(movable)} of the pixels could change at all"
    if not sound:
        return Finding("note", f"{what} The problems above say why.", numbers)
    return Finding(
        "note",
        f"{what} To these kernels the input already follows the image.",
        numbers,
        "Where it does not, lower the confidence, raise the weights, or take wider kernels.",
    )
