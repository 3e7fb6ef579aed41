"""Native back-tracking equals autograd through mean_field() up to rounding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest

from densefield import _core
from densefield.crf import native
from densefield.crf.kernels import Normalization
from densefield.crf.mean_field import mean_field
from densefield.crf.native import KernelGradient, Wanted, native_back_track, native_mean_field, state_floats
from densefield.crf.pairwise import Pairwise, normalized
from tests.support.random_terms import Array, bind_random, random

torch = pytest.importorskip("torch")
from densefield.filters import TorchLatticeFilter  # noqa: E402
from densefield.filters.autograd import apply_filter  # noqa: E402

NORMALIZATIONS = get_args(Normalization)
EVERYTHING = Wanted(weight=True, shape=True, features=True)

# Native sums are in float32, the reference in float64. Scores and weights: tens of roundings of 6e-8. Measured:
# at most 2e-6, with 70 labels.
ROUNDING = 1e-5
# Features and shapes: differences of sums with cancellation. Measured: at most 8e-6.
CANCELLED = 4e-5


@pytest.fixture(autouse=True)
def _torch_on_one_thread() -> Iterator[None]:
    """The reference has small operations, for which waiting threads are slow on a busy computer."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(usual)


@dataclass
class Truth:
    """Gradients with respect to scores (L, N), and features (N, d) and μ of each kernel, and its moments (d, d)."""

    scores: Any
    features: list[Any]
    mu: list[Any]
    moments: list[Any]


def forward(bounds: Sequence[Pairwise], scores: Array, iterations: int) -> tuple[Array, Array]:
    log_q = np.empty_like(scores)
    states = np.empty((iterations, state_floats(scores.shape[1], len(scores))), np.float32)
    native_mean_field(bounds, scores, iterations, 2, log_marginals=log_q, states=states)
    return log_q, states


def backward(
    bounds: Sequence[Pairwise],
    scores: Array,
    cotangent: Array,
    iterations: int = 3,
    normalization: Any = "symmetric",
    wanted: Sequence[Wanted] | None = None,
    threads: int = 2,
) -> tuple[Array, list[KernelGradient]]:
    log_q, states = forward(bounds, scores, iterations)
    wants = [EVERYTHING] * len(bounds) if wanted is None else wanted
    return native_back_track(bounds, [normalization] * len(bounds), wants, cotangent, log_q, states, threads)


def by_autograd(
    bounds: Sequence[Pairwise],
    scores: Array,
    cotangent: Array,
    iterations: int,
    normalization: Any,
    operator: Any,
    exclude_self: bool,
) -> Truth:
    """The same kernels in the graph of torch, in float64."""
    f = torch.tensor(scores.T, dtype=torch.float64, requires_grad=True)
    features, weights, stretches, couplings = [], [], [], []
    for bound in bounds:
        assert bound.lattice is not None
        x, mu = (
            torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in (bound.lattice.features, bound.mu)
        )
        k = TorchLatticeFilter(x, operator=operator, calibrate=normalization == "none")
        present = torch.tensor(bound.before > 0, dtype=torch.float64)
        stretch = torch.eye(x.shape[1], dtype=torch.float64, requires_grad=True)
        filtering = partial(apply_filter, k, features=x, stretch=stretch, present=present)
        diagonal = k.diagonal() if exclude_self else None
        couplings.append(normalized(filtering, normalization, mu, present, diagonal))
        features.append(x)
        weights.append(mu)
        stretches.append(stretch)
    log_q = mean_field(f, couplings, iterations)
    leaves = [f, *features, *weights, *stretches]
    found = torch.autograd.grad(log_q, leaves, torch.tensor(cotangent.T).double(), materialize_grads=True)
    to_scores, *rest = [slope.numpy() for slope in found]
    kernels = len(bounds)
    moments = [-slope for slope in rest[2 * kernels :]]  # of A in A x
    return Truth(to_scores.T, rest[:kernels], rest[kernels : 2 * kernels], moments)


def check(points: int, labels: int, *, iterations: int = 3, **options: Any) -> None:
    bounds = bind_random(points, labels, **options)
    scores, cotangent = 2 * random(labels, points, seed=4421), random(labels, points, seed=907)
    normalization = options.get("normalization", "symmetric")
    to_scores, found = backward(bounds, scores, cotangent, iterations, normalization)
    operator, exclude_self = options.get("operator", "symmetric"), options.get("exclude_self", False)
    truth = by_autograd(bounds, scores, cotangent, iterations, normalization, operator, exclude_self)
    assert np.abs(to_scores - truth.scores).max() <= ROUNDING * np.abs(truth.scores).max()
    for gradient, bound, slopes, mu, moments in zip(
        found, bounds, truth.features, truth.mu, truth.moments, strict=True
    ):
        assert gradient.mu is not None and gradient.features is not None and gradient.moments is not None
        assert gradient.mu.shape == mu.shape
        assert np.abs(gradient.mu - mu).max() <= ROUNDING * max(np.abs(mu).max(), 1)
        # Slopes of points without neighbours are zero: differences of sums of about one.
        assert np.abs(gradient.features - slopes).max() <= CANCELLED * max(np.abs(slopes).max(), 1)
        # Moments are differences of sums, so errors are relative to the sum of absolute terms.
        assert bound.lattice is not None
        x = bound.lattice.features.astype(np.float64)
        size = (np.abs(slopes).T @ np.abs(x)).max()
        assert np.abs(gradient.moments - moments).max() <= CANCELLED * max(size, 1)


