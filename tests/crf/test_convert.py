"""Converted CRFs equal the layers of other packages, implemented here from their equations, on a photo."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield import CRF, InputError, InputTypeError
from densefield.crf import from_crfasrnn, from_monai
from densefield.errors import InputWarning
from densefield.filters import LatticeFilter

LABELS, HEIGHT, WIDTH = 4, 60, 80
MEANS = np.array([103.939, 116.779, 123.68])  # of blue, green and red: CRF-as-RNN subtracts them

# Both lattices sum float32 in different orders, and ten iterations with weights of 3 and 5 amplify the rounding;
# the real layers, on photos of 500 × 332 with 21 labels, are as close.
SAME = 2e-5


@pytest.fixture(scope="module")
def photo() -> Any:
    """(60, 80, 3) uint8."""
    data = pytest.importorskip("skimage.data", reason="the photo is scikit-image's")
    transform = pytest.importorskip("skimage.transform")
    small = transform.resize(data.chelsea(), (HEIGHT, WIDTH), anti_aliasing=True)
    return (small * 255).round().astype(np.uint8)


def as_the_network_sees(photo: Any) -> Any:
    """BGR minus the means in float32, as in the layers."""
    return (photo[..., ::-1] - MEANS).astype(np.float32)


def some_logits(*shape: int, seed: int = 7723) -> Any:
    """Smooth regions with noise, (L, …)."""
    random = np.random.default_rng(seed)
    blobs = random.normal(0, 2, (shape[0], *(-(-size // 10) for size in shape[1:])))
    for axis in range(1, blobs.ndim):
        blobs = np.repeat(blobs, 10, axis)
    return (blobs[tuple(slice(size) for size in shape)] + random.normal(0, 1, shape)).astype(np.float32)


def softmax(z: Any) -> Any:
    p = np.exp(z - z.max(0))
    return p / p.sum(0)


def normalised_filter(*columns: Any) -> Any:
    """q (L, N) -> q (D⁻¹K)ᵀ on the lattice of Adams et al., whose axes are the columns in this order."""
    features = np.stack([np.ravel(column) for column in columns], 1).astype(np.float32)
    lattice = LatticeFilter(features, operator="pydensecrf", calibrate=False)

    def smooth(values: Any) -> Any:
        return np.asarray(lattice.apply(np.ascontiguousarray(values.T, np.float32)), np.float64).T

    norm = smooth(np.ones((1, len(features))))
    return lambda q: smooth(q) / norm


def crfasrnn(
    logits: Any, bgr: Any, spatial: Any, bilateral: Any, compat: Any, adds: bool, iterations: int, theta: Any
) -> Any:
    """The layer's marginals (L, H, W): z = f ± C (W_s K_s q + W_b K_b q), features x, y, b, g, r."""
    alpha, beta, gamma = theta
    y, x = np.indices(logits.shape[1:])
    near = normalised_filter(x / gamma, y / gamma)
    alike = normalised_filter(x / alpha, y / alpha, *np.moveaxis(bgr / beta, -1, 0))
    unary = z = logits.reshape(len(logits), -1).astype(np.float64)
    for _ in range(iterations):
        q = softmax(z)
        pairwise = compat @ (spatial @ near(q) + bilateral @ alike(q))
        z = unary + pairwise if adds else unary - pairwise
    return softmax(z).reshape(logits.shape)


def monai(logits: Any, image: Any, iterations: int = 5, compat: Any = None, **options: Any) -> Any:
    """The block's marginals (L, …): q = softmax(f + u (Σ_m w_m K_m q)ᵀ C), features row, column, channels."""
    o = {
        "bilateral_weight": 1,
        "gaussian_weight": 1,
        "bilateral_spatial_sigma": 5,
        "bilateral_color_sigma": 0.5,
        "gaussian_spatial_sigma": 5,
        "update_factor": 3,
        **options,
    }
    axes = np.indices(logits.shape[1:]).astype(np.float64)
    scaled = [
        axes / np.broadcast_to(o[name], len(axes)).reshape(-1, *[1] * (axes.ndim - 1))
        for name in ("gaussian_spatial_sigma", "bilateral_spatial_sigma")
    ]
    near = normalised_filter(*scaled[0])
    alike = normalised_filter(*scaled[1], *np.moveaxis(image / o["bilateral_color_sigma"], -1, 0))
    unary = logits.reshape(len(logits), -1).astype(np.float64)
    q = softmax(unary)
    for _ in range(iterations):
        combined = o["bilateral_weight"] * alike(q) + o["gaussian_weight"] * near(q)
        if compat is not None:
            combined = (combined.T @ compat).T
        q = softmax(unary + o["update_factor"] * combined)
    return q.reshape(logits.shape)


