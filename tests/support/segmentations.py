"""Random truths and predictions like segmentations: regions with void between them, some labels absent."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def random_truth(rows: int, columns: int, labels: list[int], seed: int, void: bool = True) -> Array:
    """Rectangles of the labels on a background of the first label, with some void."""
    random = np.random.default_rng(seed)
    truth = np.full((rows, columns), labels[0], np.int64)
    for _ in range(6):
        r, c = random.integers(rows), random.integers(columns)
        truth[r : r + rows // 3 + 1, c : c + columns // 3 + 1] = random.choice(labels)
    if void:
        truth[random.random((rows, columns)) < 0.05] = 255
    return truth


def random_log_marginals(truth: Array, classes: int, seed: int, labels: list[int] | None = None) -> Array:
    """Log-probabilities (L, H, W), float64, that are mostly correct; only of `labels` if given."""
    random = np.random.default_rng(seed)
    scores = random.standard_normal((classes, *truth.shape)) * 2
    for label in range(classes):
        scores[label] += 2.5 * (truth == label)
        if labels is not None and label not in labels:
            scores[label] -= 50.0
    return scores - np.log(np.exp(scores).sum(axis=0))
