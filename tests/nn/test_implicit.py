"""Gradients at a fixed point: equal to those of unrolled iterations, in memory that does not depend on them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from densefield import Bilateral, InputWarning, Spatial
from densefield.crf.linear_solver import solve_linear

torch = pytest.importorskip("torch")
from densefield import DenseCRF  # noqa: E402
from tests.nn.test_native_op import CANCELLED, NAMES, model, random, run  # noqa: E402
from tests.nn.test_reference import exact, projected, small_model  # noqa: E402
from tests.support.mean_field_ops import native, reference  # noqa: E402

INFERENCE: dict[str, dict[str, Any]] = {
    "parallel": {},
    "parallel, exclude_self": {"exclude_self": True},
    "convergent": {"inference": "convergent", "exclude_self": True},
}


@pytest.fixture(autouse=True)
def _no_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        yield


@pytest.mark.parametrize("inference", INFERENCE)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", ["widths", "matrix"])
def test_every_gradient_matches_finite_differences(shape: str, masked: bool, inference: str) -> None:
    present = torch.tensor([[1.0, 1.0, 0.0, 1.0, 1.0]]) if masked else None
    options = {"present": present, "adjoint": "implicit", "iterations": 2000, **INFERENCE[inference]}
    assert torch.autograd.gradcheck(lambda *leaves: projected(*leaves, **options), small_model(shape=shape))


@pytest.mark.parametrize("weight", ["scalar", "per label", "matrix"])
@pytest.mark.parametrize("normalization", ["symmetric", "after", "before"])
def test_it_equals_unrolled_iterations_at_convergence(normalization: str, weight: str) -> None:
    found = []
    for adjoint in ("implicit", "store"):
        leaves = small_model(weight)
        mixed = 0.5 * (leaves[3] + leaves[3].mT) if weight == "matrix" else leaves[3]
        log_q = exact(*leaves[:3], mixed, adjoint=adjoint, normalizations=[normalization], iterations=400)
        log_q.backward(torch.tensor(np.random.default_rng(7).standard_normal(log_q.shape)))
        found.append([log_q.detach(), *(leaf.grad for leaf in leaves)])
    for implicit, unrolled in zip(*found, strict=True):
        assert float((implicit - unrolled).abs().max()) <= 1e-6 * float(unrolled.abs().max())


@pytest.mark.parametrize("inference", INFERENCE)
@pytest.mark.parametrize("weight", ["potts", "per label", "matrix"])
def test_native_code_equals_unrolled_iterations_in_double_precision(weight: str, inference: str) -> None:
    *rest, w_near, w_alike = model(weight=weight)
    if weight == "matrix":
        w_near = w_near @ w_near.T / len(w_near)
    leaves = (*rest, 0.3 * w_near, 0.3 * w_alike)  # changes fall below 1e-9 within the iterations
    options = {"normalizations": ["symmetric"] * 2, "iterations": 40, **INFERENCE[inference]}
    log_q, slopes = run(native, leaves, adjoint="implicit", **options)
    truth, true_slopes = run(reference, leaves, torch.float64, **options)
    assert float((log_q - truth).abs().max()) <= 2e-5  # iterations stop at changes of 1e-6
    for name, slope, true in zip(NAMES, slopes, true_slopes, strict=True):
        # The linear system is solved to 1e-5; CANCELLED is that of back-tracking itself.
        assert float((slope - true).abs().max() / true.abs().max()) <= 2 * CANCELLED, name


def test_it_solves_where_the_sum_of_unrolled_gradients_diverges() -> None:
    """Two pixels that attract strongly: the parallel update oscillates, and its back-tracking grows."""
    scores = torch.tensor([[[1.0, 0.4], [0.0, 0.5]]], dtype=torch.float64, requires_grad=True)
    widths, features = torch.ones(1, dtype=torch.float64), torch.zeros(1, 2, 1, dtype=torch.float64)
    weight = torch.tensor(6.0, dtype=torch.float64, requires_grad=True)
    options = {"normalizations": ["none"], "iterations": 3000, **INFERENCE["convergent"]}

    def loss(scores: Any, weight: Any) -> Any:
        return (exact(scores, features, widths, weight, adjoint="implicit", **options)[0, 0] ** 2).sum()

    assert torch.autograd.gradcheck(loss, (scores, weight))


def test_memory_does_not_depend_on_the_iterations() -> None:
    sizes = {}
    for iterations in (300, 600):
        scores = random(1, 3, 12, 13, seed=8).requires_grad_()
        crf = DenseCRF(3, [Spatial(2, weight=1)], iterations=iterations, adjoint="implicit")
        held: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, held=held: held.append(t.numel()), lambda _: None):
            crf(scores)
        sizes[iterations] = sum(held)
    assert sizes[300] == sizes[600] < 10 * scores.numel()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_too_few_iterations_are_warned_of(dtype: str) -> None:
    scores = random(1, 3, 12, 13, seed=8).to(getattr(torch, dtype)).requires_grad_()
    crf = DenseCRF(3, [Spatial(2, weight=3)], iterations=2, adjoint="implicit").to(scores.dtype)
    with pytest.warns(InputWarning, match=r"last of 2 iterations changed a marginal by 0\..*more iterations"):
        crf(scores)


def test_a_system_that_is_not_solved_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    from densefield.crf import implicit

    monkeypatch.setattr(implicit, "solve_linear", lambda apply, b, tolerance: solve_linear(apply, b, tolerance, 3))
    scores = random(1, 3, 12, 13, seed=8).requires_grad_()
    image = 255 * torch.rand(1, 3, 12, 13)
    log_q = DenseCRF(3, [Bilateral(9, 60, weight=3)], iterations=300, adjoint="implicit")(scores, image)
    with pytest.warns(InputWarning, match=r"relative residual of .*adjoint='store'"):
        log_q.backward(random(*log_q.shape, seed=9))


def test_no_iterations_are_a_softmax() -> None:
    scores = random(1, 3, 4, 5, seed=8).requires_grad_()
    log_q = DenseCRF(3, [Spatial(2)], iterations=0, adjoint="implicit")(scores)
    assert torch.allclose(log_q, scores.log_softmax(1), atol=1e-6)
    log_q.sum().backward()
    assert scores.grad is not None and bool(scores.grad.isfinite().all())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("inference", ["parallel", "convergent"])
@pytest.mark.parametrize(
    ("kernels", "shape"),
    [([], (1, 3, 4, 5)), ([Spatial(2)], (0, 3, 4, 5)), ([Spatial(2)], (1, 3, 0, 5)), ([Spatial(2)], (2, 1, 4, 5))],
    ids=["no kernels", "no images", "no pixels", "one class"],
)
def test_empty_problems_have_gradients_too(kernels: Any, shape: Any, inference: Any, dtype: str) -> None:
    scores = random(*shape, seed=8).to(getattr(torch, dtype)).requires_grad_()
    options = {"iterations": 50, "adjoint": "implicit", "inference": inference, "exclude_self": True}
    log_q = DenseCRF(shape[1], kernels, **options).to(scores.dtype)(scores)
    cotangent = random(*shape, seed=9).to(scores.dtype)
    (slope,) = torch.autograd.grad(log_q, scores, cotangent)
    assert slope.shape == scores.shape and bool(slope.isfinite().all())
    if not kernels:  # that of log softmax
        truth = cotangent - scores.softmax(1).detach() * cotangent.sum(1, keepdim=True)
        assert torch.allclose(slope, truth, atol=1e-6)


BACKENDS = {
    "native": {},
    "torch": {"backend": "torch"},
    "exact": {"method": "exact"},
}


def unconverged(weight: Any, **options: Any) -> DenseCRF:
    kernel = Spatial(3, weight=weight, normalization="none")
    return DenseCRF(2, [kernel], iterations=2, adjoint="implicit", exclude_self=True, **options)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_is_said_of_gradients_where_none_are_computed(backend: str) -> None:
    crf, scores = unconverged(3.0, **BACKENDS[backend]), random(1, 2, 6, 7, seed=3)
    with pytest.warns(InputWarning, match="expects a fixed point"):
        crf(scores)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.no_grad():
            crf(scores)
        crf.requires_grad_(False)
        crf(scores)
    with pytest.warns(InputWarning, match="expects a fixed point"):
        crf(scores.requires_grad_())


@pytest.mark.parametrize("backend", BACKENDS)
def test_convergent_inference_is_recommended_only_where_it_is_possible(backend: str) -> None:
    scores, options = random(1, 2, 6, 7, seed=3), BACKENDS[backend]
    repels = np.array([[0.0, -3.0], [-3.0, 0.0]])
    with pytest.warns(InputWarning, match=r"iterations, inference='convergent', or adjoint='store'"):
        unconverged(3.0, **options)(scores)
    for crf in (unconverged(repels, **options), unconverged(3.0, inference="convergent", **options)):
        with pytest.warns(InputWarning, match=r"Use more iterations, or adjoint='store'"):
            crf(scores)


@pytest.mark.parametrize("seed", range(5))
def test_the_linear_solver_solves_random_systems(seed: int) -> None:
    rng = np.random.default_rng(9000 + seed)
    matrix = np.eye(60) + 0.15 * rng.standard_normal((60, 60))
    b = rng.standard_normal(60)
    solution = solve_linear(lambda x: matrix @ x, b, 1e-10, 2000)
    assert solution.residual <= 1e-10
    assert np.abs(matrix @ solution.x - b).max() <= 1e-9


def test_the_linear_solver_reports_what_it_reached() -> None:
    singular = np.diag([1.0, 0.0])
    solution = solve_linear(lambda x: singular @ x, np.array([1.0, 1.0]), 1e-10)
    assert solution.residual > 0.1
    assert solve_linear(lambda x: x, np.zeros(3), 1e-10).residual == 0