def symmetric(seed: int) -> Any:
    """A symmetric matrix close to the unit matrix, as after training."""
    matrix = np.random.default_rng(seed).normal(0, 0.15, (LABELS, LABELS))
    return np.eye(LABELS) + matrix + matrix.T


def assert_same(crf: CRF, logits: Any, image: Any, expected: Any) -> None:
    found = crf.marginals(logits, image)
    np.testing.assert_allclose(found, expected, rtol=0, atol=SAME)
    assert (found.argmax(0) != logits.argmax(0)).mean() > 0.05  # inference changes labels


def test_a_new_crfasrnn_layer_is_reproduced_with_the_defaults(photo):
    logits, bgr = some_logits(LABELS, HEIGHT, WIDTH), as_the_network_sees(photo)
    eye = np.eye(LABELS)
    expected = crfasrnn(logits, bgr, 3 * eye, 5 * eye, eye, adds=True, iterations=10, theta=(160, 3, 3))
    assert_same(from_crfasrnn(), logits, bgr, expected)
    five = crfasrnn(logits, bgr, 3 * eye, 5 * eye, -eye, adds=False, iterations=5, theta=(160, 3, 3))
    assert_same(from_crfasrnn(iterations=5), logits, bgr, five)


@pytest.mark.parametrize(("framework", "adds"), [("pytorch", True), ("keras", False), ("caffe", False)])
def test_learnt_crfasrnn_matrices_are_reproduced(photo, framework, adds):
    logits, bgr = some_logits(LABELS, HEIGHT, WIDTH), as_the_network_sees(photo)
    compat = symmetric(1) if adds else -symmetric(1)
    spatial, bilateral = (np.linalg.solve(symmetric(1), scale * symmetric(seed)) for scale, seed in ((3, 2), (5, 3)))
    expected = crfasrnn(logits, bgr, spatial, bilateral, compat, adds, iterations=10, theta=(40, 10, 2))
    crf = from_crfasrnn(
        theta_alpha=40,
        theta_beta=10,
        theta_gamma=2,
        spatial_weights=spatial,
        bilateral_weights=bilateral,
        compatibility=compat,
        framework=framework,
    )
    assert_same(crf, logits, bgr, expected)


@pytest.mark.parametrize("compat", [None, symmetric(5), symmetric(6) + np.array([[0.5], [-0.7], [0.2], [0.1]])])
def test_monai_is_reproduced(photo, compat):
    options = {
        "bilateral_weight": 1.5,
        "gaussian_weight": 0.7,
        "bilateral_spatial_sigma": 12,
        "bilateral_color_sigma": 0.1,
        "gaussian_spatial_sigma": 2,
        "update_factor": 2.0,
    }
    logits, image = some_logits(LABELS, HEIGHT, WIDTH), photo / 255
    expected = monai(logits, image, 7, compat, **options)
    crf = from_monai(**options, iterations=7, compatibility_matrix=compat)
    assert_same(crf, logits, image, expected)
    assert_same(crf.replace(data_range=255), logits, photo, expected)  # the image as uint8


def test_monai_is_reproduced_with_the_defaults(photo):
    logits, image = some_logits(LABELS, HEIGHT, WIDTH), photo / 255
    assert_same(from_monai(), logits, image, monai(logits, image))
    columns_first = from_monai().replace(axis_order="xy").marginals(logits, image)
    assert np.abs(columns_first - monai(logits, image)).max() > 100 * SAME  # the axis order matters here


