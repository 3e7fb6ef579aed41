"""Models of the colours of labels, compared on rough masks of photos of the train split.

    python benchmarks/colour_models.py

Everything else is as in `refine`. "mixture" is what `refine` uses, "iterated mixture" is fitted again to the result, as
GrabCut does, and inference is repeated. "EM mixture" has five Gaussians per label fitted by scikit-learn to the pixels.
"histogram" has 16³ smoothed bins. "filter" has no model: a second, wide bilateral kernel carries colours from the
inside of each label in every iteration. The weight multiplies the learnt one, or is that of the wide kernel. Cells are
mean IoU and accuracy near the true edge.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
from refinement import Judge
from rough_masks import RECIPES, Photo, photos, rough_mask
from scipy.ndimage import convolve1d
from sklearn.mixture import GaussianMixture

from densefield import CRF, Custom
from densefield.crf.label_mask import LabelMask, label_mask
from densefield.refinement.parameters import PowerLaw, learnt
from densefield.refinement.rough_mask import EdgeBand, Model, edge_band, mask_colours, mask_edges
from densefield.refinement.roughness import Roughness, estimate_roughness

KINDS = tuple(kind for kind in RECIPES if kind not in ("true", "holes and specks"))
EM_COMPONENTS = 5
MOST_PIXELS = 5000  # of a label, for fitting a mixture by EM
BINS = 16  # of a histogram, per channel
UNSEEN = 0.01  # share of the pixels that a histogram spreads over all colours
FEW = 50  # pixels inside a label; with fewer, all its pixels count
WIDE = (60.0, 10.0)  # pixels and levels: widths of the kernel of "filter"
SEED = 5150
THREADS = 2

Bands = Callable[[LabelMask, Photo, float], EdgeBand]


def without_weight() -> Model:
    """Return the learnt model without colours."""
    return Model(replace(learnt().mask, colour_weight=PowerLaw(0.0)))


def mixture(mask: LabelMask, photo: Photo, weight: float) -> EdgeBand:
    """Return the band of `refine`, with the weight of colours multiplied."""
    law = learnt().mask.colour_weight
    model = Model(replace(learnt().mask, colour_weight=PowerLaw(law.value * weight, law.power)))
    return edge_band(*found(mask, photo), model)


def iterated_mixture(mask: LabelMask, photo: Photo, weight: float) -> EdgeBand:
    """Return the band with the colours of the first result."""
    first = mixture(mask, photo, weight)
    result = first.edges.with_labels(first.marginals().argmax(axis=0))
    units = found(mask, photo)[1].width / first.edges.unit
    plain = edge_band(*found(mask, photo), without_weight())
    scores = plain.scores.copy()
    mask_colours(result, result.margins(), 1.0).add_to(
        scores, weight * learnt().mask.colour_weight(units), plain.points
    )
    return replace(plain, scores=scores)


Logs = Callable[[npt.NDArray[np.uint8], npt.NDArray[np.uint8]], npt.NDArray[np.float64]]


def with_model(logs: Logs, mask: LabelMask, photo: Photo, weight: float) -> EdgeBand:
    """Return the band with log-likelihoods of another model: logs(colours of a label, colours of the points)."""
    edges, roughness = found(mask, photo)
    band = edge_band(edges, roughness, without_weight())
    colours, units = photo.image.reshape(-1, 3), roughness.width / edges.unit
    inside = band.margins.reshape(-1) >= learnt().mask.width(units) * edges.unit
    rows = []
    for label in range(edges.num_labels):
        own = edges.labels.reshape(-1) == label
        chosen = own & inside if (own & inside).sum() >= FEW else own
        rows.append(logs(colours[chosen], colours[band.points]))
    likelihoods = np.array(rows) - np.mean(rows, axis=0)
    factor = weight * learnt().mask.colour_weight(units)
    return replace(band, scores=(band.scores + factor * likelihoods).astype(np.float32))


def em_logs(of_label: npt.NDArray[np.uint8], of_points: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Return log-likelihoods of a mixture fitted by expectation maximisation."""
    chosen = np.random.default_rng(SEED).permutation(of_label)[:MOST_PIXELS]
    count = min(EM_COMPONENTS, len(chosen))
    chosen = np.resize(chosen, (max(2, len(chosen)), 3)).astype(np.float64)  # a mixture needs two samples
    fitted = GaussianMixture(count, reg_covar=10.0, random_state=SEED, max_iter=200, tol=1e-2).fit(chosen)
    return np.asarray(fitted.score_samples(of_points.astype(np.float64)))


