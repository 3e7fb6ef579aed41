"""Filters as autograd functions: gradients with respect to values, features and widths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield import InputError, InputTypeError
from densefield.filters import LatticeFilter

torch = pytest.importorskip("torch")
from densefield.filters import ExactFilter, apply_filter, gaussian_filter  # noqa: E402


def random(*shape: int, seed: int = 515) -> Any:
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape))


def test_the_exact_filter_passes_gradcheck_for_values_and_features() -> None:
    features, values = random(14, 3).requires_grad_(), random(2, 14, 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, v: gaussian_filter(x, v, method="exact"), (features, values))


def test_gradients_by_widths_equal_finite_differences() -> None:
    position, values = random(15, 2), random(15, 2, seed=1)
    width = torch.tensor([0.8, 1.6], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: gaussian_filter(position / s, values, method="exact"), (width,))


def test_the_torch_lattice_passes_gradcheck_for_values() -> None:
    features, values = random(14, 3), random(14, 2, seed=1).requires_grad_()
    for operator in ("symmetric", "pydensecrf"):
        assert torch.autograd.gradcheck(lambda v, o=operator: gaussian_filter(features, v, operator=o), (values,))


def test_the_torch_lattice_passes_gradcheck_for_features_with_its_own_derivative() -> None:
    features, values = (random(14, 3) * 0.8).requires_grad_(), random(14, 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, v: gaussian_filter(x, v, derivative="lattice", calibrate=False), (features, values)
    )


@pytest.mark.parametrize("derivative", ["gaussian", "lattice"])
def test_gradients_of_the_native_lattice_equal_those_of_the_torch_lattice(derivative: Any) -> None:
    features, values, cotangent = random(400, 5), random(400, 21, seed=1), random(400, 21, seed=2)
    sent = []
    for dtype in (torch.float32, torch.float64):
        x = features.float().to(dtype).requires_grad_()  # the same numbers for both
        v = values.float().to(dtype).requires_grad_()
        gaussian_filter(x, v, derivative=derivative).backward(cotangent.float().to(dtype))
        sent.append((x.grad.double(), v.grad.double()))
    for native, twin in zip(*sent, strict=True):
        assert float((native - twin).abs().max() / twin.abs().max()) < 1e-5  # float32 sums, some digits cancel


def test_the_gaussian_derivative_is_close_to_the_exact_one() -> None:
    """On dense points, for which the lattice is accurate; see docs/accuracy.md for photos."""
    features = torch.tensor(np.random.default_rng(9).random((3000, 3)) * 3)
    values, cotangent = torch.sin(features), torch.cos(features)
    slopes = {}
    for method in ("exact", "lattice"):
        x = features.clone().requires_grad_()
        gaussian_filter(x, values, method=method).backward(cotangent)
        slopes[method] = x.grad
    cosine = torch.nn.functional.cosine_similarity(slopes["exact"].flatten(), slopes["lattice"].flatten(), dim=0)
    assert float(cosine) > 0.99
    assert float(slopes["lattice"].norm() / slopes["exact"].norm()) == pytest.approx(1, abs=0.05)


def test_a_batch_of_features_filters_each_item_separately() -> None:
    features, values = random(3, 50, 2).float(), random(3, 50, 4, seed=1).float()
    whole = gaussian_filter(features, values)
    for index in range(3):
        assert torch.equal(whole[index], gaussian_filter(features[index], values[index]))
    one = gaussian_filter(features[0], values)
    assert torch.equal(one[0], whole[0])
    assert gaussian_filter(features[:0], values[:0]).shape == (0, 50, 4)


def test_a_filter_can_be_reused() -> None:
    features = random(60, 2).float().requires_grad_()
    k = LatticeFilter(features.detach().numpy())
    values = random(60, 3).float().requires_grad_()
    result = apply_filter(k, apply_filter(k, values, features), features)
    result.sum().backward()
    assert features.grad.shape == (60, 2)
    ones = torch.ones(60, 3)
    assert torch.allclose(values.grad, torch.from_numpy(k.apply(k.apply(ones.numpy()))), rtol=1e-5)


def test_features_without_gradients_need_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LatticeFilter, "gradients", lambda *_: pytest.fail("gradients of features were computed"))
    values = random(20, 3).float().requires_grad_()
    gaussian_filter(random(20, 2).float(), values).sum().backward()
    assert values.grad is not None


def second_derivatives(name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The square of a filtering's gradient, and the two inputs it depends on."""
    values = random(12, 1).requires_grad_()
    features = random(12, 2).to(torch.float32 if name == "native" else torch.float64).requires_grad_()
    values = values.detach().to(features.dtype).requires_grad_()
    filtered = gaussian_filter(features, values, method="exact" if name == "exact" else "lattice")
    slopes = torch.autograd.grad((filtered**2).sum(), (values, features), create_graph=True)
    return sum((slope**2).sum() for slope in slopes), values, features


