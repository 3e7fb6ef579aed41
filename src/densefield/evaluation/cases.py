"""Pictures of successes and failures: image, truth, network and CRF side by side (paper, Figs. 5 and 6)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from densefield.images.palette import overlay, side_by_side, voc_palette
from densefield.images.writing import write_png
from densefield.labels import VOID
from densefield.metrics.counts import Counts, ImageCounts
from densefield.metrics.metrics import pixel_accuracy
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.scored_images import ScoredImage, ScoreSource

CASES = "cases"
Picture = np.ndarray[Any, np.dtype[np.uint8]]


def draw_cases(
    source: ScoreSource,
    crf: DenseCRF,
    images: Mapping[str, Mapping[str, ImageCounts]],
    count: int,
    folder: Path,
) -> list[dict[str, Any]]:
    """Draws the images whose pixel accuracy the CRF raises most, and those where it lowers it most."""
    num_classes = len(source.classes)
    accuracy = {
        name: {method: _accuracy(counts, num_classes) for method, counts in methods.items()}
        for name, methods in images.items()
    }
    gains = {name: each["crf"] - each["network"] for name, each in accuracy.items()}  # NaN if all pixels are void
    cases = []
    for kind, sign in (("best", 1), ("worst", -1)):
        for name in best_gains({name: sign * gain for name, gain in gains.items()}, count):
            scored = source[source.ids.index(name)]
            write_png(folder / CASES / f"{name}.png", draw_case(scored, crf))
            labels = [int(label) for label in np.unique(scored.labels.numpy()) if label != VOID]
            cases.append({"id": name, "kind": kind, "gain": gains[name], "accuracy": accuracy[name], "labels": labels})
    return cases


def best_gains(gains: Mapping[str, float], count: int) -> list[str]:
    """The names of at most `count` positive gains, the largest first.

    >>> best_gains({"a": 0.1, "b": 0.0, "c": 0.3, "d": -0.2}, count=5)
    ['c', 'a']
    """
    gaining = [name for name in gains if gains[name] > 0]
    return sorted(gaining, key=lambda name: (-gains[name], name))[:count]


def draw_case(scored: ScoredImage, crf: DenseCRF) -> Picture:
    """Image, truth, network alone and CRF side by side, (H, 4 W + 6, 3); void pixels show the image."""
    photo = scored.image.movedim(0, -1).numpy()
    colours = voc_palette()
    labels = [scored.labels, *(scored.log_marginals(each).argmax(0) for each in (None, crf))]
    return side_by_side([photo, *(overlay(photo, each.numpy(), colours) for each in labels)])


def _accuracy(counts: ImageCounts, num_classes: int) -> float:
    return float(pixel_accuracy(Counts.from_confusion(counts.confusion(num_classes))))