def test_widths_per_axis_of_monai_are_in_the_order_planes_rows_columns(photo):
    logits, image = some_logits(LABELS, HEIGHT, WIDTH), photo / 255
    options = {"bilateral_spatial_sigma": (4.0, 12.0), "gaussian_spatial_sigma": (1.5, 5.0)}
    assert_same(from_monai(**options), logits, image, monai(logits, image, **options))
    volume = np.random.default_rng(11).uniform(0, 1, (5, 12, 14, 1))
    logits = some_logits(LABELS, 5, 12, 14)
    options = {"bilateral_spatial_sigma": (1.0, 4.0, 7.0), "gaussian_spatial_sigma": (0.7, 2.0, 3.0)}
    assert_same(from_monai(**options), logits, volume, monai(logits, volume, **options))


def test_images_of_any_range_are_passed_to_monai_unchanged(photo):
    logits, image = some_logits(LABELS, HEIGHT, WIDTH), photo.astype(np.float64)
    options = {"bilateral_color_sigma": 25.0}
    assert_same(from_monai(**options, data_range=255), logits, image, monai(logits, image, **options))


def exact_logits(compat: Any, weights: Any, adds: bool) -> tuple[Any, Any, Any]:
    """Logits and image of 5 × 6 pixels, and z of the layer with exact sums in float64."""
    random = np.random.default_rng(7723)
    logits, image = random.standard_normal((LABELS, 5, 6)), random.uniform(0, 255, (5, 6, 3))
    y, x = np.indices((5, 6))
    columns = np.stack([np.ravel(c) for c in (x / 9, y / 9, *np.moveaxis(image / 50, -1, 0))], 1)
    kernel = np.exp(-0.5 * ((columns[:, None] - columns[None]) ** 2).sum(-1))
    kernel /= kernel.sum(1, keepdims=True)
    unary = z = logits.reshape(LABELS, -1)
    for _ in range(10):
        pairwise = compat @ weights @ (softmax(z) @ kernel.T)
        z = unary + pairwise if adds else unary - pairwise
    return logits, image, softmax(z)


@pytest.mark.parametrize("weights", [np.array([1.0, 2.0, 3.0, 1.5]), 2.0], ids=["one for each label", "one number"])
def test_weights_without_a_matrix_scale_the_columns(weights):
    diagonal = np.diag(np.broadcast_to(weights, LABELS))
    logits, image, expected = exact_logits(-np.eye(LABELS), diagonal, adds=False)
    for more in ({}, {"compatibility": -np.eye(LABELS), "framework": "caffe"}):
        crf = from_crfasrnn(theta_alpha=9, theta_beta=50, spatial_weights=0.0, bilateral_weights=weights, **more)
        found = crf.replace(method="exact").solve(logits, image).marginals
        np.testing.assert_allclose(found.reshape(LABELS, -1), expected, rtol=0, atol=1e-10)  # order of float64 sums


def test_a_shift_of_columns_is_not_an_asymmetry():
    shifted = symmetric(4) + np.array([0.3, -1.0, 2.0, 0.5])  # adds a constant to each column
    logits, image, expected = exact_logits(np.eye(LABELS), shifted, adds=True)
    crf = from_crfasrnn(theta_alpha=9, theta_beta=50, spatial_weights=0.0, bilateral_weights=shifted)
    found = crf.replace(method="exact").solve(logits, image).marginals
    np.testing.assert_allclose(found.reshape(LABELS, -1), expected, rtol=0, atol=1e-10)  # order of float64 sums


def test_asymmetry_is_removed_with_a_warning():
    turning = np.array([[0.0, 1.0, -1.0], [-1.0, 0.0, 1.0], [1.0, -1.0, 0.0]])  # without a shift of columns
    with pytest.warns(InputWarning, match=r"the bilateral kernel is not symmetric.*leaves out 50% of its size"):
        crf = from_crfasrnn(bilateral_weights=np.sqrt(8) * np.eye(3) + turning)
    assert np.allclose(crf.kernels[1].weight, np.sqrt(8) * np.eye(3))


@pytest.mark.parametrize(
    ("framework", "matrix", "cure"),
    [
        ("caffe", np.eye(3), "use framework='pytorch'"),
        ("keras", np.eye(3), "use framework='pytorch'"),
        ("pytorch", -np.eye(3), "use framework='caffe' or 'keras'"),
        ("pytorch", 1 - np.eye(3), "use framework='caffe' or 'keras'"),
    ],
)
def test_a_matrix_that_repels_equal_labels_gives_a_warning(framework, matrix, cure):
    with pytest.warns(InputWarning, match=cure) as caught:
        crf = from_crfasrnn(compatibility=matrix, framework=framework)
    assert [str(warning.message).split()[1] for warning in caught] == ["spatial", "bilateral"]
    assert all(warning.filename == __file__ for warning in caught)
    assert np.mean(np.diagonal(crf.kernels[0].weight)) < np.mean(crf.kernels[0].weight)  # unchanged despite the warning


