"""Photos and scores for the drop-in and pydensecrf."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

HEIGHT, WIDTH = 120, 160


@pytest.fixture(scope="session")
def photos() -> dict[str, np.ndarray]:
    """Three photos, (120, 160, 3) uint8."""
    data = pytest.importorskip("skimage.data", reason="the photos are scikit-image's")
    transform = pytest.importorskip("skimage.transform")
    small = {}
    for name in ("astronaut", "chelsea", "coffee"):
        photo = transform.resize(getattr(data, name)(), (HEIGHT, WIDTH), anti_aliasing=True)
        small[name] = (photo * 255).round().astype(np.uint8)
    return small


@lru_cache
def smooth_energies(labels: int, seed: int) -> np.ndarray:
    """Energies (L, N) in smooth regions with noise, as from a network."""
    random = np.random.default_rng(seed)
    coarse = random.normal(0, 2.5, (labels, HEIGHT // 10, WIDTH // 10))
    blobs = np.kron(coarse, np.ones((1, 10, 10)))
    return (blobs + random.normal(0, 1, blobs.shape)).reshape(labels, -1).astype(np.float32)
