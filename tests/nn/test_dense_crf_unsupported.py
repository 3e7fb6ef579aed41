"""Unsupported features of DenseCRF raise, and supported ones in docs/torch.md work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from densefield import Bilateral, Spatial

torch = pytest.importorskip("torch")
from densefield import DenseCRF  # noqa: E402

# torch itself uses deprecated functions.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.torch.jit:DeprecationWarning",
    "ignore:.*legacy:DeprecationWarning",
    "ignore:The feature will be removed:DeprecationWarning",
)

SCORES = torch.tensor(np.random.default_rng(619).standard_normal((2, 3, 5, 6)), dtype=torch.float32)
IMAGE = torch.tensor(np.random.default_rng(620).integers(0, 256, (2, 3, 5, 6)), dtype=torch.uint8)
MODULES = {
    "native": (DenseCRF(3, [Spatial(2), Bilateral(9, 50)]), torch.float32),
    "torch operations": (DenseCRF(3, [Spatial(2), Bilateral(9, 50)]), torch.float64),
    "exact": (DenseCRF(3, [Spatial(2), Bilateral(9, 50)], method="exact"), torch.float32),
}


@pytest.fixture(params=MODULES)
def crf(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    module, dtype = MODULES[request.param]
    return lambda scores: module(scores.to(dtype), IMAGE)


TRANSFORMS = {
    "grad": lambda f: torch.func.grad(lambda s: f(s).sum())(SCORES),
    "vjp": lambda f: torch.func.vjp(f, SCORES),
    "jvp": lambda f: torch.func.jvp(f, (SCORES,), (SCORES,)),
    "jacrev": lambda f: torch.func.jacrev(f)(SCORES),
    "vmap": lambda f: torch.func.vmap(f)(SCORES[None]),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_of_torch_func_are_rejected(crf: Any, transform: str) -> None:
    with pytest.raises(
        NotImplementedError, match=r"does not support torch\.func .*Use backward\(\) or torch\.autograd"
    ):
        TRANSFORMS[transform](crf)


def test_transforms_of_parameters_are_rejected_and_leave_no_state() -> None:
    module = DenseCRF(3)
    parameters = dict(module.named_parameters())

    def loss(values: Any) -> Any:
        return torch.func.functional_call(module, values, (SCORES, IMAGE)).sum()

    with pytest.raises(NotImplementedError, match=r"torch\.func\.functional_call is supported"):
        torch.func.grad(loss)(parameters)
    assert torch.equal(loss(parameters), module(SCORES, IMAGE).sum())  # no invalid positions are cached


def test_forward_mode_is_rejected(crf: Any) -> None:
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="Use reverse mode: backward"):
        crf(torch.autograd.forward_ad.make_dual(SCORES, SCORES))


def test_second_derivatives_are_rejected(crf: Any) -> None:
    scores = SCORES.clone().requires_grad_()
    (slope,) = torch.autograd.grad(crf(scores).square().sum(), scores, create_graph=True)
    with pytest.raises(NotImplementedError, match="densefield has no second derivatives"):
        torch.autograd.grad(slope.sum(), scores)
    with pytest.raises(NotImplementedError, match="densefield has no second derivatives"):
        torch.autograd.functional.hessian(lambda s: crf(s).square().sum(), SCORES)


def test_several_cotangents_at_once_are_rejected() -> None:
    scores = SCORES.clone().requires_grad_()
    log_q = DenseCRF(3)(scores, IMAGE)
    with pytest.raises(NotImplementedError, match=r"one cotangent at a time: .* without is_grads_batched=True"):
        torch.autograd.grad(log_q, scores, torch.ones(2, *log_q.shape), is_grads_batched=True)


class Network(torch.nn.Module):
    """A convolution followed by a dense CRF."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.crf = torch.nn.Conv2d(3, 3, 1), DenseCRF(3)

    def forward(self, image: Any) -> Any:
        return self.crf(self.convolution(image / 255), image)


def test_scripting_is_rejected() -> None:
    for module in (DenseCRF(3), Network()):
        with pytest.raises(NotImplementedError, match=r"does not support torch\.jit\.script\. Use torch\.export"):
            torch.jit.script(module)


def test_tracing_is_rejected() -> None:
    for module, arguments in ((DenseCRF(3), (SCORES, IMAGE)), (Network(), (IMAGE,))):
        with pytest.raises(NotImplementedError, match=r"does not support torch\.jit\.trace\. Use torch\.export"):
            torch.jit.trace(module, arguments)


def test_the_older_exporter_to_onnx_is_rejected(tmp_path: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"cannot be exported to ONNX.*Export the network alone"):
        torch.onnx.export(Network(), (IMAGE,), tmp_path / "network.onnx", dynamo=False)


def test_the_newer_exporter_to_onnx_is_rejected(tmp_path: Any) -> None:
    pytest.importorskip("onnxscript", reason="the newer exporter needs it")
    with pytest.raises(torch.onnx.errors.OnnxExporterError, match="cannot be exported to ONNX"):
        torch.onnx.export(Network(), (IMAGE,), tmp_path / "network.onnx", dynamo=True)


def test_export_under_the_flag_of_the_newer_exporter_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newer exporter sets the flag and calls torch.export."""
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    with pytest.raises(NotImplementedError, match="cannot be exported to ONNX"):
        torch.export.export(Network(), (IMAGE,))


def test_the_remedies_of_the_errors_work() -> None:
    module, scores = DenseCRF(3, [Spatial(2), Bilateral(9, 50)]), SCORES.clone().requires_grad_()
    expected = module(scores, IMAGE)
    (slope,) = torch.autograd.grad(expected[:, 0].sum(), scores, retain_graph=True)
    expected[:, 0].sum().backward()
    assert torch.equal(scores.grad, slope) and module.spatial.log_sigma.grad is not None
    _, product = torch.autograd.functional.vjp(lambda s: module(s, IMAGE)[:, 0].sum(), SCORES)
    assert torch.equal(product, slope)
    called = torch.func.functional_call(module, dict(module.named_parameters()), (SCORES, IMAGE))
    assert torch.equal(called, expected)
    with torch.no_grad():
        program = torch.export.export(module, (SCORES, IMAGE)).module()
        compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
        # Widths are computed by other torch kernels and rounded differently.
        assert torch.allclose(program(SCORES, IMAGE), expected, rtol=0, atol=1e-5)
        assert torch.allclose(compiled(SCORES, IMAGE), expected, rtol=0, atol=1e-5)
    torch.compiler.reset()


def test_filters_reject_transforms() -> None:
    from densefield.filters import LatticeFilter, apply_filter, gaussian_filter

    x, v = torch.rand(5, 2), torch.rand(5, 1)
    k = LatticeFilter(x.numpy())
    with pytest.raises(NotImplementedError, match=r"apply_filter does not support torch\.func"):
        torch.func.grad(lambda values: apply_filter(k, values).sum())(v)
    with pytest.raises(NotImplementedError, match=r"gaussian_filter does not support torch\.func"):
        torch.func.grad(lambda values: gaussian_filter(x, values).sum())(v)
    with (
        torch.autograd.forward_ad.dual_level(),
        pytest.raises(NotImplementedError, match="no derivatives in forward mode"),
    ):
        gaussian_filter(x, torch.autograd.forward_ad.make_dual(v, v))
