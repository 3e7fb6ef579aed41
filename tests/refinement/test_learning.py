"""The differentiable twin of the mask model, with which its parameters are learnt, equals the model."""

from __future__ import annotations

import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from densefield import Custom
from densefield.crf.label_mask import label_mask
from densefield.refinement.parameters import MaskParameters, learnt
from densefield.refinement.rough_mask import EdgeBand, Model, edge_band, mask_edges
from densefield.refinement.roughness import estimate_roughness
from tests.support.textured_photos import blob, blocks, dilated, photo

torch = pytest.importorskip("torch")
pytest.importorskip("skimage")
pytest.importorskip("scipy")
pytest.importorskip("PIL")

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("the source distribution has no benchmarks", allow_module_level=True)

SHAPE = (60, 80)
TRUTH = blob(SHAPE, 17, (30, 36)).astype(np.uint8)
THREE = np.where(blob(SHAPE, 10, (22, 62)), 2, TRUTH).astype(np.uint8)
MASKS = {
    "two labels": (TRUTH, dilated(TRUTH == 1, 3).astype(np.uint8)),
    "blocks": (TRUTH, blocks(TRUTH, 6)),
    "three labels": (THREE, blocks(THREE, 5)),
}
LAWS = [field.name for field in fields(MaskParameters)]


@pytest.fixture(scope="module")
def learning() -> Any:
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import learn_refinement

        yield learn_refinement
        for name in set(sys.modules) - before:
            if (BENCHMARKS / f"{name}.py").is_file():
                sys.modules.pop(name)


def sample_of(learning: Any, name: str) -> Any:
    truth, rough = MASKS[name]
    sample = learning.mask_sample(learning.Photo("synthetic", photo(truth), truth), rough, learnt().mask)
    assert sample is not None and (sample.truth >= 0).all()
    return sample


def band_of(name: str) -> EdgeBand:
    truth, rough = MASKS[name]
    edges = mask_edges(label_mask(rough), photo(truth).reshape(-1, 3), (1.0, 1.0), 2)
    return edge_band(edges, estimate_roughness(edges), Model(learnt().mask))


@pytest.mark.parametrize("name", MASKS)
def test_scores_equal_those_of_the_native_core(learning, name):
    sample, band = sample_of(learning, name), band_of(name)
    scores = learning.MaskModel(learnt().mask).scores(sample).detach().numpy()
    assert scores.shape == band.scores.shape and scores.shape[1] > 500
    assert np.allclose(scores, band.scores, rtol=0, atol=2e-6)  # float32, numbers up to 6


@pytest.mark.parametrize("name", MASKS)
def test_marginals_equal_those_of_the_crf(learning, name):
    sample, band = sample_of(learning, name), band_of(name)
    q = learning.MaskModel(learnt().mask)(sample).exp().detach().numpy()
    expected = band.marginals().reshape(len(q), -1)[:, band.points]
    assert np.allclose(q, expected, rtol=0, atol=2e-6)  # the same lattice; sums in float32
    assert np.abs(q.sum(axis=0) - 1).max() < 1e-5


def test_parameters_survive_the_model(learning):
    found = learning.MaskModel(learnt().mask).parameters_now()
    for name in LAWS:
        one, other = getattr(found, name), getattr(learnt().mask, name)
        assert (one.value, one.power) == pytest.approx((other.value, other.power), rel=1e-6)


def test_a_greater_strength_is_equal_at_a_roughness_of_16(learning):
    stronger = learning.stronger(learnt().mask, 1.5)
    assert stronger.strength(1.0) == pytest.approx(1.5 * learnt().mask.strength(1.0))
    assert stronger.strength(16.0) == pytest.approx(learnt().mask.strength(16.0))
    assert replace(stronger, strength=learnt().mask.strength) == learnt().mask


def slope(loss: Any, parameter: Any, direction: Any, step: float) -> float:
    """The central difference of a loss along a direction."""
    values = []
    with torch.no_grad():
        for sign in (1, -1):
            parameter += sign * step * direction
            values.append(float(loss()))
            parameter -= sign * step * direction
    return (values[0] - values[1]) / (2 * step)


@pytest.mark.parametrize("group", ["logs", "powers"])
@pytest.mark.parametrize("name", MASKS)
def test_gradients_of_scores_equal_finite_differences(learning, name, group):
    sample, model = sample_of(learning, name), learning.MaskModel(learnt().mask).double()
    names = ("margins", "likelihoods", "features")
    sample = replace(sample, **{each: getattr(sample, each).double() for each in names})

    def loss() -> Any:
        return learning.log_likelihood_loss(model.scores(sample).log_softmax(dim=0), sample.truth)

    loss().backward()
    parameter = getattr(model, group)
    assert (parameter.grad[:3] != 0).all() and not parameter.grad[3:].any()  # kernels have no part in scores
    for place in range(3):
        axis = torch.zeros_like(parameter)
        axis[place] = 1
        # Truncation of order step², rounding of 1e-16/step.
        assert slope(loss, parameter, axis, 1e-5) == pytest.approx(float(parameter.grad[place]), rel=1e-6, abs=1e-10)


@pytest.mark.parametrize("group", ["logs", "powers"])
@pytest.mark.parametrize("part", ["scores", "kernels"])
def test_gradients_of_marginals_equal_finite_differences(learning, part, group):
    sample, model = sample_of(learning, "two labels"), learning.MaskModel(learnt().mask).double()
    names = ("margins", "likelihoods", "features")
    sample = replace(sample, **{each: getattr(sample, each).double() for each in names})
    from densefield import DenseCRF  # needs torch

    kernels = [Custom("place", sigma=[1.0] * 2), Custom("pixel", sigma=[1.0] * 5)]
    model.crfs[2] = DenseCRF(2, kernels, method="exact").double()  # a lattice moves with the widths of kernels

    def loss() -> Any:
        return learning.log_likelihood_loss(model(sample), sample.truth)

    loss().backward()
    parameter = getattr(model, group)
    here = slice(0, 3) if part == "scores" else slice(3, 8)
    direction = torch.zeros_like(parameter)
    direction[here] = parameter.grad[here]
    length = float(direction.norm())
    assert length > 1e-4
    # Truncation of order step², rounding of losses of 1e-16/step.
    assert slope(loss, parameter, direction / length, 1e-4) == pytest.approx(length, rel=1e-5)
