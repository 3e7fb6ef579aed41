"""Random input for a CRF, and reference mean field with dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from densefield import CRF, Bilateral, Spatial
from densefield.crf.mean_field import log_softmax

NORMALIZATIONS = ["symmetric", "after", "before", "none"]


def random_input(*shape: int, labels: int = 3, channels: int = 3, seed: int = 41_177) -> tuple[np.ndarray, np.ndarray]:
    """Scores (L, …) and an image (…, C) in float64."""
    random = np.random.default_rng(seed)
    return random.normal(scale=2, size=(labels, *shape)), random.random((*shape, channels)) * 255


def exact(*kernels: Any, **options: Any) -> CRF:
    return CRF(kernels or (Spatial(2, weight=2), Bilateral(4, 60, weight=3)), method="exact", **options)


def softmax(scores: np.ndarray) -> np.ndarray:
    return np.moveaxis(np.exp(log_softmax(np.moveaxis(scores, 0, -1))), -1, 0)


def dense_marginals(scores: np.ndarray, pairs: list[tuple[np.ndarray, float]], iterations: int) -> np.ndarray:
    """Mean field with dense matrices k̂ (N, N) and Potts weights, on scores (L, N)."""
    q = softmax(scores)
    for _ in range(iterations):
        q = softmax(scores + sum(weight * q @ k.T for k, weight in pairs))
    return q


def gaussian(features: np.ndarray, normalization: str) -> np.ndarray:
    """k̂ of features that are already divided by their widths."""
    k = np.exp(-0.5 * ((features[:, None] - features[None]) ** 2).sum(axis=-1))
    total = k.sum(axis=1)
    if normalization == "symmetric":
        return k / np.sqrt(total[:, None] * total[None])
    return {"after": k / total[:, None], "before": k / total[None], "none": k}[normalization]
