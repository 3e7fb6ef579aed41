"""A small photo, its mask, and scores as of a network."""

from __future__ import annotations

import numpy as np

from densefield import Bilateral, Finding, Spatial
from densefield.crf.mean_field import log_softmax

HEIGHT, WIDTH = 36, 50
KERNELS = (Spatial(2, weight=2), Bilateral(20, 12, weight=3))


def photo(seed: int = 90127) -> tuple[np.ndarray, np.ndarray]:
    """A shaded scene of an object before a background, with grain, and the object's mask."""
    rng = np.random.default_rng(seed)
    rows, columns = np.indices((HEIGHT, WIDTH))
    inside = (rows - 17) ** 2 + (columns - 24) ** 2 < 12**2
    colours = np.where(inside[..., None], (190, 120, 70), (60, 90, 130)) + (rows + columns)[..., None] / 3
    return np.clip(colours + rng.normal(0, 6, colours.shape), 0, 255).astype(np.uint8), inside.astype(np.uint8)


def rough(mask: np.ndarray) -> np.ndarray:
    """The mask, moved by two pixels."""
    return np.roll(mask, (2, -2), axis=(0, 1))


def soft(mask: np.ndarray, labels: int = 2, margin: float = 2.0, seed: int = 4177) -> np.ndarray:
    """Logits (L, H, W) of a network that is right but not sure."""
    noise = np.random.default_rng(seed).normal(0, 0.8, (labels, *mask.shape))
    return (noise + margin * (np.arange(labels)[:, None, None] == mask)).astype(np.float32)


def softmax(scores: np.ndarray) -> np.ndarray:
    return np.exp(np.moveaxis(log_softmax(np.moveaxis(scores, 0, -1)), -1, 0))


def problems(findings: list[Finding]) -> list[str]:
    return [finding.what for finding in findings if finding.severity == "problem"]


def first_problem(findings: list[Finding]) -> Finding:
    """The cause; what it leads to, such as a blank result, follows."""
    return next(finding for finding in findings if finding.severity == "problem")


def only_problem(findings: list[Finding]) -> Finding:
    (found,) = (finding for finding in findings if finding.severity == "problem")
    return found


IMAGE, MASK = photo()
