"""DenseCRF and DenseCRF2D without comparison with pydensecrf."""

from __future__ import annotations

import numpy as np
import pytest

import densefield.pydensecrf.densecrf as dcrf
from densefield import DensefieldError, InputError, InputTypeError
from densefield.crf.mean_field import free_energy, mean_field
from densefield.pydensecrf import eigen

H, W, L = 5, 7, 3
N = H * W


def energies(seed: int = 4409) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, (L, N)).astype(np.float32)


def photo() -> np.ndarray:
    return np.random.default_rng(97).integers(0, 256, (H, W, 3), dtype=np.uint8)


def crf(**unary: np.ndarray) -> dcrf.DenseCRF2D:
    d = dcrf.DenseCRF2D(W, H, L)
    d.setUnaryEnergy(unary.get("u", energies()))
    return d


def full_crf() -> dcrf.DenseCRF2D:
    d = crf()
    d.addPairwiseGaussian(2, 1.5)
    d.addPairwiseBilateral((4, 3), (30, 40, 50), photo(), np.array([0.3, -0.2, 0.1], np.float32))
    return d


def softmax(scores: np.ndarray) -> np.ndarray:
    p = np.exp(scores - scores.max(axis=0))
    return p / p.sum(axis=0)


def test_without_iterations_the_marginals_are_the_softmax_of_negative_energies():
    u = energies()
    # A few roundings in float32.
    np.testing.assert_allclose(np.array(full_crf().inference(0)), softmax(-u), atol=3e-7)
    np.testing.assert_array_equal(np.array(full_crf().inference(-2)), np.array(full_crf().inference(0)))


def test_without_a_unary_all_labels_are_equally_probable():
    d = dcrf.DenseCRF2D(W, H, L)
    d.addPairwiseGaussian(3, 2)
    np.testing.assert_allclose(np.array(d.inference(3)), 1 / L, rtol=1e-6)


def test_an_iteration_adds_the_exact_message_if_all_points_are_equal():
    # All features are equal, so K is a constant c times the matrix of ones; normalised, c is 1/N.
    u = energies()
    q = softmax(-u)
    mean = q.mean(axis=1, keepdims=True)
    pairs = np.random.default_rng(12).normal(0, 1, (L, L)).astype(np.float32)
    each = pairs[0].copy()
    for compat, message in [
        (2.0, 2 * mean),
        (each, -each[:, None] * mean),
        (pairs, -(pairs + pairs.T) / 2 @ mean),
    ]:
        for normalization in (dcrf.NORMALIZE_BEFORE, dcrf.NORMALIZE_AFTER, dcrf.NORMALIZE_SYMMETRIC):
            d = dcrf.DenseCRF(N, L)
            d.setUnaryEnergy(u)
            d.addPairwiseEnergy(np.zeros((2, N), np.float32), compat, normalization=normalization)
            np.testing.assert_allclose(np.array(d.inference(1)), softmax(message - u), atol=1e-6)


def test_inference_equals_the_reference_mean_field():
    d = full_crf()
    expected = np.exp(mean_field(np.ascontiguousarray(-energies().T), d._terms, 4)).T
    # The native loop sums in another order.
    np.testing.assert_allclose(np.array(d.inference(4)), expected, atol=2e-6)


def test_in_place_steps_equal_inference():
    d = full_crf()
    q, tmp1, tmp2 = d.startInference()
    view = np.asarray(q)
    for _ in range(4):
        assert d.stepInference(q, tmp1, tmp2) is None
    np.testing.assert_allclose(view, np.array(d.inference(4)), atol=1e-6)


def test_a_step_starts_from_the_given_marginals():
    d = full_crf()
    q, tmp1, tmp2 = d.startInference()
    np.asarray(q)[...] = 1 / L
    d.stepInference(q, tmp1, tmp2)
    start = np.full((L, N), 1 / L, np.float32)
    np.testing.assert_array_equal(np.array(q), d._infer(1, start=start))
    assert np.abs(np.array(q) - np.array(d.inference(1))).max() > 1e-3


def test_kl_divergence_is_the_free_energy_with_the_pairwise_term_twice():
    d = full_crf()
    q = d.inference(3)
    rows = np.array(q, np.float64).T
    couplings = d._terms
    single = np.ascontiguousarray(rows, np.float32)
    pairwise = sum(float((rows * coupling.message(single)).sum()) for coupling in couplings)
    free = free_energy(single, np.log(single), np.ascontiguousarray(-energies().T), couplings)
    assert abs(pairwise) > 1
    assert d.klDivergence(q) == pytest.approx(free - pairwise / 2, rel=1e-5)  # float32 sums