@pytest.mark.parametrize("name", ["exact", "native", "torch"])
def test_second_derivatives_raise(name: str) -> None:
    """Also by torch.autograd.grad, which skips nodes that do not lead to its inputs."""
    for wanted in (0, 1):
        slope, *inputs = second_derivatives(name)
        with pytest.raises(RuntimeError, match="differentiated once"):
            torch.autograd.grad(slope, inputs[wanted])
    slope, *_ = second_derivatives(name)
    with pytest.raises(RuntimeError, match="differentiated once"):
        slope.backward()


def test_invalid_input_raises() -> None:
    features, values = random(6, 2), random(6, 1)
    with pytest.raises(InputError, match="lattice, exact"):
        gaussian_filter(features, values, method="fft")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no options"):
        gaussian_filter(features, values, method="exact", halo=1)
    with pytest.raises(InputError, match="batch of 2"):
        gaussian_filter(random(2, 6, 2), values)
    with pytest.raises(InputTypeError, match="ndarray"):
        gaussian_filter(features.numpy(), values)
    with pytest.raises(InputTypeError, match="float32"):
        gaussian_filter(features.float(), values)
    with pytest.raises(InputTypeError, match="dtype"):
        gaussian_filter(features.half(), values.half())
    with pytest.raises(InputError, match="gaussian, lattice"):
        gaussian_filter(features, values, derivative="finite")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no lattice"):
        gaussian_filter(features, values, method="exact", derivative="lattice")
    with pytest.raises(InputError, match="was made from"):
        apply_filter(LatticeFilter(np.zeros((6, 2))), values.float(), features[:1].float())


def test_filters_on_another_device_use_torch_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device "meta" has shapes only, and shows which implementation was used."""
    values = torch.zeros(6, 1, device="meta")
    with pytest.raises(InputTypeError, match="CPU"):
        apply_filter(LatticeFilter(np.zeros((6, 2))), values)
    built = []
    monkeypatch.setattr(
        "densefield.filters.autograd.TorchLatticeFilter", lambda x, **_: built.append(x) or ExactFilter(x)
    )
    monkeypatch.setattr("densefield.filters.autograd.apply_filter", lambda k, v, x, **_: v)
    monkeypatch.setattr("densefield.filters.exact.check_finite", lambda _: None)
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: torch.zeros(1))
    gaussian_filter(torch.zeros(6, 2, device="meta"), values)
    assert len(built) == 1


def test_native_options_are_checked_and_ignored_by_torch_operations() -> None:
    features, values = random(20, 2), random(20, 1)
    assert torch.equal(gaussian_filter(features, values, threads=2, simd="auto"), gaussian_filter(features, values))
    with pytest.raises(InputError, match="threads"):
        gaussian_filter(features, values, threads=0)


def test_the_number_of_threads_is_at_most_that_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data loaders give each worker one thread."""
    seen = []
    build = LatticeFilter.__init__
    monkeypatch.setattr(
        LatticeFilter, "__init__", lambda self, x, **o: (seen.append(o["threads"]), build(self, x, **o))[1]
    )
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    gaussian_filter(random(20, 2).float(), random(20, 1).float())
    assert seen == [1]


def test_cotangents_may_be_expanded_and_inference_mode_works() -> None:
    features, values = random(30, 2).float().requires_grad_(), random(30, 4).float()
    gaussian_filter(features, values).sum().backward()
    assert features.grad.abs().sum() > 0
    with torch.inference_mode():
        assert gaussian_filter(features, values).shape == (30, 4)
