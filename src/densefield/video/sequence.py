"""The frames of a folder in their order: names are sorted by their numbers; gaps and equal numbers are errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from densefield.errors import InputError, warn
from densefield.images.pairs import Pair, Pairing
from densefield.io.messages import first_names

NUMBER = re.compile(r"(\d+)")
LAST_NUMBER = re.compile(r"(.*?)(\d+)(\D*)")


def natural_key(name: str) -> tuple[tuple[str, int], ...]:
    """The key that sorts numbers in names by their value.

    >>> sorted(["frame10", "frame2", "frame1"], key=natural_key)
    ['frame1', 'frame2', 'frame10']
    """
    parts = NUMBER.split(name)
    numbers = [int(part) for part in parts[1::2]] + [-1]
    return tuple(zip(parts[::2], numbers, strict=True))


def ordered_pairs(pairing: Pairing) -> list[Pair]:
    """The pairs of frames and masks in their order; raises if one lacks its partner, or if frames are missing."""
    lines = list(pairing.ambiguous)
    for alone, what, cure in (
        (pairing.images_alone, "frames without a mask", "For frames without labels give masks of 255 everywhere."),
        (pairing.masks_alone, "masks without a frame", "Remove them, or add the frames."),
    ):
        if alone:
            names = first_names(sorted((path.name for path in alone), key=natural_key))
            lines.append(f"{what} in {alone[0].parent}: {len(alone)} ({names}). {cure}")
    if lines:
        raise InputError("\n".join(lines))
    pairs = sorted(pairing.pairs, key=lambda pair: natural_key(pair.image.stem))
    check_gaps([pair.image for pair in pairs])
    return pairs


def check_gaps(frames: Sequence[Path]) -> None:
    """Raises if the numbers at the ends of names have a gap, or if two sorted names differ by zeros alone.

    A constant step such as 0, 5, 10, … is none, nor are times in milliseconds; steps of very different lengths are a
    warning.

    >>> check_gaps([Path("f1.png"), Path("f2.png"), Path("f5.png")])
    Traceback (most recent call last):
        ...
    densefield.errors.InputError: frames are missing between f2.png and f5.png: other numbers rise by 1. Add them, or \
refine the parts before and after in folders of their own.
    """
    for before, after in pairwise(frames):
        if natural_key(before.stem) == natural_key(after.stem):
            raise InputError(
                f"{before.name} and {after.name} have the same number, so that their order is unknown: rename or "
                "remove one of them."
            )
    found = [LAST_NUMBER.fullmatch(path.stem) for path in frames]
    names = {None if each is None else (each[1], each[3]) for each in found}
    if None in names or len(names) > 1:  # names of several kinds: their order is all that is known
        return
    numbers = [int(each[2]) for each in found if each is not None]
    steps = [after - before for before, after in pairwise(numbers)]
    least = min(steps, default=1)
    if least < 1:
        return
    if any(step % least for step in steps):  # times in milliseconds
        _warn_of_uneven_steps(frames, steps)
        return
    for index, step in enumerate(steps):
        if step != least:
            raise InputError(
                f"frames are missing between {frames[index].name} and {frames[index + 1].name}: other numbers rise by "
                f"{least}. Add them, or refine the parts before and after in folders of their own."
            )


def _warn_of_uneven_steps(frames: Sequence[Path], steps: Sequence[int]) -> None:
    """Warns if the numbers of two frames are much closer, or farther apart, than others."""
    middle = median(steps)
    odd = [index for index, step in enumerate(steps) if abs(step - middle) > middle / 2]
    if odd:
        first = odd[0]
        warn(
            f"numbers of frames rise by {middle:g} (median), but by {steps[first]} from {frames[first].name} to "
            f"{frames[first + 1].name}, and {len(odd)} of {len(steps)} steps differ by more than half: all steps count "
            "as equally long. If frames are missing, add them, or refine the parts in folders of their own."
        )