def test_constant_and_logistic_unaries():
    u = energies()
    constant = dcrf.DenseCRF2D(W, H, L)
    constant.setUnary(dcrf.ConstUnary(u))
    np.testing.assert_array_equal(np.array(constant.inference(0)), np.array(crf().inference(0)))
    random = np.random.default_rng(640)
    weights, features = random.normal(size=(L, 4)).astype(np.float32), random.normal(size=(4, N)).astype(np.float32)
    logistic, short = dcrf.DenseCRF(N, L), dcrf.DenseCRF(N, L)
    logistic.setUnary(dcrf.LogisticUnary(L=weights, f=features))
    short.setUnaryEnergy(weights, features)
    np.testing.assert_allclose(np.array(logistic.inference(0)), softmax(-weights @ features), atol=1e-6)
    np.testing.assert_array_equal(np.array(short.inference(0)), np.array(logistic.inference(0)))


def test_arguments_can_be_changed_afterwards():
    u, image, features = energies(), photo(), np.random.default_rng(2).random((2, N), dtype=np.float32)
    d = crf(u=u)
    d.addPairwiseBilateral(4, 30, image, 2)
    d.addPairwiseEnergy(features, 2)
    before = np.array(d.inference(2))
    u[...], image[...], features[...] = 0, 0, 0
    np.testing.assert_array_equal(np.array(d.inference(2)), before)


def test_any_layout_and_read_only_memory_are_accepted():
    u, image = energies(), photo()
    frozen, flipped = u.copy(), np.asfortranarray(image)
    frozen.flags.writeable = False
    d = crf(u=np.asfortranarray(frozen))
    d.addPairwiseBilateral(4, 30, flipped, 2)
    plain = crf(u=u)
    plain.addPairwiseBilateral(4, 30, image, 2)
    np.testing.assert_array_equal(np.array(d.inference(2)), np.array(plain.inference(2)))
    crf(u=memoryview(u)).setUnaryEnergy(d.inference(1))  # marginals are accepted as an array


def test_an_infinite_energy_forbids_a_label():
    u = energies()
    u[1, 4] = np.inf
    d = crf(u=u)
    d.addPairwiseGaussian(3, 3)
    q = d.inference(5)
    assert np.isfinite(np.array(q)).all() and np.array(q)[1, 4] == 0
    assert np.isfinite(d.klDivergence(q))


@pytest.mark.parametrize("size", [(1, 1), (1, 6), (6, 1), (0, 5), (2, 2)])
def test_tiny_images(size):
    w, h = size
    d = dcrf.DenseCRF2D(w, h, 2)
    d.setUnaryEnergy(np.zeros((2, w * h), np.float32))
    d.addPairwiseGaussian(3, 3)
    d.addPairwiseBilateral(80, 13, np.zeros((h, w, 3), np.uint8), 10)
    np.testing.assert_allclose(np.array(d.inference(3)), np.full((2, w * h), 0.5), rtol=1e-6)


def test_the_classes_can_be_subclassed():
    class Named(dcrf.DenseCRF2D):
        def __init__(self, name):
            super().__init__(W, H, L)
            self.name = name

    d = Named("a name")
    d.setUnaryEnergy(energies())
    assert np.array(d.inference(1)).shape == (L, N)


