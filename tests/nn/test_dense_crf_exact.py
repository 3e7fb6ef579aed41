"""Untrained parameters have exactly the kernels' values, and NumPy and torch use the same features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from densefield import CRF, Bilateral, Custom, Spatial

torch = pytest.importorskip("torch")
from densefield import DenseCRF  # noqa: E402

MATRIX = np.array([[0.3, -0.1], [-0.1, 0.7]])
KERNELS = (
    Spatial([2.7, 3.1], weight=3.3),
    Bilateral(61.3, [9.7, 10.1, 60], weight=[0.1, 0.7]),
    Spatial(covariance=[[9.1, 2.3], [2.3, 6.7]], weight=MATRIX),
    Custom("depth", 0.3, weight=1.9),
)
DIMENSIONS = {"position": 2, "channel": 3, "depth": 1}


def moved(crf: Any) -> Any:
    generator = torch.Generator().manual_seed(7027)
    for parameter in crf.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator).to(parameter)
    return crf


@pytest.mark.parametrize("change", [None, "double", "bfloat16", "half"])
def test_untrained_widths_and_weights_are_exact(change: str | None) -> None:
    crf = DenseCRF(2, KERNELS)
    if change:
        getattr(crf, change)()
    for given, now in zip(KERNELS, crf.to_numpy().kernels, strict=True):
        assert np.array_equal(given.shape(DIMENSIONS), now.shape(DIMENSIONS))
        assert np.array_equal(given.weight, now.weight)


def test_untrained_values_are_exact_after_a_state_dict_round_trip_and_a_reset() -> None:
    crf, other = moved(DenseCRF(2, KERNELS)), DenseCRF(2, KERNELS)
    crf.load_state_dict(other.state_dict())
    assert crf.values()["spatial.sigma"].tolist() == [2.7, 3.1]
    moved(crf).reset_parameters()
    assert crf.values()["bilateral.sigma"].tolist() == [61.3, 61.3, 9.7, 10.1, 60]
    assert all(torch.equal(one, two) for one, two in zip(crf.parameters(), other.parameters(), strict=True))


def test_state_dicts_hold_logarithms_of_widths_and_nothing_else() -> None:
    """They have the same meaning in a module with other initial values; covariances are inverted in float64."""
    trained = moved(DenseCRF(2, KERNELS))
    names = {"log_sigma", "log_weight", "log_diagonal", "lower", "matrix"}
    assert {name.partition(".")[2] for name in trained.state_dict()} == names
    start = (
        Spatial(1, weight=1),
        Bilateral(20, 20, weight=[1.0, 1.0]),
        Spatial(covariance=np.eye(2), weight=np.eye(2)),
        Custom("depth", 9, weight=2),
    )
    other = DenseCRF(2, start)
    other.load_state_dict(trained.state_dict())
    for name, value in trained.values().items():
        assert np.allclose(other.values()[name], value, rtol=1e-13 if "covariance" in name else 0, atol=0), name
    sigma = trained.state_dict()["spatial.log_sigma"].double().exp().numpy()
    assert np.array_equal(trained.values()["spatial.sigma"], sigma)


def test_gradients_are_with_respect_to_the_logarithm() -> None:
    """∂σ/∂log σ = σ, ∂W/∂lower = 1."""
    crf = moved(DenseCRF(2, KERNELS))
    spatial, covariance = crf.spatial, crf.spatial2
    (slope,) = torch.autograd.grad(spatial.shape(torch.float64).sum(), spatial.log_sigma)
    assert torch.allclose(slope, spatial.shape(torch.float32), rtol=1e-6)
    shape = covariance.shape(torch.float64)
    diagonal, lower = torch.autograd.grad(shape.sum(), (covariance.log_diagonal, covariance.lower))
    assert torch.allclose(diagonal, shape.diagonal().float(), rtol=1e-6) and lower.item() == 1


@pytest.fixture(scope="module")
def photo(shared: Path) -> tuple[Any, Any]:
    """A photo, and scores of five labels that vary over about 40 pixels."""
    image_module = pytest.importorskip("PIL.Image")
    path = next(iter(sorted((shared / "data" / "VOCdevkit" / "VOC2012" / "JPEGImages").glob("*.jpg"))), None)
    if path is None:
        pytest.skip("no photo of PASCAL VOC among the shared data")
    image = np.asarray(image_module.open(path).convert("RGB"))
    coarse = torch.tensor(np.random.default_rng(5081).normal(0, 3, (1, 5, 9, 12)), dtype=torch.float32)
    return image, torch.nn.functional.interpolate(coarse, size=image.shape[:2], mode="bilinear", align_corners=False)


@pytest.mark.parametrize(
    "kernels",
    [
        (Spatial(3, weight=3), Bilateral(60, 10, weight=5)),
        (Spatial(covariance=[[9.1, 2.3], [2.3, 6.7]], weight=3), Bilateral(61.3, 9.7, weight=4.3)),
    ],
)
@pytest.mark.parametrize("trained", [False, True])
def test_on_a_photo_torch_and_numpy_agree_to_rounding(photo: Any, kernels: Any, trained: bool) -> None:
    """Features are bitwise equal, so all pixels are in the same simplices; sums in another order differ by 1e-6.

    With widths that differ in the last bit some pixels change their simplex, and marginals differ by up to 3e-3.
    """
    image, scores = photo
    module = DenseCRF(5, kernels)
    twin = moved(module).to_numpy() if trained else CRF(kernels)
    with torch.no_grad():
        found = module(scores, torch.tensor(image).movedim(-1, 0)[None]).exp()[0].numpy()
    assert np.abs(found - twin.solve(scores[0].numpy(), image).marginals).max() < 5e-6
