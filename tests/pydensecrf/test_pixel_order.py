"""DenseCRF2D uses a pixel order internally and equals DenseCRF, which does not, on the same features."""

from __future__ import annotations

import numpy as np
import pytest

import densefield.pydensecrf.densecrf as dcrf
from densefield.crf.features import grid_positions

W, H, L = 150, 120, 4
IMAGE = np.random.default_rng(9).integers(0, 256, (H // 10, W // 10, 3), np.uint8).repeat(10, 0).repeat(10, 1)
ENERGIES = np.random.default_rng(10).normal(0, 2, (L, W * H)).astype(np.float32)
# Lattice sums in another order, with total weights of 12. Measured: 2e-6.
ROUNDING = 8e-6


def position_features(width: float) -> np.ndarray:
    return grid_positions((H, W)) / np.float32(width)


def both(compat: object) -> tuple[dcrf.DenseCRF, dcrf.DenseCRF]:
    ordered, plain = dcrf.DenseCRF2D(W, H, L), dcrf.DenseCRF(W * H, L)
    positions, colours = position_features(3), np.hstack([position_features(40), IMAGE.reshape(-1, 3) / np.float32(13)])
    ordered.addPairwiseGaussian(sxy=3, compat=compat)
    ordered.addPairwiseBilateral(sxy=40, srgb=13, rgbim=IMAGE, compat=compat)
    ordered.addPairwiseEnergy(colours.T, compat=compat)
    plain.addPairwiseEnergy(positions.T, compat=compat)
    plain.addPairwiseEnergy(colours.T, compat=compat)
    plain.addPairwiseEnergy(np.ascontiguousarray(colours.T), compat=compat)
    for crf in (ordered, plain):
        crf.setUnaryEnergy(ENERGIES)
    assert ordered._order is not None and plain._order is None
    return ordered, plain


def test_features_may_be_fields_of_packed_records() -> None:
    records = np.zeros(W * H, [("flag", "u1"), ("features", "f4", (2,))])
    records["features"] = position_features(3)
    found = []
    for features in (records["features"].T, np.ascontiguousarray(records["features"].T)):
        crf = dcrf.DenseCRF2D(W, H, L)
        crf.setUnaryEnergy(ENERGIES)
        crf.addPairwiseEnergy(features, 3.0)
        found.append(np.array(crf.inference(2)))
    assert np.array_equal(*found)


@pytest.mark.parametrize("compat", [3, np.array([-1, -2, -3, -4], np.float32), -np.eye(L, dtype=np.float32)])
def test_inference_and_steps_agree(compat: object) -> None:
    ordered, plain = both(compat)
    q, p = np.array(ordered.inference(4)), np.array(plain.inference(4))
    assert np.abs(p - np.array(plain.inference(0))).max() > 0.1
    np.testing.assert_allclose(q, p, atol=ROUNDING)
    Q, *rest = ordered.startInference()
    for _ in range(4):
        ordered.stepInference(Q, *rest)
    np.testing.assert_allclose(np.array(Q), p, atol=ROUNDING)
    assert ordered.klDivergence(Q) == pytest.approx(plain.klDivergence(Q), rel=1e-5)
