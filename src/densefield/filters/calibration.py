"""Calibration of a lattice's magnitude in torch operations: the reference of the native code."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Indices = npt.NDArray[np.int64]

_MAX_SAMPLES = 512
_CHECK_EVERY = 8  # every eighth sample is summed over points too
_MAX_DIFFERENCES = 1 << 21  # at a time


def calibrated_magnitude(
    features: Tensor,  # (N, d)
    elevated: Tensor,  # (N, d+1)
    keys: Tensor,  # (M, d+1), the vertices' coordinates
    mass: Tensor,  # (M,), ones splatted
    filtered: Tensor,  # (N,), ones splatted, blurred and sliced
    width: float,  # of one feature unit in the plane of the lattice
) -> float:
    """Return 1 / mean_i (K·1)_i / Σ_j exp(-½‖x_i - x_j‖²) over a sample of points i.

    For most samples the sum runs over vertices and the mass splatted on them, which is faster than over points.
    Splatting adds the variance s² = (d+1)²/12 to every direction of the lattice, so the Gaussian is narrowed by it:
    exp(-½ r²/(1-s²)) / (1-s²)^(d/2) in units of widths. Samples with both sums give the remaining factor.
    """
    dimension = features.shape[1]
    samples = torch.from_numpy(calibration_samples(features.detach().cpu().numpy())).to(features.device)
    step = _CHECK_EVERY if len(features) > _MAX_SAMPLES else 1
    narrow = 1 - (dimension + 1) ** 2 / (12 * width**2)
    vertices, mass = keys.to(elevated.dtype) / width, mass.to(elevated.dtype)
    over_vertices = _gaussian_sums(elevated[samples] / width, vertices, mass, narrow) * float(
        narrow ** (-dimension / 2)
    )
    over_points = _gaussian_sums(features[samples[::step]], features, torch.ones_like(features[:, 0]), 1.0)
    filtered_over_vertices = (filtered[samples] / over_vertices).mean()
    vertices_over_points = (over_vertices[::step] / over_points).mean()
    return 1 / (float(filtered_over_vertices) * float(vertices_over_points))


def _gaussian_sums(
    samples: Tensor,  # (S, k)
    points: Tensor,  # (P, k)
    mass: Tensor,  # (P,)
    variance: float,
) -> Tensor:
    """Σ_j m_j exp(-½‖s_i - p_j‖²/variance), (S,)."""
    together = max(1, _MAX_DIFFERENCES // points.numel())
    sums = []
    for first in range(0, len(samples), together):
        squared = ((samples[first : first + together, None] - points) ** 2).sum(2)
        sums.append(torch.exp(-0.5 / variance * squared) @ mass)
    return torch.cat(sums)


def calibration_samples(features: npt.NDArray[np.float32] | npt.NDArray[np.float64]) -> Indices:
    """Choose up to 512 of the points (N, d) by hashes of their features, independently of the order of points.

    They are evenly spaced in the order of hashes, so repeated points are chosen in proportion.
    """
    points, count = len(features), min(len(features), _MAX_SAMPLES)
    if count == points:
        return np.arange(points)
    bits = (features.astype(np.float64) + 0.0).view(np.uint64)  # + 0.0 turns -0 into 0
    steps = np.arange(features.shape[1], dtype=np.uint64)
    odd = np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x7F4A7C15F39CC060) * steps
    hashes = (bits * odd).sum(axis=1, dtype=np.uint64)
    for _ in range(2):
        hashes = (hashes ^ (hashes >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    ranks = (2 * np.arange(count) + 1) * points // (2 * count)
    return np.argsort(hashes, kind="stable")[ranks]
