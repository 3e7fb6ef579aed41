"""Scripts for pydensecrf run unchanged with the drop-in and give the same results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

# Every script stores its output in `results`, which is saved to the file of its first argument.
BEGIN = """
import sys
import numpy as np
import pydensecrf.densecrf as dcrf
from pydensecrf.utils import (
    create_pairwise_bilateral, create_pairwise_gaussian, unary_from_labels, unary_from_softmax)
results = {}
rng = np.random.default_rng(1907)
H, W, L = 40, 56, 3
rows, columns = np.mgrid[:H, :W]
img = np.zeros((H, W, 3), np.uint8)
img[(rows - 20) ** 2 + (columns - 25) ** 2 < 150] = (200, 60, 90)
img[:, 45:] = (30, 120, 220)
img = np.clip(img + rng.integers(0, 25, img.shape), 0, 255).astype(np.uint8)
truth = np.where(img[..., 0] > 100, 1, np.where(img[..., 2] > 150, 2, 0))
noisy = np.where(rng.random((H, W)) < 0.35, rng.integers(0, L, (H, W)), truth)
"""
END = """
np.savez(sys.argv[1], **results)
"""

FROM_A_SOFTMAX = """
probs = np.full((L, H, W), 0.2)
for label in range(L):
    probs[label][noisy == label] = 0.6
U = unary_from_softmax(probs)
d = dcrf.DenseCRF2D(W, H, L)
d.setUnaryEnergy(U)
d.addPairwiseGaussian(sxy=3, compat=3)
d.addPairwiseBilateral(sxy=80, srgb=13, rgbim=img, compat=10)
Q = d.inference(5)
results['Q'] = np.array(Q)
results['map'] = np.argmax(Q, axis=0).reshape((H, W))
results['soft'] = np.asarray(Q).reshape((L, H, W))
"""

FROM_LABELS = """
labels = noisy + 1
labels[rng.random((H, W)) < 0.2] = 0
d = dcrf.DenseCRF2D(W, H, L)
d.setUnaryEnergy(unary_from_labels(labels, L, gt_prob=0.7, zero_unsure=True))
d.addPairwiseGaussian(sxy=(3, 3), compat=3, kernel=dcrf.DIAG_KERNEL, normalization=dcrf.NORMALIZE_SYMMETRIC)
d.addPairwiseBilateral(sxy=(80, 80), srgb=(13, 13, 13), rgbim=img, compat=10,
                       kernel=dcrf.DIAG_KERNEL, normalization=dcrf.NORMALIZE_SYMMETRIC)
results['Q'] = np.array(d.inference(5))
"""

WITHOUT_TWO_DIMENSIONS = """
d = dcrf.DenseCRF(img.shape[0] * img.shape[1], L)
d.setUnaryEnergy(unary_from_labels(noisy, L, gt_prob=0.7, zero_unsure=False))
feats = create_pairwise_gaussian(sdims=(3, 3), shape=img.shape[:2])
d.addPairwiseEnergy(feats, compat=3, kernel=dcrf.DIAG_KERNEL, normalization=dcrf.NORMALIZE_SYMMETRIC)
feats = create_pairwise_bilateral(sdims=(80, 80), schan=(13, 13, 13), img=img, chdim=2)
d.addPairwiseEnergy(feats, compat=10, kernel=dcrf.DIAG_KERNEL, normalization=dcrf.NORMALIZE_SYMMETRIC)
results['Q'] = np.array(d.inference(5))
"""

STEP_BY_STEP = """
d = dcrf.DenseCRF2D(W, H, L)
d.setUnaryEnergy(unary_from_labels(noisy, L, 0.7, zero_unsure=False))
d.addPairwiseGaussian(sxy=(3, 3), compat=3)
d.addPairwiseBilateral(sxy=(80, 80), srgb=(13, 13, 13), rgbim=img, compat=10)
Q, tmp1, tmp2 = d.startInference()
divergences = []
for i in range(5):
    divergences.append(d.klDivergence(Q))
    print("KL-divergence at {}: {}".format(i, divergences[-1]))
    d.stepInference(Q, tmp1, tmp2)
results['kl'] = np.array(divergences)
results['Q'] = np.array(Q)
"""

FIVE_CHANNELS = """
channels = np.dstack([img.astype(np.float32), rows * 2.0, rng.normal(100, 20, (H, W))])
probs = np.moveaxis(np.where(noisy[..., None] == np.arange(L), 0.7, 0.15), -1, 0).astype(np.float32)
d = dcrf.DenseCRF2D(W, H, L)
d.setUnaryEnergy(np.ascontiguousarray(unary_from_softmax(probs, scale=0.9)))
d.addPairwiseEnergy(create_pairwise_gaussian(sdims=(3, 3), shape=(H, W)), compat=2)
d.addPairwiseEnergy(create_pairwise_bilateral(sdims=(20, 20), schan=(20, 20, 20, 30, 40), img=channels, chdim=2),
                    compat=5, normalization=dcrf.NORMALIZE_AFTER)
