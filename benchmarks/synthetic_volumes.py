"""Synthetic CT and MR volumes with known truth, and rough masks of them.

The intensities, widths and noise are those of usual scans: Hounsfield units of organs with contrast agent, partial
volumes at edges, correlated noise of 20 HU; grey and white matter with a bias field and Rician noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt, gaussian_filter

Array = npt.NDArray[Any]
Spacing = tuple[float, float, float]  # mm along x, y, z


@dataclass(frozen=True)
class Scan:
    """A volume (D, H, W), its true labels, and the size of a voxel in mm along x, y, z."""

    image: Array
    truth: Array
    spacing: Spacing


def ct_abdomen(seed: int, shape: tuple[int, int, int] = (40, 128, 160), spacing: Spacing = (2.0, 2.0, 4.0)) -> Scan:
    """Liver, spleen, two kidneys and a vessel: labels 1 to 5, in soft tissue with fat and bones; int16 in HU."""
    rng = np.random.default_rng(seed)
    place = _positions(shape, spacing)
    bend = [_smooth(rng, shape, spacing, 25.0) * 6 for _ in range(3)]
    place = [p + b for p, b in zip(place, bend, strict=True)]
    half = [n * s / 2 for n, s in zip(reversed(shape), spacing, strict=True)]

    def ellipsoid(x: float, y: float, z: float, a: float, b: float, c: float) -> Array:
        jitter = rng.uniform(0.9, 1.1, 6)
        centre, radii = np.array([x, y, z]) * half * jitter[:3], np.array([a, b, c]) * half * jitter[3:]
        return sum(((p - m) / r) ** 2 for p, m, r in zip(place, centre, radii, strict=True)) < 1

    body = ellipsoid(0, 0, 0, 0.88, 0.85, 9)
    muscle = ellipsoid(0, 0, 0, 0.78, 0.72, 9)
    hounsfield = np.full(shape, -1000.0)
    hounsfield[body] = -100
    hounsfield[muscle] = 55
    for _ in range(14):  # fat between the organs, and bowel
        x, y, z = rng.uniform(-0.6, 0.6, 3)
        hounsfield[ellipsoid(x, y, z, 0.12, 0.12, 0.25) & muscle] = rng.choice([-90, 20, 35])
    hounsfield[ellipsoid(0, 0.5, 0, 0.15, 0.16, 9)] = 450
    truth = np.zeros(shape, np.uint8)
    organs = [(-0.36, -0.1, 0, 0.36, 0.42, 0.7), (0.5, 0.15, 0.1, 0.16, 0.26, 0.5), (-0.3, 0.45, -0.1, 0.13, 0.16, 0.5)]
    organs += [(0.3, 0.45, -0.1, 0.13, 0.16, 0.5), (0.05, 0.2, 0, 0.07, 0.09, 9)]
    for label, (organ, level) in enumerate(zip(organs, (110, 125, 170, 175, 150), strict=True), 1):
        inside = ellipsoid(*organ) & muscle
        truth[inside] = label
        hounsfield[inside] = level
    texture = _smooth(rng, shape, spacing, 6.0) * 6
    sharp = gaussian_filter(hounsfield, [0.8 / s for s in reversed(spacing)])  # the scanner's resolution
    noise = gaussian_filter(rng.standard_normal(shape), (0, 0.7, 0.7))
    image = sharp + texture + 20 * noise / noise.std()
    return Scan(np.clip(np.rint(image), -1024, 3071).astype(np.int16), truth, spacing)


def mr_brain(seed: int, shape: tuple[int, int, int] = (56, 112, 96), spacing: Spacing = (1.5, 1.5, 2.0)) -> Scan:
    """White matter, grey matter and ventricles: labels 1 to 3; uint16 in a scanner's arbitrary unit."""
    rng = np.random.default_rng(seed)
    x, y, z = _positions(shape, spacing)
    half = [n * s / 2 for n, s in zip(reversed(shape), spacing, strict=True)]
    folds = _smooth(rng, shape, spacing, 5.0) * 0.13 + _smooth(rng, shape, spacing, 12.0) * 0.08
    radius = np.sqrt((x / half[0] / 0.8) ** 2 + (y / half[1] / 0.85) ** 2 + (z / half[2] / 0.85) ** 2)
    brain = radius < 0.88
    truth = np.zeros(shape, np.uint8)
    truth[brain] = 2
    truth[brain & (radius + folds < 0.66)] = 1
    wings = (np.abs(x / half[0]) - 0.12) ** 2 / 0.006 + (y / half[1]) ** 2 / 0.06 + (z / half[2]) ** 2 / 0.06
    truth[wings + 2 * folds < 1] = 3
    level = np.zeros(shape)
    level[radius < 1.08] = 0.9  # skull and scalp
    level[radius < 0.97] = 0.25  # liquor
    level = np.where(brain, np.array([0, 1.0, 0.72, 0.22])[truth], level)
    bias = 1 + 0.12 * _smooth(rng, shape, spacing, 50.0)
    sharp = gaussian_filter(level, [0.7 / s for s in reversed(spacing)]) * bias
    real, imaginary = (0.045 * rng.standard_normal(shape) for _ in range(2))
    scanned = np.hypot(sharp + real, imaginary)  # Rician noise
    scanned[rng.random(shape) < 2e-5] *= 6  # flow and spikes, which stretch the range
    return Scan((scanned * 1100).astype(np.uint16), truth, spacing)


