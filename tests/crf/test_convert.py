"""Converted kernels give what the other packages' updates, written out here, give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield import CRF, InputError, InputTypeError, from_crfasrnn, from_monai

RNG = np.random.default_rng(7723)
SCORES, IMAGE = RNG.standard_normal((3, 5, 6)), RNG.uniform(0, 255, (5, 6, 3))


def softmax(z: Any) -> Any:
    p = np.exp(z - z.max(0))
    return p / p.sum(0)


def log_softmax(z: Any) -> Any:
    return np.log(softmax(z))


def mean_operator(*features: Any) -> Any:
    """D⁻¹K of features that are divided by their widths, (N, N)."""
    x = np.concatenate([np.reshape(f, (30, -1)) for f in features], 1)
    kernel = np.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(-1))
    return kernel / kernel.sum(1, keepdims=True)


def row_and_column() -> Any:
    return np.moveaxis(np.indices((5, 6)), 0, -1).astype(np.float64)


def crfasrnn_logits(
    alpha: float, beta: float, gamma: float, spatial: Any, bilateral: Any, compat: Any, sign: int
) -> Any:
    """z of 5 iterations; sign is -1 where the pairwise term is subtracted."""
    xy = row_and_column()[..., ::-1]
    near, alike = mean_operator(xy / gamma), mean_operator(xy / alpha, (IMAGE - IMAGE.mean()) / beta)
    unary = z = SCORES.reshape(3, -1)
    for _ in range(5):
        q = softmax(z)
        z = unary + sign * compat @ (spatial @ (q @ near.T) + bilateral @ (q @ alike.T))
    return z


def ours(kernels: Any, image: Any = IMAGE, iterations: int = 5) -> Any:
    crf = CRF(kernels, iterations=iterations, method="exact")
    return crf.solve(SCORES, image).log_marginals.reshape(3, -1)


def symmetric(seed: int) -> Any:
    matrix = np.random.default_rng(seed).standard_normal((3, 3))
    return matrix + matrix.T


@pytest.mark.parametrize(("sign", "factor"), [("energy", -1), ("score", 1)])
def test_initial_parameters_of_crfasrnn_are_potts(sign: Any, factor: int) -> None:
    kernels = from_crfasrnn(
        theta_alpha=12,
        theta_beta=40,
        theta_gamma=2,
        spatial_weights=3 * np.eye(3),
        bilateral_weights=5 * np.eye(3),
        compatibility=factor * np.eye(3),
        sign=sign,
    )
    assert np.array_equal(kernels[0].weight, 3 * np.eye(3)) and np.array_equal(kernels[1].weight, 5 * np.eye(3))
    logits = crfasrnn_logits(12, 40, 2, 3 * np.eye(3), 5 * np.eye(3), factor * np.eye(3), factor)
    assert np.allclose(ours(kernels), log_softmax(logits), rtol=0, atol=1e-10)  # float64, summed in another order
    plain = from_crfasrnn(theta_alpha=12, theta_beta=40, theta_gamma=2)
    assert np.allclose(ours(plain), ours(kernels), rtol=0, atol=1e-12)


def test_learnt_matrices_of_crfasrnn_whose_product_is_symmetric_are_exact() -> None:
    compat = symmetric(1)
    spatial, bilateral = np.linalg.solve(compat, symmetric(2)), np.linalg.solve(compat, symmetric(3))
    kernels = from_crfasrnn(
        theta_alpha=9, theta_beta=50, spatial_weights=spatial, bilateral_weights=bilateral, compatibility=compat
    )
    logits = crfasrnn_logits(9, 50, 3, spatial, bilateral, compat, -1)
    assert np.allclose(ours(kernels), log_softmax(logits), rtol=0, atol=1e-10)


def test_one_weight_for_each_label_scales_the_columns() -> None:
    compat, weights = -np.eye(3), np.array([1.0, 2.0, 3.0])
    kernels = from_crfasrnn(theta_alpha=9, theta_beta=50, bilateral_weights=weights, compatibility=compat)
    logits = crfasrnn_logits(9, 50, 3, 3 * np.eye(3), np.diag(weights), compat, -1)
    assert np.allclose(ours(kernels), log_softmax(logits), rtol=0, atol=1e-10)


def test_a_shift_of_columns_is_no_asymmetry() -> None:
    shifted = symmetric(4) + np.array([0.3, -1.0, 2.0])  # adds to a column the same for all labels
    kernels = from_crfasrnn(
        theta_alpha=9, theta_beta=50, spatial_weights=np.zeros((3, 3)), bilateral_weights=shifted, sign="score"
    )
    logits = crfasrnn_logits(9, 50, 3, np.zeros((3, 3)), shifted, np.eye(3), 1)
    assert np.allclose(ours(kernels), log_softmax(logits), rtol=0, atol=1e-10)


def test_asymmetry_is_left_out_with_a_warning() -> None:
    turning = np.array([[0.0, 1.0, -1.0], [-1.0, 0.0, 1.0], [1.0, -1.0, 0.0]])  # of which no shift of columns is part
    with pytest.warns(UserWarning, match=r"the bilateral kernel is not symmetric.*leaves out 50% of its size"):
        _, bilateral = from_crfasrnn(bilateral_weights=np.sqrt(8) * np.eye(3) + turning)
    assert np.allclose(bilateral.weight, np.sqrt(8) * np.eye(3))


def monai_marginals(image: Any, compat: Any, iterations: int) -> Any:
    rc = row_and_column()
    alike, near = mean_operator(rc / 6, image / 0.4), mean_operator(rc / 2)
    unary = SCORES.reshape(3, -1)
    q = softmax(unary)
    for _ in range(iterations):
        combined = 1.5 * (q @ alike.T) + 0.7 * (q @ near.T)
        if compat is not None:
            combined = (combined.T @ compat).T
        q = softmax(unary + 2.0 * combined)
    return q


@pytest.mark.parametrize("compat", [None, symmetric(5), symmetric(6) + np.array([[0.5], [-0.7], [0.2]])])
def test_monai_is_the_same_with_converted_kernels(compat: Any) -> None:
    options = {
        "bilateral_weight": 1.5,
        "gaussian_weight": 0.7,
        "bilateral_spatial_sigma": 6,
        "bilateral_color_sigma": 0.4,
        "gaussian_spatial_sigma": 2,
        "update_factor": 2.0,
        "compatibility_matrix": compat,
    }
    q = monai_marginals(IMAGE / 255, compat, iterations=4)
    assert np.allclose(np.exp(ours(from_monai(**options), iterations=4)), q, rtol=0, atol=1e-10)
    as_given = from_monai(**options, colour_range=255)
    assert np.allclose(np.exp(ours(as_given, IMAGE / 255, iterations=4)), q, rtol=0, atol=1e-10)


def test_torch_parameters_are_taken_as_they_are() -> None:
    torch = pytest.importorskip("torch")
    matrix = torch.nn.Parameter(2 * torch.eye(3))
    spatial, _ = from_crfasrnn(spatial_weights=matrix)
    assert np.array_equal(spatial.weight, 2 * np.eye(3))
    monai, _ = from_monai(compatibility_matrix=torch.eye(3))
    assert np.array_equal(monai.weight, 3 * np.eye(3))


@pytest.mark.parametrize(
    ("convert", "options", "error", "message"),
    [
        (from_crfasrnn, {"sign": "minus"}, InputError, "expected one of energy, score"),
        (from_crfasrnn, {"theta_beta": 0.0}, InputError, "expected finite numbers above 0"),
        (from_crfasrnn, {"compatibility": np.eye(3), "spatial_weights": np.eye(4)}, InputError, r"\(3, 3\).*\(4, 4\)"),
        (from_crfasrnn, {"compatibility": np.ones(3)}, InputError, r"shape \(3,\)"),
        (from_crfasrnn, {"spatial_weights": np.ones((2, 3))}, InputError, r"spatial weights have shape \(2, 3\)"),
        (from_crfasrnn, {"spatial_weights": np.nan}, InputError, "NaN or infinity"),
        (from_crfasrnn, {"spatial_weights": "three"}, InputTypeError, "a weight is 'three'"),
        (from_monai, {"colour_range": 0}, InputError, "colour_range is 0"),
        (from_monai, {"bilateral_color_sigma": (1.0, 2.0)}, InputError, r"is \(1.0, 2.0\), expected one number"),
        (from_monai, {"bilateral_color_sigma": -0.5}, InputError, "expected finite numbers above 0"),
    ],
)
def test_parameters_that_cannot_be_are_errors(convert: Any, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        convert(**options)
