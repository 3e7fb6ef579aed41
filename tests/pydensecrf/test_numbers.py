"""Marginals equal those of pydensecrf, if installed."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import densefield.pydensecrf.densecrf as ours

from .conftest import HEIGHT, WIDTH, smooth_energies

theirs = pytest.importorskip(
    "pydensecrf.densecrf", reason="pydensecrf is not installed: pip install 'densefield[peers]'"
)

NORMALIZATIONS = ("NO_NORMALIZATION", "NORMALIZE_BEFORE", "NORMALIZE_AFTER", "NORMALIZE_SYMMETRIC")
PARAMETERS = {  # widths in pixels, pixels and levels; weights of the two kernels
    "3 & 60/10": (3, 60, 10, 3, 5),
    "3 & 67/3": (3, 67, 3, 3, 4),
    "1 & 80/13": (1, 80, 13, 2, 10),
}


def solve(
    crf: ModuleType, image: np.ndarray, energies: np.ndarray, parameters: tuple[float, ...], normalization: str
) -> tuple[np.ndarray, float]:
    sxy, wide, srgb, weight, strong = parameters
    if normalization == "NO_NORMALIZATION":  # sums over hundreds of pixels need small weights
        weight, strong = weight / 50, strong / 500
    height, width, _ = image.shape
    d = crf.DenseCRF2D(width, height, len(energies))
    d.setUnaryEnergy(energies)
    d.addPairwiseGaussian(sxy=sxy, compat=weight, normalization=getattr(crf, normalization))
    d.addPairwiseBilateral(sxy=wide, srgb=srgb, rgbim=image, compat=strong, normalization=getattr(crf, normalization))
    q = d.inference(5)
    return np.array(q), d.klDivergence(q)


def assert_same(image: np.ndarray, energies: np.ndarray, parameters: tuple[float, ...], normalization: str) -> None:
    expected, expected_kl = solve(theirs, image, energies, parameters, normalization)
    found, found_kl = solve(ours, image, energies, parameters, normalization)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    # Float32 sums in another order, over five iterations.
    assert np.abs(found - expected).max() < 1e-4
    assert np.abs(found - expected).mean() < 1e-6
    assert found_kl == pytest.approx(expected_kl, rel=1e-4)  # they sum pixels in float32
    start = np.exp(-energies) / np.exp(-energies).sum(axis=0)
    assert np.abs(found - start).max() > 0.3  # the kernels have an effect


@pytest.mark.parametrize("parameters", PARAMETERS)
@pytest.mark.parametrize("photo", ["astronaut", "chelsea", "coffee"])
def test_marginals_are_the_same_on_photos(photos, photo, parameters):
    for labels in (21, 2):
        energies = smooth_energies(labels, seed=6173)
        for normalization in NORMALIZATIONS:
            assert_same(photos[photo], energies, PARAMETERS[parameters], normalization)


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_marginals_are_the_same_on_pascal_images(shared, parameters):
    pillow = pytest.importorskip("PIL.Image")
    transform = pytest.importorskip("skimage.transform")
    for path in sorted((shared / "data" / "logits").glob("*.npz"))[:3]:
        photo = pillow.open(shared / "data" / "VOCdevkit" / "VOC2012" / "JPEGImages" / f"{path.stem}.jpg")
        image = np.array(photo.convert("RGB"))
        with np.load(path) as stored:
            logits = transform.resize(stored["logits"].astype(np.float32), (21, *image.shape[:2]), order=1)
        corner = np.s_[..., :200, :250]
        energies = -np.ascontiguousarray(logits[corner]).reshape(21, -1)
        image = np.ascontiguousarray(image[corner[1:]])
        assert_same(image, energies, PARAMETERS[parameters], "NORMALIZE_SYMMETRIC")


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_energies_for_labels_and_pairs_of_labels_act_with_the_same_sign(photos, normalization):
    random = np.random.default_rng(271)
    labels = 4
    energies = smooth_energies(labels, seed=88)
    each = random.normal(0, 1, labels).astype(np.float32)
    pairs = random.normal(0, 1, (labels, labels)).astype(np.float32)  # not symmetric
    factor = np.float32(0.02 if normalization == "NO_NORMALIZATION" else 1)
    results = []
    for crf in (theirs, ours):
        d = crf.DenseCRF2D(WIDTH, HEIGHT, labels)
        d.setUnaryEnergy(energies)
        d.addPairwiseGaussian((3, 5), compat=each * factor, normalization=getattr(crf, normalization))
        d.addPairwiseBilateral(
            (30, 40), (10, 20, 30), photos["coffee"], compat=pairs * factor, normalization=getattr(crf, normalization)
        )
        results.append(np.array(d.inference(4)))
    assert np.abs(results[1] - results[0]).max() < 1e-4


@pytest.mark.parametrize("kernel", ["CONST_KERNEL", "DIAG_KERNEL", "FULL_KERNEL"])
def test_every_kind_of_kernel_gives_the_same_marginals(kernel):
    random = np.random.default_rng(5501)
    features = random.normal(0, 1, (4, 500)).astype(np.float32)
    energies = random.normal(0, 1, (3, 500)).astype(np.float32)
    results = []
    for crf in (theirs, ours):
        d = crf.DenseCRF(500, 3)
        d.setUnaryEnergy(energies)
        d.addPairwiseEnergy(features, compat=2, kernel=getattr(crf, kernel))
        results.append(np.array(d.inference(3)))
    assert np.abs(results[1] - results[0]).max() < 1e-5


def test_single_steps_give_the_same_marginals(photos):
    energies = smooth_energies(5, seed=7321)
    runs = []
    for crf in (theirs, ours):
        d = crf.DenseCRF2D(WIDTH, HEIGHT, 5)
        d.setUnaryEnergy(energies)
        d.addPairwiseGaussian(3, 3)
        d.addPairwiseBilateral(80, 13, photos["chelsea"], 10)
        q, tmp1, tmp2 = d.startInference()
        steps = [(np.array(q), d.klDivergence(q))]
        for _ in range(4):
            d.stepInference(q, tmp1, tmp2)
            steps.append((np.array(q), d.klDivergence(q)))
        runs.append(steps)
    for (expected, expected_kl), (found, found_kl) in zip(*runs, strict=True):
        assert np.abs(found - expected).max() < 1e-4
        assert found_kl == pytest.approx(expected_kl, rel=1e-4)
