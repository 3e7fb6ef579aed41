"""Findings about the refinement of a mask: its roughness, and what changed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from densefield.crf.image_range import in_image_units
from densefield.crf.kernels import Bilateral
from densefield.crf.label_mask import LabelMask
from densefield.crf.model import CRF
from densefield.diagnose import inputs as input_checks
from densefield.diagnose.result import LITTLE, Finding, percent, vanished
from densefield.refinement.colour_model import TYPICAL_WIDTH
from densefield.refinement.registration import Displacement
from densefield.refinement.rough_mask import RefinedMask


def explain_mask(
    image: npt.NDArray[np.generic], mask: LabelMask, found: RefinedMask | None, data_range: npt.ArrayLike | None
) -> Iterator[Finding]:
    """Findings about a mask and its refinement; `found` is None if the mask has no edges."""
    if found is None:
        yield one_label(mask.labels, mask.rows.size)
        yield Finding("note", "0% of the pixels changed their label.")
        return
    sound = True
    for finding in [*_image(image, mask, data_range), *_edges(found), *iterations(found.band.crf)]:
        sound = sound and finding.severity == "note"
        yield finding
    known = slice(None) if mask.known is None else mask.known
    before = mask.labels[mask.rows[known].reshape(-1)]
    after = mask.labels[found.marginals.argmax(axis=0)[known].reshape(-1)]
    yield from vanished(before, after)
    yield _summary(float((before != after).mean()), found, sound)


def iterations(crf: CRF) -> Iterator[Finding]:
    """Inference without iterations."""
    if crf.options.iterations == 0:
        yield Finding("problem", "Inference makes no iteration.", "iterations = 0", "Use 5 iterations.")


def one_label(labels: npt.NDArray[np.intp], pixels: int) -> Finding:
    """The finding for a mask with one label, or with unknown ones only."""
    if len(labels) > 1:
        return Finding(
            "problem",
            "No pixel has a known label.",
            f"{pixels} unknown pixel{'' if pixels == 1 else 's'}",
            "Check the mask, and void=.",
        )
    return Finding(
        "problem",
        "The input has the same label everywhere, so there is nothing else to spread.",
        f"label {int(labels[0])} is the only one at {pixels} pixel{'' if pixels == 1 else 's'}",
        "Check the mask.",
    )


def _image(image: npt.NDArray[np.generic], mask: LabelMask, data_range: npt.ArrayLike | None) -> Iterator[Finding]:
    pixels = image.reshape(mask.rows.size, -1)
    if mask.ignore is not None:
        pixels = pixels[~mask.ignore.reshape(-1)]
    kernel = Bilateral(sigma_rgb=TYPICAL_WIDTH)
    scaled = in_image_units(kernel, data_range, mask.rows.ndim)
    yield from input_checks.colours(pixels, [scaled], checked=data_range is not None)


def _edges(found: RefinedMask) -> Iterator[Finding]:
    if found.roughness is None:
        yield Finding(
            "problem",
            "The image has no edges near those of the mask, which therefore stay where they are.",
            "colours change by less than half a level per pixel there",
            "Check that image and mask belong together, and the range of the image.",
        )
        return
    rough = found.roughness
    why = "the edges of mask and image agree within that distance"
    if rough.block is not None:
        why = f"the mask consists of blocks of {rough.block:g} pixels"
    moved = next((each for each in rough.displacements if each != Displacement()), None)
    if moved is not None:
        unit = found.band.edges.unit
        x, y = (unit * each for each in moved.shift)
        why = (
            f"its edges were first moved to those of the image, by {unit * abs(moved.offset):.3g} pixels across and by "
            f"({x:.3g}, {y:.3g}) pixels as a whole"
        )
    yield Finding(
        "note",
        f"The mask is about {rough.width:.2g} pixels rough: its edges may move that far.",
        why,
        "If that is wrong, pass roughness= in pixels.",
    )


def _summary(changed: float, found: RefinedMask, sound: bool) -> Finding:
    what = f"{percent(changed)} of the pixels changed their label."
    if changed >= LITTLE:
        return Finding("note", f"No problem found: {what}" if sound else what)
    share = len(found.band.points) / found.band.edges.labels.size
    near = f"{percent(share)} of the pixels are near an edge and can change"
    if not sound:
        return Finding("note", f"{what} The problems above say why.", near)
    return Finding(
        "note", f"{what} The mask already follows the image.", near, "If it does not, pass a larger roughness=."
    )
