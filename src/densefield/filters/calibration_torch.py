"""The factor that makes K·1 equal the exact Gaussian sum on average: the readable twin of the native one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_WANTED_SAMPLES = 256


def calibrated_magnitude(
    features: Tensor,  # (N, d)
    elevated: Tensor,  # (N, d+1)
    keys: Tensor,  # (M, d+1), the vertices' coordinates
    mass: Tensor,  # (M,), ones splatted
    filtered: Tensor,  # (N,), ones splatted, blurred and sliced
    width: float,  # of one feature unit in the plane of the lattice
) -> float:
    """1 / mean_i (K·1)_i / Σ_j exp(-½‖x_i - x_j‖²) over a sample of points i.

    The sum runs over vertices with the mass splatted on them instead of points. Splatting adds the variance
    s² = (d+1)²/12 to every direction of the lattice, so the Gaussian is made narrower by as much:
    exp(-½ r²/(1-s²)) / (1-s²)^(d/2) in units of widths.
    """
    dimension = features.shape[1]
    samples = torch.as_tensor(calibration_samples(features.detach().cpu().numpy()), device=features.device)
    here, vertices = elevated[samples] / width, keys.to(elevated.dtype) / width
    narrow = 1 - (dimension + 1) ** 2 / (12 * width**2)
    squared = torch.stack([((vertices - point) ** 2).sum(1) for point in here])
    sums = torch.exp(-0.5 * squared / narrow) @ mass.to(elevated.dtype) * narrow ** (-dimension / 2)
    return 1 / float((filtered[samples].to(elevated.dtype) / sums).mean())


def calibration_samples(features: npt.NDArray[np.float32] | npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """About 256 points, chosen by their own features, so that the order of points does not matter."""
    if len(features) <= _WANTED_SAMPLES:
        return np.arange(len(features))
    bits = (features.astype(np.float64) + 0.0).view(np.uint64)  # -0 counts as 0
    odd = np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x7F4A7C15F39CC060) * np.arange(features.shape[1], dtype=np.uint64)
    print_ = (bits * odd).sum(axis=1, dtype=np.uint64)
    for _ in range(2):
        print_ = (print_ ^ (print_ >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    chosen = np.flatnonzero(print_ < np.uint64((2**64 - 1) // len(features) * _WANTED_SAMPLES))
    if len(chosen) == 0:  # equal points have equal fingerprints: all of them may be chosen, or none
        chosen = np.array([int(np.argmin(print_))])
    return chosen[: 4 * _WANTED_SAMPLES]
