"""How a file is refined: with the learnt model of masks or of scores, or by a CRF of the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from densefield.crf.model import CRF
from densefield.errors import InputError
from densefield.filters.lattice_design import MAX_DIMENSION
from densefield.labels import Void
from densefield.refinement.mask_edges import MaskEdges, pixel_use
from densefield.refinement.mask_input import checked_roughness
from densefield.refinement.refine import checked_temperature, chosen_crf
from densefield.volumes.coding import LabelCode, check_scores, label_code
from densefield.volumes.grid import Grid
from densefield.volumes.intensity import checked_window
from densefield.volumes.label_plan import LabelPlan, edge_levels, part_edges, plan_labels
from densefield.volumes.sample import Sample, Scan, read_sample, scan_mask
from densefield.volumes.score_plan import CONFIDENCE, ScorePlan, plan_scores, scores_of

LEVELS = 255.0


@dataclass(frozen=True)
class VolumeOptions:
    """How the mask of a file is read and refined; the fields are arguments of refine_file()."""

    crf: CRF | None = None
    iterations: int | None = None
    roughness: float | None = None
    temperature: float | None = None
    confidence: float | None = None
    num_classes: int | None = None
    void: Void = "auto"
    logits: bool = False
    window: Sequence[float] | None = None

    def __post_init__(self) -> None:
        """Raises if two options replace each other."""
        instead = "crf" if self.crf is not None else "confidence" if self.confidence is not None else None
        if self.crf is not None and self.iterations is not None:
            raise InputError("got crf= together with iterations=, expected one of them: use crf.replace(…).")
        if instead is not None and self.roughness is not None:
            raise InputError(f"got roughness= together with {instead}=, expected one of them.")
        for name in ("roughness", "confidence"):
            if self.logits and getattr(self, name) is not None:
                raise InputError(f"got {name}= with logits: it is for masks of labels. Use temperature=.")


def make_plan(image: Grid, mask: Grid, options: VolumeOptions, threads: int) -> LabelPlan | ScorePlan:
    """The plan for an image and its mask, after one pass over the mask and a sample of the image."""
    window = checked_window(options.window)
    scan = scan_mask(mask, image.channels or 1)
    code = None if options.logits else _code(mask, scan, options)
    if code is None:
        _check_soft(mask, options)
    elif options.temperature is not None:
        raise InputError("got temperature= with a mask of labels: it is for probabilities and logits. Leave it out.")
    sample = read_sample(image, mask, scan.windows)
    is_whole = scan.windows == (mask.whole,)
    if is_whole and sample.image.dtype.kind == "f" and not np.isfinite(sample.image).any():
        raise InputError(f"{image.path} holds NaN and infinity alone, expected numbers: check how it was written.")
    if options.crf is None and options.confidence is None and code is not None:
        return plan_labels(
            image,
            sample,
            code,
            roughness=None if options.roughness is None else checked_roughness(options.roughness),
            iterations=options.iterations,
            window=window,
            threads=threads,
        )
    own = options.crf is not None or options.confidence is not None
    most = MAX_DIMENSION - len(image.shape)
    if own and (image.channels or 1) > most:
        given = "crf=" if options.crf is not None else "confidence="
        raise InputError(
            f"{image.path} has {image.channels} channels, expected at most {most} for {given}: leave it out, since the "
            "learnt kernels compare three components of them, or save fewer channels."
        )
    levels = edge_levels(
        image, sample, _sample_edges(image, mask, sample, code, options, threads), window, reduce=not own
    )
    temperature = 1.0 if options.temperature is None else checked_temperature(options.temperature)
    if own:
        crf = chosen_crf(options.crf, None, options.iterations, LEVELS, threads)
        confidence = CONFIDENCE if options.confidence is None else options.confidence
        return ScorePlan(mask, levels, image.spacing, crf, options.logits, temperature, code, confidence)
    return plan_scores(
        image,
        mask,
        sample,
        levels,
        logits=options.logits,
        temperature=temperature,
        iterations=options.iterations,
        threads=threads,
    )


def _code(mask: Grid, scan: Scan, options: VolumeOptions) -> LabelCode | None:
    """The labels of a mask; None if it holds probabilities."""
    if mask.channels not in (None, 1):
        return None
    values = scan.values
    if mask.dtype.kind == "f" and (values is None or (values != values.round()).any()):
        return None
    if values is None:
        raise InputError(f"{mask.path} has thousands of different values, expected labels. Number them from 0.")
    return label_code(values.tolist(), mask.path, options.num_classes, options.void, missing=scan.missing)


def _check_soft(mask: Grid, options: VolumeOptions) -> None:
    """Raises unless the mask may hold probabilities or logits, and the options are for them."""
    check_scores(mask, options.num_classes)
    for name in ("roughness", "confidence"):
        if getattr(options, name) is not None:
            raise InputError(f"got {name}= with probabilities: it is for masks of labels. Use temperature=.")


def _sample_edges(
    image: Grid, mask: Grid, sample: Sample, code: LabelCode | None, options: VolumeOptions, threads: int
) -> MaskEdges:
    """The edges between the most probable labels of the sample."""
    known = None
    if code is not None:
        (rows, known), count = code.rows(sample.mask[..., 0]), len(code.values)
    else:
        scores = scores_of(sample, mask.path, options.logits)
        rows, count = scores.argmax(axis=0).astype(np.int32), len(scores)
    steps = tuple(each / image.spacing[0] for each in reversed(image.spacing))
    blank = np.zeros((rows.size, 1), np.uint8)
    return part_edges(rows, pixel_use(rows.shape, known, sample.missing), blank, steps, count, threads)
