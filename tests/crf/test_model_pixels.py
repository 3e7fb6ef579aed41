"""CRFs on parts of images, volumes, point clouds, and any number of channels."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import CRF, Bilateral, Custom, Spatial
from tests.support.crf_reference import NORMALIZATIONS, dense_marginals, exact, gaussian, random_input, softmax


@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_ignored_pixels_have_no_effect(exclude_self, normalization):
    scores, image = random_input(5, 6)
    ignore = np.random.default_rng(77_003).random((5, 6)) < 0.3
    y, x = np.mgrid[:5, :6]
    features = np.concatenate([np.stack([x, y], axis=-1) / 4, image / 60], axis=-1)
    whole = exact(Bilateral(4, 60, weight=3, normalization=normalization), exclude_self=exclude_self)
    rest = exact(Custom("here", 1.0, weight=3, normalization=normalization), exclude_self=exclude_self)
    found = whole.solve(scores, image, ignore=ignore).marginals
    expected = rest.solve(scores[:, ~ignore], features={"here": features[~ignore]}).marginals
    assert np.allclose(found[:, ~ignore], expected, rtol=1e-11)
    assert np.allclose(found[:, ignore], softmax(scores)[:, ignore], rtol=1e-12)


def test_convergent_inference_ignores_pixels_too():
    scores, image = random_input(5, 6)
    ignore = np.random.default_rng(77_017).random((5, 6)) < 0.3
    crf = exact(exclude_self=True)
    found = crf.solve(scores, image, ignore=ignore, convergent=True).marginals
    assert np.allclose(found[:, ignore], softmax(scores)[:, ignore], rtol=1e-12)
    other = scores.copy()
    other[:, ignore] = 50 * np.random.default_rng(5).normal(size=other[:, ignore].shape)
    again = crf.solve(other, image, ignore=ignore, convergent=True).marginals
    assert np.allclose(again[:, ~ignore], found[:, ~ignore], rtol=1e-12)


@pytest.mark.parametrize("options", [{}, {"convergent": True}])
def test_a_completely_ignored_image_keeps_its_scores(options):
    scores, image = random_input(5, 6)
    for normalization in ("symmetric", "none"):
        kernels = [Spatial(2, normalization=normalization), Bilateral(4, 60, normalization=normalization)]
        for crf in (CRF(kernels, exclude_self=True), exact(*kernels, exclude_self=True)):
            found = crf.solve(scores, image, ignore=np.ones((5, 6), bool), energies=True, **options)
            assert np.allclose(found.marginals, softmax(scores), atol=1e-6)
            assert np.isfinite(found.energies).all()


def test_an_empty_ignore_mask_changes_nothing():
    scores, image = random_input(5, 6)
    for crf in (CRF(), exact()):
        nothing = crf.solve(scores, image, ignore=np.zeros((5, 6), bool)).marginals
        assert np.allclose(nothing, crf.solve(scores, image).marginals, atol=1e-6)  # float32


def test_on_the_lattice_ignored_pixels_neither_send_nor_receive():
    scores, image = random_input(10, 12)
    ignore = np.random.default_rng(77_023).random((10, 12)) < 0.3
    other = scores.copy()
    other[:, ignore] *= -5
    found, again = (CRF().solve(f, image, ignore=ignore).marginals for f in (scores, other))
    assert np.allclose(found[:, ~ignore], again[:, ~ignore], atol=1e-6)
    assert np.allclose(found[:, ignore], softmax(scores)[:, ignore], atol=1e-6)


def test_spacing_divides_widths():
    scores, image = random_input(3, 4, 5)
    spacing = (0.7, 1.3, 2.9)
    widths = 2 / np.array(spacing)
    kernels = Spatial(2, weight=2), Bilateral(2, 60, weight=3)
    scaled = Spatial(widths, weight=2), Bilateral(widths, 60, weight=3)
    found = exact(*kernels).solve(scores, image, spacing=spacing).marginals
    assert np.allclose(found, exact(*scaled).solve(scores, image).marginals, rtol=1e-11)
    assert not np.allclose(found, exact(*kernels).solve(scores, image).marginals, atol=1e-3)
    lattice = [CRF(kernels).solve(scores, image, spacing=spacing), CRF(scaled).solve(scores, image)]
    # Float32 features that differ in the last digit.
    assert np.allclose(lattice[0].marginals, lattice[1].marginals, atol=1e-4)


def test_point_clouds_use_custom_features():
    random = np.random.default_rng(60_013)
    scores = random.normal(size=(4, 30))
    xyz, normals = random.normal(size=(30, 3)), random.normal(size=(30, 3)).astype(np.float32)
    crf = exact(Custom("xyz", (0.5, 1, 2), weight=2), Custom("normals", 0.7, weight=1.5), iterations=3)
    found = crf.solve(scores, features={"xyz": xyz, "normals": normals}).marginals
    pairs = [
        (gaussian(xyz / [0.5, 1, 2], "symmetric"), 2.0),
        (gaussian(normals.astype(np.float64) / 0.7, "symmetric"), 1.5),
    ]
    assert np.allclose(found, dense_marginals(scores, pairs, 3), rtol=1e-11)


def test_custom_features_and_images_can_be_combined():
    scores, image = random_input(4, 5)
    depth = np.random.default_rng(60_017).random((4, 5, 1))
    crf = exact(Bilateral(3, 60, weight=2), Custom("depth", 0.2, weight=2))
    both = crf.solve(scores, image, features={"depth": depth}).marginals
    assert not np.allclose(both, exact(Bilateral(3, 60, weight=2)).solve(scores, image).marginals, atol=1e-3)
    assert np.array_equal(crf.solve(scores, image, features={"depth": depth.reshape(20, 1)}).marginals, both)


@pytest.mark.parametrize("channels", [1, 2, 4, 9, 14])
def test_images_of_any_number_of_channels_are_solved(channels):
    scores, image = random_input(5, 6, channels=channels)
    for crf in (CRF([Bilateral(3, 90, weight=2)]), exact(Bilateral(3, 90, weight=2))):
        assert np.isfinite(crf.solve(scores, image).marginals).all()


def test_a_grey_image_is_an_image_of_one_channel():
    scores, image = random_input(5, 6, channels=1)
    for crf in (CRF(), exact()):
        assert np.array_equal(crf.solve(scores, image[..., 0]).marginals, crf.solve(scores, image).marginals)


def test_integer_and_float_colours_give_the_same_result():
    scores, image = random_input(5, 6)
    whole = image.astype(np.uint8)
    for crf in (CRF(), exact()):
        assert np.array_equal(crf.solve(scores, whole).marginals, crf.solve(scores, whole.astype(np.float64)).marginals)
