"""The operator "pydensecrf" equals that package's, if installed."""

from __future__ import annotations

import numpy as np
import pytest

from densefield.filters import LatticeFilter

dcrf = pytest.importorskip("pydensecrf.densecrf", reason="pydensecrf is not installed: pip install 'densefield[peers]'")


def peer_filter(features: np.ndarray, values: np.ndarray) -> np.ndarray:
    """K v by one step of pydensecrf's inference with two classes.

    With unary energies u, weight w and no normalisation, log q_0/q_1 after a step is u_1 - u_0 + w K(q_0 - q_1), and
    q_0 - q_1 before it is tanh((u_1 - u_0)/2).
    """
    points, weight = len(features), 1e-3  # small, so that marginals stay far from 0 and 1
    unary = np.zeros((2, points), np.float32)
    unary[1] = 2 * np.arctanh(values)
    crf = dcrf.DenseCRF(points, 2)
    crf.setUnaryEnergy(unary)
    crf.addPairwiseEnergy(
        np.ascontiguousarray(features.T), compat=weight, kernel=dcrf.CONST_KERNEL, normalization=dcrf.NO_NORMALIZATION
    )
    q, tmp1, tmp2 = crf.startInference()
    crf.stepInference(q, tmp1, tmp2)
    q = np.array(q, np.float64)
    return (np.log(q[0] / q[1]) - (unary[1] - unary[0])) / weight


@pytest.mark.parametrize("dimension", [2, 3, 5, 6])
@pytest.mark.parametrize("spread", [0.6, 2.0])
def test_results_equal_pydensecrf(dimension: int, spread: float) -> None:
    random = np.random.default_rng(dimension)
    features = (random.random((3000, dimension)) * 4 * spread).astype(np.float32)
    values = random.uniform(-0.9, 0.9, 3000).astype(np.float32)
    expected = peer_filter(features, values)
    found = LatticeFilter(features, operator="pydensecrf").apply(values[:, None])[:, 0]
    # The logarithm of a probability in float32, over the weight: 1e-7 / 1e-3, times a few.
    assert np.abs(found - expected).max() < 2e-3
    assert np.abs(found - expected).mean() < 3e-4
    if spread < 1:
        assert np.abs(found).mean() > 1  # a sum worth comparing


def test_results_equal_pydensecrf_for_pixels_on_faces_of_simplices() -> None:
    y, x = np.mgrid[:40, :50]
    colour = np.stack([x * 5 % 256, y * 6 % 256, (x + y) % 7 * 30], axis=-1)
    features = np.concatenate([np.stack([x, y], axis=-1) / 10, colour / 20], axis=-1).reshape(-1, 5).astype(np.float32)
    values = np.random.default_rng(4).uniform(-0.9, 0.9, len(features)).astype(np.float32)
    found = LatticeFilter(features, operator="pydensecrf").apply(values[:, None])[:, 0]
    error = np.abs(found - peer_filter(features, values))
    assert error.max() < 5e-3
    assert error.mean() < 3e-4
