"""Convergent inference in torch: equal to the NumPy CRF and to native code, with gradients as finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield import CRF, Bilateral, InputError, Spatial

torch = pytest.importorskip("torch")
from densefield import DenseCRF  # noqa: E402
from tests.nn.test_native_op import BATCH, LABELS, POINTS, check, model, random  # noqa: E402  # noqa: E402
from tests.nn.test_reference import projected, small_model  # noqa: E402

OPTIONS: dict[str, Any] = {"inference": "convergent", "exclude_self": True}


def with_weight(weight: str) -> tuple[Any, ...]:
    """The model with a positive semi-definite first weight."""
    *rest, w_near, w_alike = model(weight=weight)
    if weight == "matrix":
        w_near = w_near @ w_near.T / LABELS
    return *rest, w_near, w_alike


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("normalization", ["symmetric", "none"])
@pytest.mark.parametrize("shape", ["widths", "matrix"])
def test_every_gradient_matches_finite_differences(shape: str, normalization: str, masked: bool) -> None:
    present = torch.tensor([[1.0, 1.0, 0.0, 1.0, 1.0]]) if masked else None
    options = {"normalizations": [normalization], "present": present, **OPTIONS}
    assert torch.autograd.gradcheck(lambda *leaves: projected(*leaves, **options), small_model(shape=shape))


@pytest.mark.parametrize("weight", ["per label", "matrix"])
def test_gradients_reach_every_form_of_weight(weight: str) -> None:
    scores, features, widths, mu = small_model(weight)

    def project(scores: Any, features: Any, widths: Any, mu: Any) -> Any:
        return projected(scores, features, widths, mu if mu.ndim < 2 else mu @ mu.T / 3, **OPTIONS)

    assert torch.autograd.gradcheck(project, (scores, features, widths, mu))


@pytest.mark.parametrize("method", ["exact", "lattice"])
def test_it_equals_the_numpy_crf(method: Any) -> None:
    rng = np.random.default_rng(6022)
    scores, image = rng.standard_normal((4, 6, 7)), rng.uniform(0, 255, (6, 7, 3))
    mixing = rng.standard_normal((4, 4))
    kernels = [Spatial(2, weight=mixing @ mixing.T), Bilateral(4, 60, weight=3, normalization="none")]
    crf = CRF(kernels, iterations=4, method=method, **OPTIONS)
    dtype = torch.float64 if method == "exact" else torch.float32
    module = DenseCRF.from_numpy(crf, num_classes=4).to(dtype)
    found = module(torch.tensor(scores, dtype=dtype)[None], torch.tensor(image, dtype=dtype)[None].permute(0, 3, 1, 2))
    truth = crf.solve(scores, image).log_marginals
    # Parameters are logarithms: rounded twice in float64; float32 sums in another order.
    assert np.abs(found[0].detach().numpy() - truth).max() <= (1e-9 if method == "exact" else 5e-5)


@pytest.mark.parametrize("weight", ["potts", "per label", "matrix"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("adjoint", ["store", "recompute"])
def test_native_code_equals_the_reference(weight: str, masked: bool, adjoint: str) -> None:
    present = (random(BATCH, POINTS, seed=6) > -0.8).float() if masked else None
    check(with_weight(weight), normalizations=["symmetric"] * 2, present=present, adjoint=adjoint, **OPTIONS)


def test_native_code_equals_the_reference_without_normalisation() -> None:
    leaves = with_weight("potts")
    leaves = (*leaves[:-2], *(0.05 * weight for weight in leaves[-2:]))  # messages are sums over a hundred points
    check(leaves, normalizations=["none"] * 2, **OPTIONS)


@pytest.mark.parametrize("iterations", [1, 6])
def test_native_code_equals_the_reference_after_any_number_of_iterations(iterations: int) -> None:
    check(with_weight("potts"), normalizations=["symmetric"] * 2, iterations=iterations, **OPTIONS)


def test_with_self_interaction_it_is_ordinary_mean_field() -> None:
    scores, image = random(1, 3, 6, 7, seed=8), 255 * torch.rand(1, 3, 6, 7)
    ordinary, convergent = (DenseCRF(3, inference=each)(scores, image) for each in ("parallel", "convergent"))
    assert torch.equal(ordinary, convergent)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_weight_that_is_not_semidefinite_is_refused_with_a_cure(dtype: str) -> None:
    crf = DenseCRF(2, [Spatial(2, weight=np.array([[0.0, 1.0], [1.0, 0.0]]))], **OPTIONS)
    scores = torch.zeros(1, 2, 4, 4, dtype=getattr(torch, dtype))
    with pytest.raises(InputError, match=r"^convergent inference expects positive semi-definite.*freeze it"):
        crf.to(scores.dtype)(scores)


def test_one_sided_kernels_are_refused_when_the_module_is_made() -> None:
    says = r"the spatial2 kernel has normalization='after'\. Use normalization='symmetric'"
    kernels = [Spatial(2), Spatial(3, normalization="after")]
    with pytest.raises(InputError, match=says):
        DenseCRF(2, kernels, **OPTIONS)
    crf = DenseCRF(2, kernels)
    with pytest.raises(InputError, match=says):
        crf.options = crf.options.replace(inference="convergent")
    assert crf.options.inference == "parallel"


def test_a_matrix_that_learning_has_moved_out_of_bounds_is_named_as_the_cause() -> None:
    crf = DenseCRF(2, [Spatial(2, weight=np.eye(2))], **OPTIONS)
    crf(torch.zeros(1, 2, 4, 4)).sum().backward()
    assert crf.spatial.matrix.grad is not None
    with torch.no_grad():
        crf.spatial.matrix.sub_(2 * torch.eye(2))
    with pytest.raises(InputError, match=r"^convergent inference .* A matrix that is learnt may become so: freeze it"):
        crf(torch.zeros(1, 2, 4, 4))
    assert crf.to_numpy().kernels[0].weight.tolist() == [[-1.0, 0.0], [0.0, -1.0]]


def test_sequential_inference_has_no_gradients() -> None:
    with pytest.raises(InputError, match="'parallel' or 'convergent'"):
        DenseCRF(2, inference="sequential", method="exact", exclude_self=True)
    crf = DenseCRF(2, method="exact", exclude_self=True)
    with pytest.raises(InputError, match="no gradients"):
        crf.options = crf.options.replace(inference="sequential")


def test_options_survive_printing_numpy_and_files(tmp_path: Any) -> None:
    crf = DenseCRF(3, **OPTIONS)
    assert "inference='convergent'" in repr(crf) and "inference 'convergent'" in repr(crf.to_numpy())
    crf.save(tmp_path / "crf.toml")
    assert DenseCRF.load(tmp_path / "crf.toml", num_classes=3).options == crf.options
    assert CRF.load(tmp_path / "crf.toml").options.inference == "convergent"


def test_compiled_and_exported_models_give_the_same_result() -> None:
    torch.compiler.reset()
    crf = DenseCRF(3, iterations=3, **OPTIONS)
    scores, image = random(1, 3, 8, 9, seed=8), 255 * torch.rand(1, 3, 8, 9)
    expected = crf(scores, image).detach()
    assert torch.equal(torch.compile(crf, fullgraph=True, backend="aot_eager")(scores, image).detach(), expected)
    with torch.no_grad():
        exported = torch.export.export(crf, (scores, image))
        assert torch.equal(exported.module()(scores, image), expected)
