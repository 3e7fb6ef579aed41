"""Dense labels from scribbles: strokes or clicks with a label each, on an image without further labels.

1. The score of a label falls with the distance to its nearest scribble.
2. Log-likelihoods of colours are added. The colours of a label are first those around its scribbles.
3. A CRF couples all pixels; scribbled ones keep their label.
4. Steps 2 and 3 are repeated with the colours of the labels found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.crf.arrays import as_array, split_mask
from densefield.crf.features import checked_spacing
from densefield.crf.kernels import Bilateral, Spatial
from densefield.crf.label_mask import LabelMask, expanded
from densefield.crf.model import CRF
from densefield.crf.options import CRFOptions
from densefield.errors import InputError
from densefield.filters.threads import check_threads
from densefield.labels import VOID
from densefield.refinement.colour_model import colour_model, image_colours
from densefield.refinement.mask_edges import Float32, Int32, nearest_other
from densefield.refinement.mask_input import mask_input, warn_of_range
from densefield.refinement.parameters import length_unit

KEEP = 100.0  # lead of the label of a scribbled pixel, more than all messages together


@dataclass(frozen=True)
class ScribbleParameters:
    """The model of scribbles; lengths are in units, as in `parameters`.

    Parameters
    ----------
    decay
        The score of a label is −decay · log(1 + distance / near).
    near
        Distance from a scribble within which its label is likely.
    core
        Distance from a scribble within which pixels have the first colours of its label.
    colour_weight
        Factor of the log-likelihoods of colours.
    rounds
        Number of times that colours are estimated from labels found.
    sigma, weight
        Width and weight of the spatial kernel.
    sigma_xy, sigma_rgb, bilateral_weight
        Widths, in units and in colours 0…255, and weight of the bilateral kernel.
    iterations
        Number of mean-field iterations in each round.
    """

    decay: float = 2.0
    near: float = 10.0
    core: float = 4.0
    colour_weight: float = 0.5
    rounds: int = 1
    sigma: float = 1.5
    weight: float = 1.0
    sigma_xy: float = 30.0
    sigma_rgb: float = 16.0
    bilateral_weight: float = 7.0
    iterations: int = 5


# Chosen on photos of the train split.
CHOSEN = ScribbleParameters()


def propagate(
    image: Any,  # (H, W, C) or (H, W)
    scribbles: Any,  # (H, W)
    *,
    unlabelled: int | None = None,
    num_classes: int | None = None,
    ignore: npt.NDArray[np.bool_] | None = None,  # (H, W)
    spacing: Sequence[float] | None = None,
    data_range: float | Sequence[float] | None = None,
    threads: int | None = None,
) -> npt.NDArray[np.float32]:
    """Probabilities (L, H, W) of the labels of all pixels, from a few scribbled ones.

    Scribbles may be strokes, clicks of one pixel each, or whole regions, of two or more labels: objects, and the
    background too. Scribbled pixels keep their label.

    Parameters
    ----------
    image
        (H, W, C) or (H, W), colours 0…255; or a volume. A constant alpha channel is ignored.
    scribbles
        (H, W): integers, the label of scribbled pixels, and `unlabelled` elsewhere.
    unlabelled
        The value of pixels without a scribble; by default 255 if it occurs, and otherwise 0.
    num_classes
        The number of classes of the result; by default the highest label plus one. Labels without a scribble, and the
        value `unlabelled` if it is below, get probability 0.
    ignore
        True for pixels that neither send nor receive messages, and may hold any values.
    spacing
        Size of a pixel along x, y(, z), by default 1.
    data_range
        Range of the image's colours, such as 1 or 65535; by default 255, with a warning if the values contradict it.
    threads
        Number of threads, by default all available processors.

    >>> import numpy as np
    >>> image = np.zeros((20, 30, 3), np.uint8)
    >>> image[:, 12:] = 255
    >>> scribbles = np.zeros((20, 30), np.uint8)  # 0 is unlabelled
    >>> scribbles[5, 3:8] = 1
    >>> scribbles[9:16, 25] = 2
    >>> propagate(image, scribbles).argmax(axis=0)[0]
    array([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
           2, 2, 2, 2, 2, 2, 2, 2])
    """
    pixels, mask = scribble_input(image, scribbles, unlabelled, num_classes, ignore)
    q = propagated(pixels, mask, CHOSEN, spacing, data_range, threads)
    if data_range is None:
        warn_of_range(pixels, mask)
    return expanded(q, mask.labels, mask.num_classes)


def scribble_input(
    image: Any,
    scribbles: Any,
    unlabelled: int | None = None,
    num_classes: int | None = None,
    ignore: npt.NDArray[np.bool_] | None = None,
) -> tuple[npt.NDArray[Any], LabelMask]:
    """The image as an array, and the checked scribbles; the parameters are those of propagate()."""
    given = as_array(split_mask(scribbles)[0], "the scribbles are", "an array of integers (rows, columns)")
    value = (VOID if bool((given == VOID).any()) else 0) if unlabelled is None else unlabelled
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"unlabelled is {value!r}, expected the integer of pixels without a scribble, such as 0.")
    pixels, mask = mask_input(image, scribbles, num_classes, int(value), ignore)
    hidden = np.zeros((), np.bool_) if mask.ignore is None else mask.ignore
    seen = ~hidden if mask.known is None else mask.known & ~hidden
    found = mask.labels[np.flatnonzero(np.bincount(mask.rows[np.broadcast_to(seen, mask.rows.shape)]))]
    if len(found) < 2:
        what = f"only label {found[0]}" if len(found) else "no label"
        raise InputError(
            f"the scribbles hold {what} besides {value}, which means unlabelled, expected two or more labels: scribble "
            "on the background too, with a label of its own. unlabelled= names another value."
        )
    return pixels, mask


def propagated(
    image: npt.NDArray[Any],
    mask: LabelMask,
    parameters: ScribbleParameters,
    spacing: Sequence[float] | None = None,
    data_range: float | Sequence[float] | None = None,
    threads: int | None = None,
) -> Float32:
    """Probabilities (K, …) of the labels of checked scribbles, for other arguments of propagate()."""
    shape, count = mask.rows.shape, len(mask.labels)
    options = CRFOptions(parameters.iterations, data_range=data_range, threads=threads)
    workers, steps = check_threads(threads), checked_spacing(spacing, len(shape))
    unit = length_unit(shape, steps[0])
    channels = image_colours(image, shape, mask.ignore, data_range)
    seeds = _seeds(mask)
    distances = seed_distances(seeds, count, shape, steps, workers)
    nearest = distances.argmin(axis=0).astype(np.int32)
    labels = np.where(distances.min(axis=0) <= parameters.core * unit, nearest, np.int32(-1))
    near = np.float32(parameters.near * unit)
    prior: Float32 = np.log1p(distances / near) * np.float32(-parameters.decay)
    crf = CRF(
        [
            Spatial(parameters.sigma * unit, weight=parameters.weight),
            Bilateral(parameters.sigma_xy * unit, parameters.sigma_rgb, weight=parameters.bilateral_weight),
        ],
        iterations=parameters.iterations,
        data_range=options.data_range,
        threads=threads,
    )
    problem = crf.problem(prior.reshape(count, *shape), image, ignore=mask.ignore, spacing=spacing)
    known = np.flatnonzero(seeds >= 0)
    q = prior
    for _ in range(parameters.rounds + 1):
        if mask.ignore is not None:
            labels[mask.ignore.reshape(-1)] = -1
        scores = prior.copy()
        colour_model(channels, labels, count, workers).add_to(scores, parameters.colour_weight)
        scores[:, known] = -KEEP
        scores[seeds[known], known] = 0
        q = crf.marginals_of(replace(problem, scores=scores))
        labels = q.reshape(count, -1).argmax(axis=0).astype(np.int32)
    return q


def _seeds(mask: LabelMask) -> Int32:
    """(N,): the number of the label of scribbled pixels, -1 elsewhere."""
    seeds: Int32 = np.where(True if mask.known is None else mask.known, mask.rows, np.int32(-1)).reshape(-1)
    return seeds


def seed_distances(seeds: Int32, count: int, shape: tuple[int, ...], spacing: Sequence[float], threads: int) -> Float32:
    """(K, N): the distance of each pixel of a grid to the nearest seed of each label, in the unit of the spacing.

    >>> seeds = np.array([0, -1, -1, 1], np.int32)
    >>> seed_distances(seeds, 2, (1, 4), (1.0, 1.0), threads=1).tolist()
    [[0.0, 1.0, 2.0, 3.0], [3.0, 2.0, 1.0, 0.0]]
    """
    grid = (1,) * (3 - len(shape)) + shape
    steps = [1.0] * (3 - len(shape)) + [float(each) for each in reversed(spacing)]
    distances = np.zeros((count, seeds.size), np.float32)
    for label in range(count):
        inside = seeds == label
        squared, _ = nearest_other(inside.reshape(grid), steps, threads)
        np.sqrt(squared, out=distances[label], where=~inside)
    return distances