@pytest.mark.parametrize("labels", [1, 2, 3, 5, 21, 33, 70])
def test_it_equals_autograd_for_any_number_of_labels_and_compatibility(labels: int) -> None:
    check(130, labels, dimensions=(2, 5, 3))


@pytest.mark.parametrize("points", [1, 2, 63, 64, 65, 300, 9000])
def test_it_equals_autograd_for_any_number_of_points(points: int) -> None:
    check(points, 4)


@pytest.mark.parametrize("operator", ["symmetric", "pydensecrf"])  # the second is not self-adjoint
@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_it_equals_autograd_for_every_option(
    normalization: str, ignore: bool, exclude_self: bool, operator: str
) -> None:
    # Without normalisation messages are sums over hundreds of points; small weights keep marginals off 0 and 1.
    strength = 0.02 if normalization == "none" else 1.0
    options: Any = {"ignore": ignore, "exclude_self": exclude_self, "operator": operator, "strength": strength}
    check(300, 4, normalization=normalization, kinds=("matrix", "potts"), **options)


@pytest.mark.parametrize("dimensions", [(), (1,), (9, 2, 16)])
def test_it_equals_autograd_for_any_kernels(dimensions: tuple[int, ...]) -> None:
    check(300, 4, dimensions=dimensions)


@pytest.mark.slow
def test_it_equals_autograd_for_lattices_with_different_chunks() -> None:
    # These points make 4 chunks in two dimensions and 8 in eight, for 16-bit slots.
    check(30000, 3, dimensions=(8, 2), iterations=2)


@pytest.mark.parametrize("iterations", [0, 1, 7])
def test_it_equals_autograd_after_any_number_of_iterations(iterations: int) -> None:
    check(200, 4, iterations=iterations)


def test_gradients_are_finite_where_marginals_are_certain() -> None:
    bounds, scores = bind_random(300, 4), 1e4 * random(4, 300, seed=4421)
    to_scores, found = backward(bounds, scores, random(4, 300, seed=907))
    assert np.isfinite(to_scores).all()
    for gradient in found:
        assert all(np.isfinite(each).all() for each in (gradient.mu, gradient.moments, gradient.features))


@pytest.mark.parametrize("exclude_self", [False, True])
def test_each_gradient_can_be_computed_alone(exclude_self: bool) -> None:
    bounds = bind_random(200, 4, exclude_self=exclude_self)
    scores, cotangent = random(4, 200, seed=71), random(4, 200, seed=907)
    to_scores, whole = backward(bounds, scores, cotangent)
    for weight, shape, features in np.ndindex(2, 2, 2):
        first = Wanted(bool(weight), bool(shape), bool(features))
        wants = [first, Wanted(weight=True, shape=False, features=False)]
        same, found = backward(bounds, scores, cotangent, wanted=wants)
        assert np.array_equal(same, to_scores)
        assert (found[0].mu is not None) == bool(weight)
        assert (found[0].features is not None) == bool(features)
        assert found[1].moments is None and found[1].features is None
        for name in ("mu", "moments", "features"):
            partial_, full = getattr(found[0], name), getattr(whole[0], name)
            assert partial_ is None or np.array_equal(partial_, full), name
        assert (found[0].moments is not None) == bool(shape)
        assert np.array_equal(found[1].mu, whole[1].mu)


@pytest.mark.parametrize(("points", "labels"), [(60000, 5), (9000, 40), (64, 3)])
def test_the_number_of_threads_does_not_change_results(points: int, labels: int) -> None:
    bounds = bind_random(points, labels, kinds=("matrix", "potts"))
    scores, cotangent = random(labels, points, seed=71), random(labels, points, seed=907)
    found = [backward(bounds, scores, cotangent, threads=threads) for threads in (1, 2, 3, 7)]
    to_scores, kernels = found[0]
    for same, others in found[1:]:
        assert np.array_equal(same, to_scores)
        for one, other in zip(kernels, others, strict=True):
            assert all(np.array_equal(getattr(one, name), getattr(other, name)) for name in vars(one))


@pytest.mark.parametrize("simd", _core.available_simd())
@pytest.mark.parametrize("labels", [3, 21, 33])
def test_it_equals_autograd_on_every_instruction_set(labels: int, simd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def back_track(*arguments: Any) -> None:
        assert arguments[-1] == "auto"
        _core.mean_field_backward(*arguments[:-1], simd)

    on_one = SimpleNamespace(**{**vars(_core), "mean_field_backward": back_track})
    monkeypatch.setattr(native, "_core", on_one)
    check(130, labels)


def test_an_empty_image_has_empty_gradients() -> None:
    bounds, nothing = bind_random(0, 3), np.empty((3, 0), np.float32)
    to_scores, (first, second) = backward(bounds, nothing, nothing)
    assert to_scores.shape == (3, 0)
    assert np.array_equal(first.moments, np.zeros((2, 2))) and np.array_equal(second.mu, np.zeros(3))
