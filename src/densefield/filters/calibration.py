"""The factor that makes K·1 equal the exact Gaussian sum on average: the readable twin of the native one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Indices = npt.NDArray[np.int64]

_WANTED_SAMPLES = 512
_PER_CHECKED = 8  # one sample in so many is summed over points too


def calibrated_magnitude(
    features: Tensor,  # (N, d)
    elevated: Tensor,  # (N, d+1)
    keys: Tensor,  # (M, d+1), the vertices' coordinates
    mass: Tensor,  # (M,), ones splatted
    filtered: Tensor,  # (N,), ones splatted, blurred and sliced
    width: float,  # of one feature unit in the plane of the lattice
) -> float:
    """1 / mean_i (K·1)_i / Σ_j exp(-½‖x_i - x_j‖²) over a sample of points i.

    At most of them the sum runs over vertices with the mass splatted on them instead of points. Splatting adds the
    variance s² = (d+1)²/12 to every direction of the lattice, so the Gaussian is made narrower by as much:
    exp(-½ r²/(1-s²)) / (1-s²)^(d/2) in units of widths. How near that is shows where both sums are taken.
    """
    dimension = features.shape[1]
    samples = calibration_samples(features.detach().cpu().numpy())
    checked = samples[:: _PER_CHECKED if len(features) > _WANTED_SAMPLES else 1]
    vertices = keys.to(elevated.dtype) / width
    narrow = 1 - (dimension + 1) ** 2 / (12 * width**2)

    def vertex_sum(point: int) -> Tensor:
        squared = ((vertices - elevated[point] / width) ** 2).sum(1)
        return (torch.exp(-0.5 * squared / narrow) * mass.to(elevated.dtype)).sum() * float(narrow ** (-dimension / 2))

    def point_sum(point: int) -> Tensor:
        return torch.exp(-0.5 * ((features - features[point]) ** 2).sum(1)).sum()

    def mean_of(points: Indices, ratio: Callable[[int], Tensor]) -> float:
        return float(torch.stack([ratio(int(point)) for point in points]).mean())

    filtered_over_vertices = mean_of(samples, lambda point: filtered[point] / vertex_sum(point))
    vertices_over_points = mean_of(checked, lambda point: vertex_sum(point) / point_sum(point))
    return 1 / (filtered_over_vertices * vertices_over_points)


def calibration_samples(features: npt.NDArray[np.float32] | npt.NDArray[np.float64]) -> Indices:
    """Up to 512 points (N, d), chosen by their own features: the order of points does not matter.

    They lie at even distances in the order of fingerprints, so equal points count as often as they are.
    """
    points, count = len(features), min(len(features), _WANTED_SAMPLES)
    if count == points:
        return np.arange(points)
    bits = (features.astype(np.float64) + 0.0).view(np.uint64)  # -0 counts as 0
    steps = np.arange(features.shape[1], dtype=np.uint64)
    odd = np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x7F4A7C15F39CC060) * steps
    fingerprint = (bits * odd).sum(axis=1, dtype=np.uint64)
    for _ in range(2):
        fingerprint = (fingerprint ^ (fingerprint >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    ranks = (2 * np.arange(count) + 1) * points // (2 * count)
    return np.argsort(fingerprint, kind="stable")[ranks]
