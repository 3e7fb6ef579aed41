"""Refining masks in files: one pair, or folders of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from densefield.crf.crf import PHOTO_KERNELS
from densefield.crf.doctor import explain
from densefield.crf.doctor_inputs import axes_in_wrong_order
from densefield.crf.finding import Finding
from densefield.crf.kernels import Kernel
from densefield.crf.refine import refine
from densefield.errors import DensefieldError, InputError
from densefield.files.images import Pixels, read_image
from densefield.files.masks import Form, Mask, read_mask
from densefield.files.outputs import write_result
from densefield.files.pairs import Pair, Pairing, pair_up
from densefield.files.preview import preview, write_preview
from densefield.filters.threads import check_threads


@dataclass(frozen=True)
class Settings:
    """How masks are read and refined; the same for every pair."""

    kernels: Sequence[Kernel] = PHOTO_KERNELS
    iterations: int = 5
    confidence: float = 0.7
    num_labels: int | None = None
    logits: bool = False  # arrays hold logits
    soft: bool = False  # grey pictures hold the probability of label 1
    explain: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of one pair: an error, or none; and what the doctor found, where asked for."""

    pair: Pair
    form: Form | None = None  # of the mask, once it is read
    findings: tuple[Finding, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Refined:
    """What became of all pairs, in the order of their names, and of what was not a pair."""

    outcomes: tuple[Outcome, ...]
    skipped: tuple[Pair, ...]  # whose results were there already
    pairing: Pairing

    @property
    def failures(self) -> list[str]:
        """Why each failed pair failed, with its files' names; masks without an image are among them."""
        alone = [f"{mask}: no image has this name." for mask in self.pairing.masks_alone]
        failed = [outcome.error for outcome in self.outcomes if outcome.error is not None]
        return [*failed, *self.pairing.ambiguous, *alone]


def refine_files(
    image: Path,
    mask: Path,
    out: Path,
    settings: Settings | None = None,
    *,
    preview: Path | None = None,
    form: str = "png",
    skip_existing: bool = False,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Refined:
    """Refines the mask of one image, or of every image of a folder, and writes the results.

    A lone pair uses all threads. Of several pairs, as many as there are threads are refined at a time, each on one. A
    pair that fails is reported in what is returned, and the others go on. `progress` is called with the number of
    pairs done and of all pairs.
    """
    how = settings or Settings()
    count = check_threads(threads)
    pairing = pair_up(image, mask, out, preview, form)
    skipped = [pair for pair in pairing.pairs if skip_existing and pair.out.exists()]
    todo = sorted(set(pairing.pairs) - set(skipped), key=lambda pair: pair.out)
    outcomes: list[Outcome] = []
    for outcome in _run(todo, how, count):
        outcomes.append(outcome)
        if progress is not None:
            progress(len(outcomes), len(todo))
    return Refined(tuple(outcomes), tuple(skipped), pairing)


def _run(pairs: Sequence[Pair], settings: Settings, threads: int) -> Iterator[Outcome]:
    """Outcomes in the order of the pairs."""
    if len(pairs) < 2:
        yield from (refine_pair(pair, settings, threads) for pair in pairs)
        return
    pool = ThreadPoolExecutor(min(threads, len(pairs)))
    try:
        yield from pool.map(lambda pair: refine_pair(pair, settings, 1), pairs)
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, what has begun is finished, and no more is begun


def refine_pair(pair: Pair, settings: Settings, threads: int | None = None) -> Outcome:
    """Refines one pair; what goes wrong is in the outcome."""
    form: Form | None = None
    findings: tuple[Finding, ...] = ()
    try:
        mask = read_mask(pair.mask, logits=settings.logits, soft=settings.soft, num_labels=settings.num_labels)
        form = mask.form
        image = read_image(pair.image, mask.size)
        if settings.explain:  # before the size is checked: what is the matter may be the order of axes
            findings = tuple(axes_in_wrong_order(image, mask.values, mask.values.ndim == 3))
        _check_size(pair, image, mask)
        arguments = _arguments(mask, settings, threads)
        if settings.explain:
            findings = tuple(explain(image, **arguments))
        probabilities = refine(image, **arguments)
        write_result(pair.out, probabilities, mask)
        if pair.preview is not None:
            after = probabilities.argmax(axis=0)
            write_preview(pair.preview, preview(image, mask.labels(), after, mask.palette))
    except (DensefieldError, OSError, MemoryError) as error:
        reason = str(error) or type(error).__name__
        named = str(pair.mask) in reason or str(pair.image) in reason
        return Outcome(pair, form, findings, reason if named else f"{pair.mask}: {reason}")
    return Outcome(pair, form, findings)


def _arguments(mask: Mask, settings: Settings, threads: int | None) -> dict[str, Any]:
    """What `refine` and `explain` are called with, the image apart."""
    labels = 2 if mask.form == "object" and settings.num_labels is None else settings.num_labels
    return {
        **mask.unary(),
        "num_labels": labels,
        "confidence": settings.confidence,
        "kernels": settings.kernels,
        "iterations": settings.iterations,
        "threads": threads,
    }


def _check_size(pair: Pair, image: Pixels, mask: Mask) -> None:
    if image.shape[:2] == mask.size:
        return
    message = (
        f"{pair.image} has {image.shape[1]} × {image.shape[0]} pixels (width × height), but {pair.mask} has "
        f"{mask.size[1]} × {mask.size[0]}: expected the same size."
    )
    if mask.values.ndim == 3 and mask.values.shape[:2] == image.shape[:2]:
        raise InputError(f"{message} Its labels come last: use numpy.moveaxis(array, -1, 0).")
    raise InputError(f"{message} Resize the mask without blending its labels.")