def rough_masks(scan: Scan) -> dict[str, Array]:
    """The truth made rough in several ways, and the truth."""
    return {name: make(scan.truth, scan.spacing) for name, make in RECIPES.items()}


def displaced(labels: Array, spacing: Spacing, length: float, width: float) -> Array:
    """Labels whose borders are moved by a smooth random field, `length` mm (standard deviation) over `width` mm."""
    rng = np.random.default_rng(8117)
    steps = [length * _smooth(rng, labels.shape, spacing, width) / s for s in reversed(spacing)]
    places = [
        np.clip(np.rint(p + d).astype(int), 0, n - 1)
        for p, d, n in zip(np.indices(labels.shape), steps, labels.shape, strict=True)
    ]
    return labels[tuple(places)]


def grown(labels: Array, spacing: Spacing, length: float) -> Array:
    """Labels dilated by `length` mm into the background, or eroded by it if it is negative."""
    sampling = tuple(reversed(spacing))
    if length < 0:
        return np.where(distance_transform_edt(labels > 0, sampling) > -length, labels, 0).astype(labels.dtype)
    far, (z, y, x) = distance_transform_edt(labels == 0, sampling, return_indices=True)
    return np.where(far <= length, labels[z, y, x], 0).astype(labels.dtype)


def blocks(labels: Array, spacing: Spacing, side: float) -> Array:
    """Labels at cubes of `side` mm."""
    steps = [max(1, round(side / s)) for s in reversed(spacing)]
    out = labels
    for axis, step in enumerate(steps):
        n = labels.shape[axis]
        out = np.take(out, np.minimum(np.arange(n) // step * step + step // 2, n - 1), axis)
    return out


RECIPES: dict[str, Callable[[Array, Spacing], Array]] = {
    "dilated 4 mm": lambda labels, spacing: grown(labels, spacing, 4.1),
    "eroded 4 mm": lambda labels, spacing: grown(labels, spacing, -4.1),
    "cubes 8 mm": lambda labels, spacing: blocks(labels, spacing, 8.0),
    "displaced 3 mm": lambda labels, spacing: displaced(labels, spacing, 3.0, 10.0),
    "true": lambda labels, spacing: labels,
}


def _positions(shape: tuple[int, ...], spacing: Spacing) -> list[Array]:
    """x, y, z of each voxel in mm from the centre."""
    grids = np.meshgrid(*[(np.arange(n) - (n - 1) / 2) for n in shape], indexing="ij", sparse=True)
    return [grid * step for grid, step in zip(reversed(grids), spacing, strict=True)]


def _smooth(rng: np.random.Generator, shape: tuple[int, ...], spacing: Spacing, width: float) -> Array:
    """A Gaussian random field of unit variance and a width in mm."""
    field = gaussian_filter(rng.standard_normal(shape), [width / s for s in reversed(spacing)], mode="wrap")
    return field / field.std()