FLOAT = np.ones((2, N), np.float32)


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda: dcrf.DenseCRF("a", 2), InputTypeError, "integer"),
        (lambda: dcrf.DenseCRF(float("nan"), 2), InputError, "integer"),
        (lambda: dcrf.DenseCRF(4, 0), InputError, "0 labels"),
        (lambda: dcrf.DenseCRF2D(-1, -4, 2), InputError, "-1 wide"),
        (lambda: crf(u=energies()[:2]), InputError, r"\(2, 35\), expected \(3, 35\)"),
        (lambda: crf(u=energies().T.copy()), InputError, "reshape"),
        (lambda: crf(u=energies().reshape(L, H, W)), InputError, "labels, points"),
        (lambda: crf(u=energies().astype(np.float64)), InputError, "astype"),
        (lambda: crf(u=energies().tolist()), InputTypeError, "list"),
        (lambda: crf(u=energies() * np.float32("nan")), InputError, "NaN"),
        (lambda: crf(u=energies() * 0 + np.float32("inf")), InputError, "rule out every label of point 0"),
        (lambda: crf(u=-np.full((L, N), np.inf, np.float32)), InputError, "minus infinity"),
        (lambda: crf().setUnary(energies()), InputTypeError, "ConstUnary"),
        (lambda: crf().setUnary(None), InputTypeError, "ConstUnary"),
        (lambda: crf().setUnary(dcrf.Unary()), InputTypeError, "ConstUnary"),
        (lambda: crf().setUnary(dcrf.ConstUnary(energies()[:2])), InputError, "expected"),
        (lambda: dcrf.LogisticUnary(FLOAT, FLOAT), InputError, "features"),
        (lambda: crf().addPairwiseEnergy(FLOAT[:, :4], 1), InputError, r"expected \(dimensions, 35\)"),
        (lambda: crf().addPairwiseEnergy(FLOAT[:0], 1), InputError, "dimensions"),
        (lambda: crf().addPairwiseEnergy(np.ones((17, N), np.float32), 1), InputError, "17 dimensions"),
        (lambda: crf().addPairwiseEnergy(FLOAT * np.float32("nan"), 1), InputError, "NaN"),
        (lambda: crf().addPairwiseEnergy(FLOAT, None), InputTypeError, "compat"),
        (lambda: crf().addPairwiseEnergy(FLOAT, [1, 2, 3]), InputTypeError, "compat"),
        (lambda: crf().addPairwiseEnergy(FLOAT, 1j), InputTypeError, "compat"),
        (lambda: crf().addPairwiseEnergy(FLOAT, np.ones(3)), InputError, "float32"),
        (lambda: crf().addPairwiseEnergy(FLOAT, np.ones(4, np.float32)), InputError, "for 3 labels"),
        (lambda: crf().addPairwiseEnergy(FLOAT, np.ones((3, 4), np.float32)), InputError, "for 3 labels"),
        (lambda: crf().addPairwiseEnergy(FLOAT, np.ones((3, 3, 3), np.float32)), InputError, "3 axes"),
        (lambda: crf().addPairwiseEnergy(FLOAT, np.array(2, np.float32)), InputError, "0 axes"),
        (lambda: crf().addPairwiseEnergy(FLOAT, float("nan")), InputError, "finite"),
        (lambda: crf().addPairwiseEnergy(FLOAT, 1, normalization=7), InputError, "NORMALIZE_AFTER"),
        (lambda: crf().addPairwiseEnergy(FLOAT, 1, normalization=None), InputTypeError, "normalization"),
        (lambda: crf().addPairwiseGaussian(0, 1), InputError, "other than 0"),
        (lambda: crf().addPairwiseGaussian(float("nan"), 1), InputError, "NaN"),
        (lambda: crf().addPairwiseGaussian((3,), 1), InputError, "each of x, y"),
        (lambda: crf().addPairwiseGaussian(None, 1), InputTypeError, "sxy"),
        (lambda: crf().addPairwiseGaussian("ab", 1), InputTypeError, "sxy"),
        (lambda: crf().addPairwiseGaussian(1e-9, 1), InputError, "larger widths"),
        (lambda: crf().addPairwiseBilateral(3, (1, 2), photo(), 1), InputError, "each of r, g, b"),
        (lambda: crf().addPairwiseBilateral(3, 4, photo() / 255, 1), InputError, "uint8"),
        (lambda: crf().addPairwiseBilateral(3, 4, photo()[..., :2], 1), InputError, "create_pairwise_bilateral"),
        (lambda: crf().addPairwiseBilateral(3, 4, photo()[..., 0], 1), InputError, "columns"),
        (lambda: crf().addPairwiseBilateral(3, 4, photo().swapaxes(0, 1), 1), InputError, "width first"),
        (lambda: crf().addPairwiseBilateral(3, 4, None, 1), InputTypeError, "rgbim"),
        (lambda: crf().inference(None), InputTypeError, "niter"),
        (lambda: crf().inference("3"), InputTypeError, "niter"),
        (lambda: crf().klDivergence(np.array(crf().inference(1))), InputTypeError, "startInference"),
        (lambda: crf().klDivergence(None), InputTypeError, "startInference"),
        (lambda: crf().klDivergence(eigen.MatrixXf()), InputError, r"\(0, 0\)"),
        (lambda: crf().stepInference(crf().inference(0), None, None), InputTypeError, "tmp1"),
    ],
)
def test_invalid_arguments_are_rejected(wrong, error, words):
    with pytest.raises(error, match=words) as caught:
        wrong()
    assert isinstance(caught.value, DensefieldError)


def test_threads_is_a_keyword_and_does_not_change_results():
    image = np.random.default_rng(7411).integers(0, 256, (70, 80, 3), dtype=np.uint8)
    u = np.random.default_rng(7412).random((3, 5600), np.float32)
    results = []
    for threads in (1, 3, None):
        crf = dcrf.DenseCRF2D(80, 70, 3, threads=threads)
        crf.setUnaryEnergy(u)
        crf.addPairwiseGaussian(3, 3)
        crf.addPairwiseBilateral(20, 13, image, 5)
        results.append(np.array(crf.inference(3)))
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])
    with pytest.raises(InputError, match="threads is 0, expected 1 to"):
        dcrf.DenseCRF(5, 2, threads=0)