def test_repelling_weights_give_a_warning_without_a_matrix():
    with pytest.warns(InputWarning, match="the spatial weights drive equal labels apart.*Check the signs"):
        from_crfasrnn(spatial_weights=-3.0)
    with pytest.warns(InputWarning, match="the bilateral weights.*positive entries of its matrix attract"):
        from_monai(bilateral_weight=-1.0)


def test_torch_parameters_are_accepted():
    torch = pytest.importorskip("torch")
    matrix = torch.nn.Parameter(2 * torch.eye(3))
    assert np.array_equal(from_crfasrnn(spatial_weights=matrix).kernels[0].weight, 2 * np.eye(3))
    assert np.array_equal(from_monai(compatibility_matrix=torch.eye(3)).kernels[0].weight, 3 * np.eye(3))


@pytest.mark.parametrize("convert", [from_crfasrnn, from_monai])
def test_a_module_from_a_converted_crf_has_its_marginals(photo, convert):
    torch = pytest.importorskip("torch")
    from densefield import DenseCRF

    logits = some_logits(LABELS, HEIGHT, WIDTH)
    image = as_the_network_sees(photo) if convert is from_crfasrnn else (photo / 255).astype(np.float32)
    module = DenseCRF.from_numpy(convert(), LABELS)
    log_q = module(torch.from_numpy(logits)[None], torch.from_numpy(image).permute(2, 0, 1)[None])
    found = log_q[0].detach().exp().numpy()
    np.testing.assert_allclose(found, convert().marginals(logits, image), rtol=0, atol=SAME)


def test_a_converted_crf_can_be_saved_and_loaded(tmp_path):
    crf = from_crfasrnn(compatibility=np.eye(3), framework="pytorch", iterations=4)
    crf.save(tmp_path / "crf.toml")
    assert str(CRF.load(tmp_path / "crf.toml")) == str(crf)


@pytest.mark.parametrize(
    ("convert", "options", "error", "message"),
    [
        (from_crfasrnn, {"framework": "tensorflow"}, InputError, "expected one of caffe, keras, pytorch"),
        (from_crfasrnn, {"compatibility": np.eye(3)}, InputError, "without framework. Add framework='caffe'"),
        (from_crfasrnn, {"theta_beta": 0.0}, InputError, "expected finite numbers above 0"),
        (
            from_crfasrnn,
            {"compatibility": np.eye(3), "framework": "pytorch", "spatial_weights": np.eye(4)},
            InputError,
            r"\(3, 3\).*\(4, 4\)",
        ),
        (from_crfasrnn, {"compatibility": np.ones(3), "framework": "keras"}, InputError, r"shape \(3,\)"),
        (from_crfasrnn, {"spatial_weights": np.ones((2, 3))}, InputError, r"spatial weights have shape \(2, 3\)"),
        (from_crfasrnn, {"spatial_weights": np.nan}, InputError, "NaN or infinity"),
        (from_crfasrnn, {"spatial_weights": "three"}, InputTypeError, "a weight is 'three'"),
        (from_crfasrnn, {"iterations": 2.5}, InputError, "iterations is 2.5"),
        (from_monai, {"data_range": 0}, InputError, "data_range is 0"),
        (from_monai, {"data_range": (1.0, 1.0)}, InputError, r"data_range is \(1.0, 1.0\)"),
        (from_monai, {"update_factor": "three"}, InputTypeError, "a weight is 'three'"),
        (from_monai, {"bilateral_color_sigma": (1.0, 2.0)}, InputError, r"is \(1.0, 2.0\), expected one number"),
        (from_monai, {"bilateral_color_sigma": -0.5}, InputError, "expected finite numbers above 0"),
    ],
)
def test_invalid_parameters_are_rejected(convert: Any, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        convert(**options)
