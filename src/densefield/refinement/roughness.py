"""How rough a mask is: how far, and in which way, its edges lie from those of the image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densefield.refinement.blocks import block_size
from densefield.refinement.mask_edges import MaskEdges
from densefield.refinement.registration import Displacement, register, sharpness

# Chosen on the training photos, see docs/refinement.md.
PART_OF_BLOCK = 0.5  # roughness of a mask in blocks, over the block's size
SHARP, ROUGH = 1.75, 12.0  # units: roughness of masks whose edges agree with those of the image, and of others
INCREASE, DECAY = 14.0, 0.16  # of the roughness at an agreement of 1, and how fast it falls with the agreement
UNKNOWN = 3.0  # units: roughness of masks with too many labels for edge profiles
SPECKLED = 5.0  # units: roughness of masks with holes and specks
MOST_SPECKLE = 0.09  # share of the pixels at edges that are in the minority around them, in other masks
LEAST_WIDTH = 0.1  # pixels
LEAST_CONTRAST = 0.5  # levels per pixel: an image with weaker edges on average has none to follow


@dataclass(frozen=True)
class Roughness:
    """Where the edges of a mask are expected.

    Parameters
    ----------
    width
        Typical distance of the true edge from the displaced edge of the mask, in pixels.
    displacements
        How the edge of each pair of labels is moved first, in units.
    block
        Size of the mask's blocks in pixels; None if it has none.
    """

    width: float
    displacements: tuple[Displacement, ...] = ()
    block: float | None = None

    def moves(self, unit: float) -> list[list[float]]:
        """(pairs, 3): the displacements in pixels, for `MaskEdges.margins`."""
        return [[unit * each for each in (at.offset, *at.shift)] for at in self.displacements]


def estimate_roughness(edges: MaskEdges, given: float | None = None) -> Roughness | None:
    """The roughness of a mask; None if the image has no edges to follow.

    Parameters
    ----------
    edges
        The mask on its image.
    given
        The roughness in pixels, if known: edges are moved no farther than that before they are refined.
    """
    profiles = [each for each in edges.profiles if each is not None and each.contrast >= LEAST_CONTRAST]
    if edges.profiles and not profiles:
        return None
    most = np.inf if given is None else max(given, LEAST_WIDTH)
    size = block_size(edges.labels.reshape(edges.shape)) if edges.num_axes == 2 else None
    if size is not None:
        return Roughness(PART_OF_BLOCK * size if given is None else most, block=size)
    if not edges.profiles:  # more labels than are looked at in pairs
        return Roughness(UNKNOWN * edges.unit if given is None else most)
    moved = tuple(register(edges.profiles, most / edges.unit))
    lengths = [0.0 if each is None else each.length for each in edges.profiles]
    agreement = sum(
        length * sharpness(profile, at)
        for profile, at, length in zip(edges.profiles, moved, lengths, strict=True)
        if profile is not None
    ) / sum(lengths)
    width = min(SHARP + INCREASE * np.exp((1 - agreement) / DECAY), ROUGH)
    if speckle(edges.labels) > MOST_SPECKLE:
        width = SPECKLED
    width *= edges.unit
    if given is not None:  # an edge that was found is refined by what is left
        width = min(width, most) if any(each != Displacement() for each in moved) else most
    return Roughness(float(width), moved)


def speckle(labels: npt.NDArray[np.integer]) -> float:
    """The share of the pixels at edges of a mask (…, H, W) whose label is in the minority around them, in 5 × 5 pixels.

    >>> mask = np.zeros((40, 60), int)
    >>> mask[:, 30:] = 1
    >>> specks = mask.copy()
    >>> specks[5::10, 5::10] = 1
    >>> speckle(mask), round(speckle(specks), 2)
    (0.0, 0.09)
    """
    reach = 2
    planes = labels.reshape(-1, *labels.shape[-2:])
    at_edge = np.zeros(planes.shape, bool)
    for axis in (1, 2):
        differ = np.diff(planes, axis=axis) != 0
        before, after = (np.s_[:, :-1], np.s_[:, 1:]) if axis == 1 else (np.s_[:, :, :-1], np.s_[:, :, 1:])
        at_edge[before] |= differ
        at_edge[after] |= differ
    z, y, x = np.nonzero(at_edge)
    if not len(z):
        return 0.0
    padded = np.pad(planes, ((0, 0), (reach, reach), (reach, reach)), mode="edge")
    own = planes[z, y, x]
    side = range(2 * reach + 1)
    alike = sum((padded[z, y + down, x + across] == own).astype(np.int8) for down in side for across in side)
    return float(np.mean(alike < len(side) ** 2 / 2))
