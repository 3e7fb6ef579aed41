"""MonaiCRF: MONAI's equations, gradients, and wrong input."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="MONAI needs torch")
pytest.importorskip("monai", reason="needs MONAI")

from monai.data import MetaTensor  # noqa: E402
from monai.networks.blocks import CRF as MonaiBlock  # noqa: E402
from monai.networks.blocks import crf as monai_crf  # noqa: E402

from densefield.crf import from_monai  # noqa: E402
from densefield.errors import InputError, InputWarning  # noqa: E402
from densefield.integrations.monai import MonaiCRF  # noqa: E402

GENERATOR = torch.Generator().manual_seed(90217)
MATRIX = torch.tensor([[1.0, 0.2, -0.1], [0.2, 0.8, 0.0], [-0.1, 0.0, 1.1]])


def inputs(*grid: int, classes: int = 3, channels: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    logits = torch.randn(2, classes, *grid, generator=GENERATOR)
    return logits, torch.rand(2, channels, *grid, generator=GENERATOR)


class ExactFilter:
    """D⁻¹ K v by the sum over all pairs, in place of MONAI's compiled filter, which its wheels lack."""

    @staticmethod
    def apply(values: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        x = features.flatten(2).double().movedim(1, 2)
        kernel = torch.exp(-torch.cdist(x, x).square() / 2)
        kernel = kernel / kernel.sum(dim=2, keepdim=True)
        return torch.einsum("bij,blj->bli", kernel, values.flatten(2).double()).float().reshape(values.shape)


@pytest.mark.parametrize("grid", [(9, 11), (5, 6, 7)])
@pytest.mark.parametrize("matrix", [None, MATRIX])
def test_marginals_are_those_of_monais_own_block(
    grid: tuple[int, ...], matrix: torch.Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MONAI's forward runs with an exact filter; ours with the lattice: means differ by 0.004 to 0.014."""
    monkeypatch.setattr(monai_crf, "PHLFilter", ExactFilter)
    logits, image = inputs(*grid)
    arguments = {
        "iterations": 3,
        "bilateral_weight": 0.7,
        "gaussian_weight": 0.4,
        "bilateral_spatial_sigma": 3.0,
        "bilateral_color_sigma": 0.4,
        "gaussian_spatial_sigma": 2.0,
        "update_factor": 8.0,
        "compatibility_matrix": matrix,
    }
    expected = MonaiBlock(**arguments)(logits, image)
    found = MonaiCRF(**arguments)(logits, image)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    without = MonaiBlock(**{**arguments, "update_factor": 0.0})(logits, image)
    assert (without - expected).abs().mean() > 0.2  # the kernels matter
    assert (found - expected).abs().mean() < 0.02


def test_marginals_are_those_of_from_monai() -> None:
    logits, image = inputs(5, 8, 6, channels=2)
    found = MonaiCRF(iterations=4, update_factor=2.0)(logits, image).numpy()
    crf = from_monai(iterations=4, update_factor=2.0)
    for b in range(2):
        assert np.allclose(found[b], crf.marginals(logits[b].numpy(), image[b].movedim(0, -1).numpy()), atol=1e-6)


def test_gradients_reach_logits_and_image() -> None:
    """Finite differences along a random direction; float32 and steps across simplices limit their accuracy."""
    logits, image = inputs(6, 7)
    layer = MonaiCRF(iterations=2, bilateral_color_sigma=0.5)
    weights = torch.randn(logits.shape, generator=GENERATOR)
    logits.requires_grad_()
    image.requires_grad_()
    (layer(logits, image) * weights).sum().backward()
    step = torch.randn(logits.shape, generator=GENERATOR)
    with torch.no_grad():
        ahead, behind = ((layer(logits + sign * 1e-2 * step, image) * weights).double().sum() for sign in (1, -1))
    slope = float((logits.grad * step).sum())
    assert float(ahead - behind) / 2e-2 == pytest.approx(slope, rel=1e-3)
    assert image.grad is not None and float(image.grad.abs().max()) > 1e-3
    assert not list(layer.parameters()) and not layer.state_dict()


def test_one_layer_takes_images_volumes_and_any_number_of_classes() -> None:
    layer = MonaiCRF(iterations=1)
    for grid, classes, channels in (((6, 7), 3, 1), ((4, 5, 6), 2, 4), ((6, 7), 5, 3)):
        logits, image = inputs(*grid, classes=classes, channels=channels)
        q = layer(logits, image)
        assert torch.allclose(q.sum(1), torch.ones(2, *grid), atol=1e-5)
        assert torch.equal(pickle.loads(pickle.dumps(layer))(logits, image), q)


def test_metadata_and_half_precision_stay() -> None:
    logits, image = inputs(6, 7)
    layer = MonaiCRF(iterations=1)
    tracked = MetaTensor(logits, meta={"filename_or_obj": "a.nii"}).requires_grad_()
    q = layer(tracked, MetaTensor(image))
    assert isinstance(q, MetaTensor) and q.meta["filename_or_obj"] == "a.nii"
    q[:, 0].sum().backward()
    assert tracked.grad is not None and float(tracked.grad.abs().sum()) > 0
    assert layer(logits.bfloat16(), image).dtype == torch.bfloat16


def test_the_kernels_are_shown() -> None:
    assert "bilateral: sigma_xy 5, sigma_rgb 127.5, weight 3, after" in repr(MonaiCRF())


def test_wrong_input_raises() -> None:
    logits, image = inputs(6, 7)
    with pytest.raises(InputError, match="compatibility_matrix requires a gradient"):
        MonaiCRF(compatibility_matrix=MATRIX.clone().requires_grad_())
    with pytest.raises(InputError, match=r"logits and image are \(6, 7\) and ndarray"):
        MonaiCRF()(logits[0, 0], image.numpy())
    with pytest.raises(InputError, match="the image has shape"):
        MonaiCRF()(logits, image[..., :5])
    with pytest.warns(InputWarning, match="not symmetric"):
        MonaiCRF(compatibility_matrix=torch.tensor([[1.0, 0.5, 0], [0, 1, 0], [0.5, 0, 1]]))
