"""Models of the colours of labels, compared on rough masks of photos of the train split.

    python benchmarks/colour_models.py

Everything else is as in `refine`. "histogram" is what `refine` uses. "mixture" has five Gaussians per label, like
GrabCut. "filter" has no model: a second, wide bilateral kernel carries colours from the inside of each label in every
iteration. "iterated histogram" is fitted again to the result, as GrabCut does, and inference is repeated. The weight
multiplies the learnt one, or is that of the wide kernel. Cells are mean IoU and accuracy near the true edge.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from refinement import Judge
from rough_masks import RECIPES, Photo, photos, rough_mask
from sklearn.mixture import GaussianMixture

from densefield import CRF, Custom
from densefield.crf.label_mask import LabelMask, label_mask
from densefield.refinement.colour_model import colour_model
from densefield.refinement.parameters import PowerLaw, learnt
from densefield.refinement.rough_mask import EdgeBand, Model, edge_band, mask_edges
from densefield.refinement.roughness import Roughness, estimate_roughness

KINDS = tuple(kind for kind in RECIPES if kind not in ("true", "holes and specks"))
COMPONENTS = 5
MOST_PIXELS = 5000  # of a label, for fitting a mixture
WIDE = (60.0, 10.0)  # pixels and levels: widths of the kernel of "filter"
SEED = 5150
THREADS = 2

Bands = Callable[[LabelMask, Photo, float], EdgeBand]


def without_weight() -> Model:
    """Return the learnt model without colours."""
    return Model(replace(learnt().mask, colour_weight=PowerLaw(0.0)))


def histogram(mask: LabelMask, photo: Photo, weight: float) -> EdgeBand:
    """Return the band of `refine`, with the weight of colours multiplied."""
    law = learnt().mask.colour_weight
    model = Model(replace(learnt().mask, colour_weight=PowerLaw(law.value * weight, law.power)))
    return edge_band(*found(mask, photo), model)


def iterated_histogram(mask: LabelMask, photo: Photo, weight: float) -> EdgeBand:
    """Return the band with the colours of the first result."""
    first = histogram(mask, photo, weight)
    result = first.edges.with_labels(first.marginals().argmax(axis=0))
    units = found(mask, photo)[1].width / first.edges.unit
    plain = edge_band(*found(mask, photo), without_weight())
    colours = colour_model(result, result.margins(), 1.0, weight * learnt().mask.colour_weight(units))
    bins = bins_of(colours.channels[first.points], colours.scale, colours.levels)
    return replace(plain, scores=plain.scores + colours.log_likelihoods[:, bins])


def bins_of(colours: npt.NDArray[np.generic], scale: Sequence[float], levels: int) -> npt.NDArray[np.intp]:
    """Return the bins of colours (M, 3)."""
    return (colours * np.array(scale)).astype(np.intp) @ levels ** np.arange(3)[::-1]


def mixture(mask: LabelMask, photo: Photo, weight: float) -> EdgeBand:
    """Return the band with log-likelihoods of Gaussian mixtures."""
    edges, roughness = found(mask, photo)
    band = edge_band(edges, roughness, without_weight())
    colours = photo.image.reshape(-1, 3).astype(np.float64)
    inside = band.margins.reshape(-1) >= learnt().mask.width(roughness.width / edges.unit) * edges.unit
    rng, logs = np.random.default_rng(SEED), []
    for label in range(edges.num_labels):
        own = edges.labels.reshape(-1) == label
        core = np.flatnonzero(own & inside)
        chosen = core if len(core) >= 50 else np.flatnonzero(own)
        chosen = rng.permutation(chosen)[:MOST_PIXELS]
        count = min(COMPONENTS, len(chosen))
        chosen = np.resize(chosen, max(2, len(chosen)))  # a mixture needs two samples
        fitted = GaussianMixture(count, reg_covar=10.0, random_state=SEED, max_iter=200, tol=1e-2)
        logs.append(fitted.fit(colours[chosen]).score_samples(colours[band.points]))
    likelihoods = np.array(logs) - np.mean(logs, axis=0)
    factor = weight * learnt().mask.colour_weight(roughness.width / edges.unit)
    return replace(band, scores=(band.scores + factor * likelihoods).astype(np.float32))


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
    "histogram": (histogram, (0.5, 1.0, 2.0)),
    "iterated histogram": (iterated_histogram, (0.5, 1.0, 2.0)),
    "mixture": (mixture, (0.5, 1.0, 2.0)),
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
