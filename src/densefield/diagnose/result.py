"""Findings, and those about the result of refinement: what changed, and what vanished."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.intp]
Array = npt.NDArray[np.floating]
Severity = Literal["problem", "note"]

LITTLE = 0.001  # a smaller share of changed pixels is invisible
BLANK = 0.999  # a label with a larger share of the pixels looks like all of them


@dataclass(frozen=True)
class Finding:
    """One finding.

    Parameters
    ----------
    severity
        "problem" for a cause of a blank, unchanged or wrong result; "note" for the rest.
    what
        The finding in a sentence.
    numbers
        The numbers that show it.
    cure
        What to do about it.

    >>> print(Finding("problem", "Inference makes no iteration.", "iterations = 0", "Use 5 iterations."))
    problem: Inference makes no iteration.
      seen: iterations = 0
      cure: Use 5 iterations.
    """

    severity: Severity
    what: str
    numbers: str = ""
    cure: str = ""

    def __str__(self) -> str:
        lines = [f"{self.severity}: {self.what}"]
        if self.numbers:
            lines.append(f"  seen: {self.numbers}")
        if self.cure:
            lines.append(f"  cure: {self.cure}")
        return "\n".join(lines)


def percent(share: float) -> str:
    """A share as a percentage; never rounds to 0% or 100%.

    >>> percent(0.256), percent(0.0001), percent(0.0), percent(0.99999)
    ('25.6%', 'less than 0.1%', '0%', 'more than 99.9%')
    """
    if 0 < share < 0.001:
        return "less than 0.1%"
    if 0.999 < share < 1:
        return "more than 99.9%"
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


def is_blank(before: Labels) -> bool:
    """Whether all pixels that prefer a label prefer the same one, or none prefers any."""
    return before.size == 0 or bool(before.min() == before.max())


def blank_before(before: Labels) -> Finding:
    """The finding for an input with one label everywhere, or none; `before` holds labels of pixels that prefer one."""
    if before.size == 0:
        return Finding(
            "problem", "No pixel prefers any label, so there is nothing to spread.", "all scores of a pixel are equal"
        )
    return Finding(
        "problem",
        "The input has the same label everywhere, so there is nothing else to spread.",
        f"label {int(before[0])} has the highest score at all {before.size} pixels without ties",
        "Check the mask or the probabilities.",
    )


def blank_after(before: Labels, after: Labels, margin: Array, most: Array, sound: bool) -> Iterator[Finding]:
    """One label at all pixels, or labels that vanished; `sound` if no problem was found before."""
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
            f"Lower the weights, which are {ratio:.2g} times that lead, or take smaller widths, or pass more confident "
            "scores."
            if sound
            else "Cure the problems above first.",
        )
        return
    yield from vanished(before, after)


def vanished(before: Labels, after: Labels) -> Iterator[Finding]:
    """Labels that no pixel has any more."""
    labels = int(max(before.max(initial=0), after.max(initial=0))) + 1
    was = np.bincount(before, minlength=labels) / max(before.size, 1)
    now = np.bincount(after, minlength=labels)
    gone = [label for label in range(labels) if was[label] > 0 and now[label] == 0]
    if gone:
        named = ", ".join(f"{label} ({percent(was[label])})" for label in gone[:5]) + (", …" if gone[5:] else "")
        yield Finding("note", "Labels disappeared.", f"labels, with their former share of the pixels: {named}")


def summary(before: Labels, after: Labels, moved: Callable[[], float], movable: float, sound: bool) -> Finding:
    """How much changed; `moved` returns the largest change of a marginal, `movable` is the share that can change."""
    changed = float((before != after).mean()) if before.size else 0.0
    what = f"{percent(changed)} of the pixels changed their label."
    if changed >= LITTLE or not before.size:
        return Finding("note", f"No problem found: {what}" if sound else what)
    numbers = f"the largest change of a marginal is {moved():.2g}; {percent(movable)} of the pixels can change at all"
    if not sound:
        return Finding("note", f"{what} The problems above say why.", numbers)
    return Finding(
        "note",
        f"{what} To these kernels the input already follows the image.",
        numbers,
        "Where it does not, lower the confidence, raise the weights, or take wider kernels.",
    )
