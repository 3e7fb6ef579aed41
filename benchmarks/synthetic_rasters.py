"""Synthetic multispectral rasters with known truth: fields, water, forest, roads and roofs in 4 to 13 bands.

Classes have spectra, textures of several sizes, and fields that differ from each other; bands are correlated, some are
of a lower resolution, and have noise, as in surface reflectance of satellites in 16 bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt, gaussian_filter, zoom

Array = npt.NDArray[Any]

CLASSES = ("field", "water", "forest", "road", "roof")
FULL, HALF, SIXTH = 4, 6, 3  # of 13 bands: at full resolution, at half of it, and at a sixth


class Raster(NamedTuple):
    """An image (H, W, bands) of uint16, and its true labels."""

    image: Array
    truth: Array


def raster(seed: int, shape: tuple[int, int] = (600, 700), bands: int = 13) -> Raster:
    """A scene with the labels 0 to 4 of CLASSES."""
    rng = np.random.default_rng(seed)
    y, x = np.indices(shape).astype(np.float64)
    warp = [_smooth(rng, shape, 40.0) * 12 for _ in range(2)]
    centres = rng.uniform(0, 1, (max(12, shape[0] * shape[1] // 6000), 2)) * shape
    from scipy.spatial import cKDTree

    _, parcel = cKDTree(centres).query(np.stack([y + warp[0], x + warp[1]], -1).reshape(-1, 2))
    parcel = parcel.reshape(shape)
    kind = np.where(rng.random(len(centres)) < 0.25, 2, 0)
    truth = kind[parcel].astype(np.uint8)
    truth[np.abs(_smooth(rng, shape, 90.0)) < 0.06] = 1  # rivers
    truth[_smooth(rng, shape, 60.0) > 1.5] = 1  # lakes
    truth[np.abs(_smooth(rng, shape, 120.0)) < 0.03] = 3
    for _ in range(shape[0] * shape[1] // 5000):  # roofs
        row, column = rng.uniform(0, 1, 2) * shape
        high, wide, angle = rng.uniform(6, 16), rng.uniform(6, 22), rng.uniform(0, np.pi)
        down, across = y - row, x - column
        u, v = down * np.cos(angle) + across * np.sin(angle), across * np.cos(angle) - down * np.sin(angle)
        inside = (np.abs(u) < high) & (np.abs(v) < wide)
        truth[inside & (truth == 0)] = 4
    wave = np.linspace(0, 1, bands)
    spectra = np.stack(
        [
            900 + 2600 / (1 + np.exp(-14 * (wave - 0.5))),
            700 * np.exp(-3 * wave),
            350 + 1700 / (1 + np.exp(-14 * (wave - 0.45))) - 500 * wave,
            1300 + 700 * wave,
            1900 + 900 * wave**2,
        ]
    )
    variety = rng.normal(1, 0.13, (len(centres), bands))
    level = spectra[truth] * np.where((truth == 0)[..., None], variety[parcel], 1)
    shade = 1 + 0.06 * _smooth(rng, shape, 1.5) + 0.05 * _smooth(rng, shape, 8.0)
    level = level * shade[..., None]
    for band in range(bands):
        coarse = 1 if bands <= FULL or band < FULL else 2 if band < FULL + HALF else 6
        plane = gaussian_filter(level[..., band], 0.6 * coarse) + 40 * rng.standard_normal(shape)
        if coarse > 1:
            small = plane[: shape[0] // coarse * coarse, : shape[1] // coarse * coarse]
            small = small.reshape(shape[0] // coarse, coarse, shape[1] // coarse, coarse).mean((1, 3))
            plane = zoom(small, [n / m for n, m in zip(shape, small.shape, strict=True)], order=1)
        level[..., band] = plane
    return Raster(np.clip(level, 0, 65535).astype(np.uint16), truth)


def rough_masks(truth: Array) -> dict[str, Array]:
    """The truth made rough in several ways, and the truth."""
    rng = np.random.default_rng(8117)
    moved = [_smooth(rng, truth.shape, 12.0) * 3.0 for _ in range(2)]
    rows, columns = (
        np.clip(np.rint(at + by).astype(int), 0, n - 1)
        for at, by, n in zip(np.indices(truth.shape), moved, truth.shape, strict=True)
    )
    shifted = np.roll(truth, (3, 4), (0, 1))
    blocks = truth[4::8, 4::8].repeat(8, 0).repeat(8, 1)
    padded = np.pad(blocks, [(0, max(n - m, 0)) for n, m in zip(truth.shape, blocks.shape, strict=True)], mode="edge")
    roofs = distance_transform_edt(truth != 4) <= 3
    return {
        "blocks of 8": padded[: truth.shape[0], : truth.shape[1]],
        "displaced 3": truth[rows, columns],
        "shifted 5": shifted,
        "roofs dilated 3": np.where(roofs, 4, truth).astype(np.uint8),
        "true": truth,
    }


def _smooth(rng: np.random.Generator, shape: tuple[int, ...], width: float) -> Array:
    """A Gaussian random field of unit variance and a width in pixels."""
    field = gaussian_filter(rng.standard_normal(shape), width, mode="wrap")
    return field / field.std()