def histogram_logs(of_label: npt.NDArray[np.uint8], of_points: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Return log-likelihoods of a histogram, smoothed twice by [1, 2, 1]/4 along each channel."""
    step = 256 // BINS
    counts = np.histogramdd(of_label // step, bins=[np.arange(BINS + 1)] * 3)[0]
    for axis in range(3):
        for _ in range(2):
            counts = convolve1d(counts, [0.25, 0.5, 0.25], axis=axis, mode="nearest")
    counts += UNSEEN * len(of_label) / counts.size
    return np.log(counts / counts.sum())[tuple((of_points // step).T)]


def wide_filter(mask: LabelMask, photo: Photo, weight: float) -> EdgeBand:
    """Return the band with a second, wide kernel, and without a model of colours."""
    edges, roughness = found(mask, photo)
    band = edge_band(edges, roughness, without_weight())
    wide = Custom("pixel", sigma=[WIDE[0]] * 2 + [WIDE[1]] * 3, weight=weight)
    return replace(band, crf=CRF([*band.crf.kernels, wide], threads=THREADS))


def none(mask: LabelMask, photo: Photo, weight: float) -> EdgeBand:
    """Return the band without colours."""
    return edge_band(*found(mask, photo), without_weight())


MODELS: dict[str, tuple[Bands, tuple[float, ...]]] = {
    "none": (none, (0.0,)),
    "histogram": (partial(with_model, histogram_logs), (0.5, 1.0, 2.0)),
    "EM mixture": (partial(with_model, em_logs), (0.5, 1.0, 2.0)),
    "mixture": (mixture, (0.5, 1.0, 2.0)),
    "iterated mixture": (iterated_mixture, (0.5, 1.0, 2.0)),
    "filter": (wide_filter, (0.5, 1.0, 2.0)),
}


def found(mask: LabelMask, photo: Photo) -> tuple[object, Roughness]:
    """Return the mask's edges and its roughness."""
    edges = mask_edges(mask, photo.image.reshape(-1, 3), (1.0, 1.0), THREADS)
    return edges, estimate_roughness(edges) or Roughness(edges.unit)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=int, default=24)
    options = parser.parse_args(arguments)
    results: dict[tuple[str, float], list[tuple[float, float, float]]] = {}
    for number, photo in enumerate(photos("train", options.photos)):
        judge = Judge(photo.truth)
        for kind in KINDS:
            mask = label_mask(rough_mask(photo, kind))
            if len(mask.labels) < 2:
                continue
            for name, (band, weights) in MODELS.items():
                for weight in weights:
                    start = time.perf_counter()
                    q = band(mask, photo, weight).marginals()
                    seconds = time.perf_counter() - start
                    scores = judge(mask.labels[q.argmax(axis=0)])
                    results.setdefault((name, weight), []).append((scores["iou"], scores["edge"], seconds))
        print(f"\r{number + 1}", end="", file=sys.stderr)
    print("\n\n| model | weight | mean IoU / edge | ms |\n|---|---|---|---|")
    for (name, weight), rows in results.items():
        iou, edge, _ = np.nanmean(rows, axis=0)
        print(f"| {name} | {weight:g} | {100 * iou:.2f} / {100 * edge:.2f} | {1000 * np.median(rows, axis=0)[2]:.0f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
