"""Finds the window of the coarser grid that GridFilter uses for wide kernels.

    python benchmarks/fit_grid_window.py

For pixels at any two places between nodes, K = P G Pᵀ is compared with the Gaussian itself in float64; the
sharpness β with the smallest worst error is WINDOW_SHARPNESS in densefield/filters/grid_axis.py. Prints it,
its error, and the errors beside it.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from densefield import _core
from densefield.filters.grid_axis import NODE_SPACING, WINDOW_SHARPNESS, node_blur, node_weights


def worst_error(sharpness: float, places: int = 48, reach: int = 20) -> float:
    """max |K(x,y) - exp(-½(x-y)²/sigma²)| over places x, y within cells up to `reach` nodes apart."""
    support = _core.GRID_SUPPORT
    theta = np.arange(-512, 512) * (np.pi / 512)
    steps = np.arange(reach + support + 1)
    taps = np.cos(np.outer(steps, theta)) @ node_blur(theta, sharpness) / len(theta)
    x = np.arange(places) / places  # in nodes
    k = np.arange(support)
    weights = node_weights(x, sharpness)  # (places, support)
    worst = 0.0
    for apart in range(-reach, reach + 1):
        blur = taps[np.abs(apart + k - k[:, None])]
        truth = np.exp(-0.5 * (NODE_SPACING * (x[:, None] - apart - x)) ** 2)
        worst = max(worst, float(np.abs(weights @ blur @ weights.T - truth).max()))
    return worst


def main() -> None:
    """Prints the fit and its surroundings."""
    fit = minimize_scalar(lambda b: np.log(worst_error(b)), bounds=(14.0, 24.0), method="bounded")
    print(f"support {_core.GRID_SUPPORT} nodes, {NODE_SPACING} sigma apart: best sharpness {fit.x:.2f}")
    for sharpness in (fit.x - 1, fit.x, WINDOW_SHARPNESS, fit.x + 1):
        print(f"  sharpness {sharpness:6.2f}: worst error {worst_error(sharpness):.1e} of the peak")


if __name__ == "__main__":
    main()