results['Q'] = np.array(d.inference(4))
"""

ONE_CHANNEL_OF_A_VOLUME = """
volume = rng.normal(0, 1, (6, 10, 12)).cumsum(axis=0).astype(np.float32)
u = rng.normal(0, 1, (2, volume.size)).astype(np.float32)
d = dcrf.DenseCRF(volume.size, 2)
d.setUnaryEnergy(u)
d.addPairwiseEnergy(create_pairwise_bilateral(sdims=(2, 3, 3), schan=(0.5,), img=volume), compat=2)
results['Q'] = np.array(d.inference(6))
"""

COMPATIBILITIES_AND_LOGISTIC_UNARIES = """
weights = rng.normal(0, 1, (L, 5)).astype(np.float32)
features = rng.normal(0, 1, (5, H * W)).astype(np.float32)
d = dcrf.DenseCRF2D(W, H, L)
d.setUnary(dcrf.LogisticUnary(weights, features))
d.addPairwiseGaussian(sxy=2, compat=np.array([-1, -2, 0.5], np.float32))
compat = -np.eye(L, dtype=np.float32)
compat[0, 2] = 1.5
d.addPairwiseBilateral(sxy=20, srgb=20, rgbim=img, compat=compat, normalization=dcrf.NORMALIZE_BEFORE)
results['Q'] = np.array(d.inference(5))
d.setUnary(dcrf.ConstUnary(unary_from_labels(noisy, L, 0.7, zero_unsure=False)))
results['again'] = np.array(d.inference(5))
"""

FROM_AN_ANNOTATED_PHOTO = """
from PIL import Image
img = np.array(Image.open(sys.argv[2]).convert('RGB'))
anno = np.array(Image.open(sys.argv[3]).convert('RGB')).astype(np.uint32)
colors, labels = np.unique(anno[..., 0] + (anno[..., 1] << 8) + (anno[..., 2] << 16), return_inverse=True)
has_unknown = 0 in colors
n_labels = len(colors) - (1 if has_unknown else 0)
U = unary_from_labels(labels.flatten(), n_labels, gt_prob=0.7, zero_unsure=has_unknown)
crf = dcrf.DenseCRF2D(img.shape[1], img.shape[0], n_labels)
crf.setUnaryEnergy(U)
crf.addPairwiseGaussian(sxy=(3, 3), compat=3, kernel=dcrf.DIAG_KERNEL, normalization=dcrf.NORMALIZE_SYMMETRIC)
crf.addPairwiseBilateral(sxy=(80, 80), srgb=(13, 13, 13), rgbim=img, compat=10, kernel=dcrf.DIAG_KERNEL,
                         normalization=dcrf.NORMALIZE_SYMMETRIC)
Q, tmp1, tmp2 = crf.startInference()
for i in range(5):
    crf.stepInference(Q, tmp1, tmp2)
results['Q'] = np.array(Q)
results['kl'] = np.array([crf.klDivergence(Q)])
"""

SCRIPTS = {
    "from a softmax": FROM_A_SOFTMAX,
    "from labels": FROM_LABELS,
    "without two dimensions": WITHOUT_TWO_DIMENSIONS,
    "step by step": STEP_BY_STEP,
    "five channels": FIVE_CHANNELS,
    "one channel of a volume": ONE_CHANNEL_OF_A_VOLUME,
    "compatibilities and logistic unaries": COMPATIBILITIES_AND_LOGISTIC_UNARIES,
}


def run(options: list[str], script: Path, out: Path, arguments: list[str]) -> dict[str, np.ndarray]:
    command = [sys.executable, *options, str(script), str(out), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stderr
    with np.load(out) as stored:
        return dict(stored)


def assert_runs_alike(body: str, folder: Path, *arguments: str) -> None:
    script = folder / "script.py"
    script.write_text(BEGIN + body + END, encoding="utf-8")
    expected = run([], script, folder / "theirs.npz", list(arguments))
    found = run(["-m", "densefield.pydensecrf"], script, folder / "ours.npz", list(arguments))
    assert expected.keys() == found.keys() and "Q" in found
    for name, theirs in expected.items():
        if name == "kl":
            np.testing.assert_allclose(found[name], theirs, rtol=1e-4)  # they sum in float32
        elif name == "map":
            assert (found[name] == theirs).mean() > 0.999  # except for ties
        else:
            assert np.abs(found[name] - theirs).max() < 1e-4
            assert np.abs(found[name] - theirs).mean() < 1e-6


@pytest.fixture(autouse=True)
def _peer():
    pytest.importorskip("pydensecrf", reason="pydensecrf is not installed: pip install 'densefield[peers]'")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs_unchanged(tmp_path, name):
    assert_runs_alike(SCRIPTS[name], tmp_path)


@pytest.mark.parametrize("photo, annotation", [("im1", "anno1"), ("im2", "anno2"), ("im3", "anno3")])
def test_annotated_photos_of_pydensecrf_are_reproduced(shared, tmp_path, photo, annotation):
    pytest.importorskip("PIL")
    folder = shared / "data" / "pydensecrf-examples"
    assert_runs_alike(
        FROM_AN_ANNOTATED_PHOTO, tmp_path, str(folder / f"{photo}.png"), str(folder / f"{annotation}.png")
    )
