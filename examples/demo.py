"""Smooths a noisy photo without blurring its edges: a Gaussian filter over position and colour.

Run it with `make demo`. It writes demo/before.png, demo/after.png and demo/before-after.png.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image
from skimage.data import chelsea

import densefield

SIGMA_XY = 6.0  # pixels
SIGMA_RGB = 45.0  # grey levels; well above the noise, below the contrast of the edges to keep
NOISE = 20.0  # grey levels
FOLDER = Path("demo")

Photo = npt.NDArray[np.float32]  # (H, W, 3), colours 0…255


def add_noise(photo: Photo, seed: int = 20_260) -> Photo:
    """The photo as a poor sensor would see it."""
    noise = np.random.default_rng(seed).normal(scale=NOISE, size=photo.shape)
    return np.clip(photo + noise, 0, 255).astype(np.float32)


def bilateral_features(photo: Photo) -> npt.NDArray[np.float32]:
    """(x, y)/σ_xy and (r, g, b)/σ_rgb of every pixel, (N, 5)."""
    height, width, _ = photo.shape
    rows, columns = np.indices((height, width), dtype=np.float32)
    position = np.stack([columns, rows], axis=-1)
    return np.concatenate([position / SIGMA_XY, photo / SIGMA_RGB], axis=-1).reshape(-1, 5)


def smooth(photo: Photo) -> Photo:
    """Each pixel replaced by the mean of all others, weighted by nearness in position and colour."""
    lattice = densefield.LatticeFilter(bilateral_features(photo))
    values = photo.reshape(-1, 3)
    weights = lattice.apply(np.ones((len(values), 1), dtype=np.float32))
    return (lattice.apply(values) / weights).reshape(photo.shape)


def error(photo: Photo, truth: Photo) -> float:
    """Root of the mean squared difference, in grey levels."""
    return float(np.sqrt(np.mean((photo - truth) ** 2)))


def save(photo: Photo, name: str) -> Path:
    """Writes the photo into the folder of the demo."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / name
    Image.fromarray(np.clip(photo.round(), 0, 255).astype(np.uint8)).save(path)
    return path


def main() -> None:
    """Adds noise to a photo, filters it, and writes the pictures."""
    truth = chelsea().astype(np.float32)
    before = add_noise(truth)

    start = time.perf_counter()
    after = smooth(before)
    seconds = time.perf_counter() - start

    height, width, _ = truth.shape
    print(f"Filtered {width} x {height} pixels in 5 dimensions in {seconds:.3f} s.")
    print(f"Error against the clean photo: {error(before, truth):.1f} grey levels before, ", end="")
    print(f"{error(after, truth):.1f} after.")

    gap = np.full((height, 8, 3), 255, dtype=np.float32)
    print(save(before, "before.png"))
    print(save(after, "after.png"))
    print(save(np.concatenate([before, gap, after], axis=1), "before-after.png"))


if __name__ == "__main__":
    main()
