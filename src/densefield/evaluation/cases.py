"""Pictures of good results and failures: image, truth, network and CRF side by side (paper, Figs. 5 and 6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from densefield.images.palette import overlay, side_by_side, voc_palette
from densefield.images.writing import write_png
from densefield.labels import VOID
from densefield.metrics.counts import Counts, ImageCounts
from densefield.metrics.metrics import Metric, mean_iou, pixel_accuracy
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.scored_images import ScoredImage, ScoreSource

CASES = "cases"
LEAST_SIDE = 240  # pixels: smaller images are enlarged by a whole factor, each pixel to a square
# Kinds of cases: by the quality of the result, and by what the CRF changes.
GOOD, FAILURE, IMPROVED, WORSENED = KINDS = ("good", "failure", "improved", "worsened")
Picture = np.ndarray[Any, np.dtype[np.uint8]]


def draw_cases(
    source: ScoreSource,
    crf: DenseCRF | None,
    images: Mapping[str, Mapping[str, ImageCounts]],
    count: int,
    folder: Path,
) -> list[dict[str, Any]]:
    """Draws the best and worst results, and the images that the CRF improves and worsens most.

    Results are those of the last method. Their quality is the mean IoU over the classes that are true or predicted in
    the image; gains are in pixel accuracy.
    """
    num_classes = len(source.classes)
    metrics = {
        metric.__name__: {
            name: {method: _metric(metric, counts, num_classes) for method, counts in methods.items()}
            for name, methods in images.items()
        }
        for metric in (mean_iou, pixel_accuracy)
    }
    cases, drawn = [], set()
    for kind, names in _chosen(metrics["mean_iou"], metrics["pixel_accuracy"], count).items():
        for name in names:
            scored = source[source.ids.index(name)]
            if name not in drawn:
                methods = [crf if method == "crf" else None for method in images[name]]
                write_png(folder / CASES / f"{name}.png", draw_case(scored, methods))
                drawn.add(name)
            labels = [int(label) for label in np.unique(scored.labels.numpy()) if label != VOID]
            case = {"id": name, "kind": kind, "labels": labels}
            cases.append(case | {metric: values[name] for metric, values in metrics.items()})
    return cases


def _chosen(
    quality: Mapping[str, Mapping[str, float]], accuracy: Mapping[str, Mapping[str, float]], count: int
) -> dict[str, list[str]]:
    """The names of images of each kind; metrics are NaN for images without true labels."""
    results = {name: list(each.values())[-1] for name, each in quality.items()}
    known = sorted((name for name in results if not math.isnan(results[name])), key=lambda name: (-results[name], name))
    good = known[:count]
    chosen = {GOOD: good, FAILURE: [name for name in reversed(known) if name not in good][:count]}
    if all({"network", "crf"} <= set(each) for each in accuracy.values()):
        gains = {name: each["crf"] - each["network"] for name, each in accuracy.items()}
        chosen[IMPROVED] = best_gains(gains, count)
        chosen[WORSENED] = best_gains({name: -gain for name, gain in gains.items()}, count)
    return chosen


def best_gains(gains: Mapping[str, float], count: int) -> list[str]:
    """The names of at most `count` positive gains, the largest first.

    >>> best_gains({"a": 0.1, "b": 0.0, "c": 0.3, "d": -0.2}, count=5)
    ['c', 'a']
    """
    gaining = [name for name in gains if gains[name] > 0]
    return sorted(gaining, key=lambda name: (-gains[name], name))[:count]


def draw_case(scored: ScoredImage, crfs: Sequence[DenseCRF | None]) -> Picture:
    """Image, truth, and the labels of each CRF, None for the network alone, side by side; void shows the image."""
    photo = scored.image.movedim(0, -1).numpy()
    colours = voc_palette()
    labels = [scored.labels, *(scored.log_marginals(each).argmax(0) for each in crfs)]
    return side_by_side([enlarged(each) for each in (photo, *(overlay(photo, y.numpy(), colours) for y in labels))])


def enlarged(picture: Picture) -> Picture:
    """A small picture enlarged until its longest side has LEAST_SIDE pixels or more; a large one as it is.

    >>> enlarged(np.zeros((96, 80, 3), np.uint8)).shape, enlarged(np.zeros((375, 500, 3), np.uint8)).shape
    ((288, 240, 3), (375, 500, 3))
    """
    factor = math.ceil(LEAST_SIDE / max(picture.shape[:2]))
    return picture.repeat(factor, axis=0).repeat(factor, axis=1)


def _metric(metric: Metric, counts: ImageCounts, num_classes: int) -> float:
    return float(metric(Counts.from_confusion(counts.confusion(num_classes))))
