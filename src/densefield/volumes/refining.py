"""Refining the mask of a raster or volume from file to file, tile by tile."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from densefield.crf.crf_file import crf_to_toml
from densefield.crf.features import checked_spacing
from densefield.crf.model import CRF
from densefield.errors import InputError
from densefield.filters.threads import check_threads
from densefield.io.files import remove_left_behind
from densefield.io.progress import Progress
from densefield.labels import Void
from densefield.volumes.finished import FinishedTiles, fingerprint, input_state
from densefield.volumes.formats import check_output, open_pair, open_writer
from densefield.volumes.grid import Array, Grid, check_same_place, inside
from densefield.volumes.label_plan import LabelPlan
from densefield.volumes.planning import VolumeOptions, make_plan
from densefield.volumes.sample import MANY_CHANNELS, read_both
from densefield.volumes.score_plan import ScorePlan
from densefield.volumes.tiles import Tile, box_shape, even_sides, tiles

LABEL_SIDE = {2: 2048, 3: 256}  # pixels of a tile along each axis, without its halo
SCORE_SIDE = {2: 1024, 3: 128}
MOST_NUMBERS = 1 << 28  # of a tile, counted for each class or channel: 1 GB
LEAST_SIDE = 16


@dataclass(frozen=True)
class RefinedFile:
    """How a file was refined.

    Parameters
    ----------
    out
        The file that was written.
    shape
        Its grid, (H, W) or (D, H, W).
    form
        "labels" or "probabilities".
    roughness
        That of the mask in the unit of the file, mm or pixels; None if it was not needed.
    low, high
        The intensities of each channel that count as 0 and 255.
    tiles
        The number of tiles.
    """

    out: Path
    shape: tuple[int, ...]
    form: Literal["labels", "probabilities"]
    roughness: float | None
    low: tuple[float, ...]
    high: tuple[float, ...]
    tiles: int


def refine_file(
    image: Path | str,
    mask: Path | str,
    out: Path | str,
    *,
    crf: CRF | None = None,
    iterations: int | None = None,
    roughness: float | None = None,
    temperature: float | None = None,
    confidence: float | None = None,
    num_classes: int | None = None,
    void: Void = "auto",
    logits: bool = False,
    window: Sequence[float] | None = None,
    spacing: Sequence[float] | None = None,
    tile: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> RefinedFile:
    """Refine the mask of a volume or raster in a file, and write the result at the place of the mask.

    Formats are NIfTI, DICOM series (a folder), GeoTIFF, TIFF and Zarr. A mask of labels gives labels, and one of
    probabilities probabilities. Large files are computed in tiles; after an interruption, the same call resumes with
    those that are not finished.

    Parameters
    ----------
    image, mask
        Two files, or folders that hold one image each, of the same size and place.
    out
        The file to write, in the format of the mask: .nii, .nii.gz, .tif or .zarr.
    crf
        A CRF to use instead of the learnt one, with widths in mm or pixels, and in levels 0…255.
    iterations
        Number of mean-field iterations, without `crf`; by default 5.
    roughness
        Distance of a mask's edges from the true ones in mm or pixels; estimated by default, up to 5 in volumes.
    temperature
        Divisor of logits and of logarithms of probabilities.
    confidence
        Probability that a label of the mask is correct, the same at every pixel, in place of the roughness.
    num_classes
        The number of classes; by default that of the mask.
    void
        The value of unknown pixels in masks of labels; "auto" is 255, None is no value.
    logits
        The mask holds logits.
    window
        The intensities that count as 0 and 255; by default percentiles near the mask's edges.
    spacing
        Size of a pixel along x, y(, z), in place of the file's.
    tile
        Side of the tiles in pixels, without their halo; by default it depends on the file.
    threads
        Number of threads, by default all processors.
    progress
        Called with the number of finished tiles and the total.

    >>> import tempfile
    >>> import nibabel
    >>> image, labels = np.zeros((40, 30, 8), np.int16), np.zeros((40, 30, 8), np.uint8)
    >>> image[14:], labels[17:] = 120, 3  # the mask begins three voxels late
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ct, rough, out = (f"{folder}/{name}.nii.gz" for name in ("ct", "rough", "refined"))
    ...     for path, values in ((ct, image), (rough, labels)):
    ...         nibabel.save(nibabel.Nifti1Image(values, np.diag([0.8, 0.8, 2.5, 1.0])), path)
    ...     done = refine_file(ct, rough, out)
    ...     refined = np.asarray(nibabel.load(out).dataobj)
    >>> done.form, refined.dtype, int(refined[:, 15, 4].argmax())
    ('labels', dtype('uint8'), 14)
    """
    options = VolumeOptions(crf, iterations, roughness, temperature, confidence, num_classes, void, logits, window)
    count = check_threads(threads)
    if tile is not None and (isinstance(tile, bool) or not isinstance(tile, int) or tile < LEAST_SIDE):
        raise InputError(f"tile is {tile!r}, expected an integer from {LEAST_SIDE}.")
    opened, rough = open_pair(Path(image), Path(mask))
    check_output(Path(out), opened, rough)
    check_same_place(opened, rough)
    if spacing is not None:
        opened = replace(opened, spacing=checked_spacing(spacing, len(opened.shape)))
    return _run(opened, rough, Path(out), options, count, tile, progress)


def _run(
    image: Grid,
    mask: Grid,
    out: Path,
    options: VolumeOptions,
    threads: int,
    tile: int | None,
    progress: Progress | None,
) -> RefinedFile:
    """Refines all tiles, keeps them if there are several, and then writes the file."""
    remove_left_behind(out)
    state = input_state(out, (image.path, mask.path))
    plan = make_plan(image, mask, options, threads)
    soft = plan.code is None
    single = mask.channels in (None, 1)  # the probability of label 1 alone
    classes = (None if mask.channels is None else 1) if single else mask.channels
    dtype = np.dtype(np.float32) if soft else _label_dtype(mask, plan)
    sides = even_sides(image.shape, _side(image, plan, classes or 2) if tile is None else tile)
    parts = list(enumerate(tiles(image.shape, sides, plan.halo)))
    channels = classes if soft else mask.channels

    def refined(part: Tile) -> Array:
        sample = read_both(image, mask, part.outer)
        if isinstance(plan, ScorePlan) and soft:
            result = plan.marginals(sample)
            result = result[1:] if single else result
            result = result[0] if classes is None else result
        else:
            result = plan.labels(sample)
            result = result if mask.channels is None else result[None]
        inner: Array = result[inside(part.inner)].astype(dtype, copy=False)
        return inner

    layout = (sides, plan.halo, channels, dtype.str)
    kept = FinishedTiles(out, _key(state, image, options, layout), dtype) if len(parts) > 1 else None
    only: Array | None = None
    if progress is not None:
        progress(0, len(parts))
    with kept or nullcontext():
        for number, part in parts:
            if kept is None:
                only = refined(part)
            elif number not in kept:
                kept.write(number, refined(part))
            if progress is not None:
                progress(number + 1, len(parts))
        with open_writer(out, image, mask, dtype, channels) as write:
            for number, part in parts:
                shape = (*(() if channels is None else (channels,)), *box_shape(part.core))
                values = only if kept is None else kept.read(number, shape)
                write(part.core, refined(part) if values is None else values)
    low, high = (tuple(each.tolist()) for each in (plan.levels.low, plan.levels.high))
    form: Literal["labels", "probabilities"] = "probabilities" if soft else "labels"
    return RefinedFile(out, image.shape, form, _width(image, plan), low, high, len(parts))


def _key(state: str, image: Grid, options: VolumeOptions, layout: object) -> str:
    """The fingerprint of a run. Results do not depend on the number of threads."""
    crf = None if options.crf is None else (crf_to_toml(options.crf), replace(options.crf.options, threads=None))
    return fingerprint(state, (replace(options, crf=None), crf, image.spacing, layout))


def _side(image: Grid, plan: LabelPlan | ScorePlan, classes: int) -> int:
    """The side of the tiles by default."""
    axes = len(image.shape)
    side = (LABEL_SIDE if isinstance(plan, LabelPlan) else SCORE_SIDE)[axes]
    channels = image.channels or 1
    numbers = channels if channels > MANY_CHANNELS else 0  # of a pixel
    if isinstance(plan, ScorePlan):
        numbers = max(numbers, classes if plan.code is None else len(plan.code.values))
    while side > LEAST_SIDE and numbers * (side + 2 * max(plan.halo)) ** axes > MOST_NUMBERS:
        side //= 2
    return side


def _label_dtype(mask: Grid, plan: LabelPlan | ScorePlan) -> np.dtype[Any]:
    """The type of the mask's numbers, or the smallest for the labels if they are floating point or single bits.

    Values of pixels without data are kept, so their type is.
    """
    assert plan.code is not None
    if mask.dtype.kind in "iu" or plan.code.missing:
        return np.dtype(f"{mask.dtype.kind}{mask.dtype.itemsize}")
    highest = max(int(plan.code.values[-1]), plan.code.unknown or 0)
    return np.dtype(np.uint8 if highest < 256 else np.uint16 if highest < 65536 else np.int32)


def _width(image: Grid, plan: LabelPlan | ScorePlan) -> float | None:
    if not isinstance(plan, LabelPlan) or plan.roughness is None:
        return None
    return plan.roughness.width * image.spacing[0]
