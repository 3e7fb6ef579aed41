"""Refining masks in files: one pair, or folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.crf.model import CRF
from densefield.diagnose.explain import explain
from densefield.diagnose.inputs import axes_in_wrong_order
from densefield.diagnose.result import Finding
from densefield.errors import InputError
from densefield.filters.threads import check_threads
from densefield.images.masks import ARRAYS, Form, Mask, read_mask
from densefield.images.pairs import Pair, Pairing, pair_up
from densefield.images.preview import draw_preview
from densefield.images.reading import Pixels, read_image
from densefield.images.writing import ClassNumbers, best_labels, write_png, write_result
from densefield.io.messages import failure_line
from densefield.io.progress import Progress
from densefield.io.untrusted import check_array
from densefield.labels import Void
from densefield.metrics.decoding import DecodingMetric
from densefield.refinement.refine import refine
from densefield.volumes.refining import refine_file

MANY_CLASSES = 256
DATA_RANGE = 255.0  # read_image() scales every image to 0…255


@dataclass(frozen=True)
class RefineSettings:
    """How masks are read and refined.

    Parameters
    ----------
    crf
        A CRF to use instead of the learnt one.
    iterations
        Number of mean-field iterations, without `crf`; by default 5.
    roughness
        Distance of a mask's edges from the true ones in pixels; estimated by default.
    temperature
        Divisor of logits and of logarithms of probabilities.
    confidence
        Probability that a label of a mask is correct, in place of the estimate of roughness.
    decode
        What labels of pictures are chosen for: "accuracy", "iou" or "dice", see `densefield.metrics.decode`.
    num_classes
        The number of classes; by default one more than the highest label of each mask.
    void
        The value of unknown pixels in masks; "auto" is 255, None is no value.
    logits
        Arrays hold logits instead of probabilities.
    soft
        Grey pictures hold the probability of label 1.
    explain
        Diagnose each pair with `densefield.explain`.
    window, spacing, tile
        For volumes and rasters, see `densefield.volumes.refine_file`.

    >>> RefineSettings(num_classes=21).decode
    'accuracy'
    """

    crf: CRF | None = None
    iterations: int | None = None
    roughness: float | None = None
    temperature: float | None = None
    confidence: float | None = None
    decode: DecodingMetric = "accuracy"
    num_classes: int | None = None
    void: Void = "auto"
    logits: bool = False
    soft: bool = False
    explain: bool = False
    window: tuple[float, float] | None = None
    spacing: tuple[float, ...] | None = None
    tile: int | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of one pair: its error, if any, and the findings of `explain`, if requested."""

    pair: Pair
    form: Form | None = None  # of the mask, if it could be read
    findings: tuple[Finding, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class RefinedFiles:
    """The outcome of `refine_files`.

    Parameters
    ----------
    outcomes
        The outcomes of all refined pairs in the order of their names: `error` is None for a written result.
    skipped
        The pairs whose results exist already.
    pairing
        All pairs, and the files that belong to no pair.
    """

    outcomes: tuple[Outcome, ...]
    skipped: tuple[Pair, ...]
    pairing: Pairing

    @property
    def failures(self) -> list[str]:
        """One line for each failed file and each mask without an image: name and reason."""
        return [outcome.error for outcome in self.outcomes if outcome.error is not None] + _unpaired(self.pairing)


def _unpaired(pairing: Pairing) -> list[str]:
    """One line for each mask without exactly one image."""
    return [*pairing.ambiguous, *(f"{mask}: no image has this name." for mask in pairing.masks_alone)]


def refine_files(
    image: Path,
    mask: Path,
    out: Path,
    settings: RefineSettings | None = None,
    *,
    preview: Path | None = None,
    format: str | None = None,
    recursive: bool = False,
    mask_suffix: str = "",
    skip_existing: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    failed: Callable[[str], None] | None = None,
) -> RefinedFiles:
    """Refine the mask of one image, or of every image of a folder, and write the results.

    A single pair uses all threads. Several pairs are refined in parallel, one thread each. A pair that fails is
    reported in the result, and the others continue.

    Parameters
    ----------
    image, mask
        Two files, or two folders in which cat.jpg is paired with cat.png.
    out, preview
        Where results and previews are written: files for two files, folders for two folders.
    settings
        How masks are read and refined.
    format
        The format of a folder's results: "png", "tif", "npy" or "npz"; by default tif for tif masks, else png.
    recursive
        Search subfolders too; results are in subfolders of the same names.
    mask_suffix
        The suffix of mask names: with "_mask", cat.jpg is paired with cat_mask.png, also in the same folder.
    skip_existing
        Skip pairs whose result exists.
    threads
        Number of threads, by default all processors.
    progress
        Called with the number of finished pairs and the total.
    failed
        Called with one line for each failed file, as soon as it fails.

    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as name:
    ...     image, mask, out = (Path(name, file) for file in ("cat.jpg", "cat.png", "refined.png"))
    ...     Image.new("RGB", (30, 20)).save(image)
    ...     Image.fromarray(np.eye(20, 30, dtype=np.uint8)).save(mask)
    ...     refine_files(image, mask, out).failures, out.exists()
    ([], True)
    """
    settings = settings or RefineSettings()
    count = check_threads(threads)
    pairing = pair_up(image, mask, out, preview, format, recursive=recursive, mask_suffix=mask_suffix)
    skipped = [pair for pair in pairing.pairs if skip_existing and pair.out.exists()]
    todo = sorted(set(pairing.pairs) - set(skipped), key=lambda pair: pair.out)
    if failed is not None:
        for line in _unpaired(pairing):
            failed(line)
    if progress is not None:
        progress(0, len(todo))
    outcomes: list[Outcome] = []
    of_tiles = progress if todo and pairing.is_volume else None
    for outcome in _refine_pairs(todo, settings, count, of_tiles):
        outcomes.append(outcome)
        if failed is not None and outcome.error is not None:
            failed(outcome.error)
        if progress is not None and of_tiles is None:
            progress(len(outcomes), len(todo))
    return RefinedFiles(tuple(outcomes), tuple(skipped), pairing)


def _refine_pairs(
    pairs: Sequence[Pair], settings: RefineSettings, threads: int, progress: Progress | None
) -> Iterator[Outcome]:
    """Outcomes in the order of the pairs; volumes, which take much memory, one at a time."""
    if len(pairs) < 2 or any(pair.is_volume for pair in pairs):
        yield from (refine_pair(pair, settings, threads, progress) for pair in pairs)
        return
    pool = ThreadPoolExecutor(min(threads, len(pairs)))
    try:
        yield from pool.map(lambda pair: refine_pair(pair, settings, 1), pairs)
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, running pairs finish and no others start


def refine_pair(
    pair: Pair, settings: RefineSettings, threads: int | None = None, progress: Progress | None = None
) -> Outcome:
    """Refine one pair; an error of any type becomes one line of the outcome. `progress` is that of a volume's tiles."""
    form: Form | None = None
    findings: tuple[Finding, ...] = ()
    try:
        if pair.is_volume:
            return Outcome(pair, _refine_volume(pair, settings, threads, progress))
        _check_photo_settings(settings)
        mask = read_mask(
            pair.mask,
            logits=settings.logits,
            soft=settings.soft,
            num_classes=settings.num_classes,
            void=settings.void,
        )
        form = mask.form
        image = read_image(pair.image, mask.size)
        if settings.explain:  # before the size is checked, since the order of axes may be wrong
            findings = tuple(axes_in_wrong_order(image, mask.values, mask.values.ndim == 3))
        _check_size(pair, image, mask)
        if settings.explain:
            findings = tuple(explain(image, **_arguments(mask, settings, threads)))
        _check_memory(pair, mask, settings)
        probabilities, numbers = _refined(image, mask, settings, threads, pair.out.suffix.lower() not in ARRAYS)
        write_result(pair.out, probabilities, mask, numbers, settings.decode)
        if pair.preview is not None:
            after = best_labels(probabilities, numbers, settings.decode)
            write_png(pair.preview, draw_preview(image, mask.labels(), after, mask.palette))
    except ModuleNotFoundError:  # the other pairs need the library too
        raise
    except Exception as error:  # one damaged file must not stop a folder
        return Outcome(pair, form, findings, failure_line(error, pair.mask, pair.image))
    return Outcome(pair, form, findings)


def _refine_volume(pair: Pair, settings: RefineSettings, threads: int | None, progress: Progress | None) -> Form:
    """Refines a volume or raster."""
    only = {"soft=True": settings.soft, "explain=True": settings.explain, "preview=": pair.preview is not None}
    for given in (name for name, value in {**only, "decode=": settings.decode != "accuracy"}.items() if value):
        raise InputError(f"{given} is for photos, but {pair.image} is a volume or raster: leave it out.")
    done = refine_file(
        pair.image,
        pair.mask,
        pair.out,
        crf=settings.crf,
        iterations=settings.iterations,
        roughness=settings.roughness,
        temperature=settings.temperature,
        confidence=settings.confidence,
        num_classes=settings.num_classes,
        void=settings.void,
        logits=settings.logits,
        window=settings.window,
        spacing=settings.spacing,
        tile=settings.tile,
        threads=threads,
        progress=progress,
    )
    return done.form


def _check_photo_settings(settings: RefineSettings) -> None:
    """Raises if a setting is given that photos do not have."""
    given = {"window=": settings.window, "spacing=": settings.spacing, "tile=": settings.tile}
    for argument, value in given.items():
        if value is not None:
            raise InputError(f"{argument} is for volumes and rasters, but these are photos: leave it out.")


def _refined(
    image: Pixels, mask: Mask, settings: RefineSettings, threads: int | None, best_only: bool
) -> tuple[npt.NDArray[np.float32], ClassNumbers]:
    """Probabilities (L, H, W), and the labels of their rows.

    If only the best label is wanted, labels are renumbered: with a row for each number below a label such as 26001, a
    photo of half a megapixel would take 50 gigabytes.
    """
    arguments = _arguments(mask, settings, threads)
    lowest, highest = (int(mask.values.min()), int(mask.values.max())) if mask.form == "labels" else (0, 0)
    count = settings.num_classes or highest + 1
    if best_only and count > MANY_CLASSES and 0 <= lowest <= highest < count:  # otherwise refine() raises
        compact, numbers = mask.renumbered()
        if len(numbers):
            arguments |= {**compact.unary(), "num_classes": max(len(numbers), 2)}
            return refine(image, **arguments), numbers
    return refine(image, **arguments), None


def _check_memory(pair: Pair, mask: Mask, settings: RefineSettings) -> None:
    """Raise if the probabilities of the labels that occur, or of all classes for an array, exceed the limit."""
    if mask.values.ndim == 3:
        return  # as large as the file's array
    labels = mask.labels()
    used = np.flatnonzero(np.bincount(labels[labels >= 0].ravel(), minlength=1))
    count = len(used)
    if pair.out.suffix.lower() in ARRAYS:
        count = settings.num_classes or int(used.max(initial=1)) + 1
    check_array(pair.out, (count, *mask.size), 4 * count * labels.size)


def _arguments(mask: Mask, settings: RefineSettings, threads: int | None) -> dict[str, Any]:
    """The arguments of `refine` and `explain` except the image."""
    num_classes = 2 if mask.form == "binary" and settings.num_classes is None else settings.num_classes
    return {
        **mask.unary(),
        "roughness": settings.roughness,
        "temperature": settings.temperature,
        "confidence": settings.confidence,
        "num_classes": num_classes,
        "iterations": settings.iterations,
        "crf": settings.crf,
        "data_range": DATA_RANGE,
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
    raise InputError(f"{message} Resize the mask without interpolating its labels.")
