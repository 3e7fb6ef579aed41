"""Mean field of whole batches in torch equals its twin image by image, forward and backward, and the native one."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from densefield import InputError
from densefield.crf.kernels import Normalization

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from densefield.nn import torch_mean_field as batched_torch  # noqa: E402
from tests.nn.test_native_op import BATCH, CANCELLED, LABELS, NAMES, POINTS, model, random, run  # noqa: E402
from tests.nn.test_native_op import ROUNDING as SINGLE  # noqa: E402
from tests.support.mean_field_ops import batched, native, reference  # noqa: E402

# The same sums in float64 in another order. Measured: 3e-16 for marginals, 6e-13 for widths.
ROUNDING, DIFFERENCES = 1e-14, 1e-11
NORMALIZATIONS = get_args(Normalization)


def errors(found: tuple[Any, list[Any]], expected: tuple[Any, list[Any]]) -> dict[str, float]:
    """The largest difference over the largest number, of the marginals' logarithms and of every gradient."""
    pairs = zip(("log_q", *NAMES), (found[0], *found[1]), (expected[0], *expected[1]), strict=True)
    return {name: float((one.double() - other).abs().max() / other.abs().max()) for name, one, other in pairs}


def check(leaves: tuple[Any, ...], **options: Any) -> None:
    plain = {name: value for name, value in options.items() if name != "adjoint"}
    expected = run(reference, leaves, torch.float64, **plain)
    found = run(batched, leaves, torch.float64, **options)
    assert found[0].is_contiguous() and [each.shape for each in found[1]] == [leaf.shape for leaf in leaves]
    for name, error in errors(found, expected).items():
        assert error < (ROUNDING if name in ("log_q", "scores") else DIFFERENCES), name
    single = run(batched, leaves, torch.float32, **options)
    assert single[0].dtype == torch.float32 and all(each.dtype == torch.float32 for each in single[1])
    for name, error in errors(single, expected).items():
        assert error < (SINGLE if name in ("log_q", "scores") else CANCELLED), name


def weak(leaves: tuple[Any, ...], normalization: str) -> tuple[Any, ...]:
    """Without normalisation messages are sums over a hundred points; small weights keep marginals off 0 and 1."""
    return leaves if normalization != "none" else (*leaves[:-2], *(0.05 * weight for weight in leaves[-2:]))


def some_pixels() -> Any:
    return (random(BATCH, POINTS, seed=6) > -0.8).float()


@pytest.mark.parametrize("weight", ["potts", "per label", "matrix"])
@pytest.mark.parametrize("shape", ["widths", "matrix"])
@pytest.mark.parametrize("shared", [True, False])
def test_it_equals_the_twin_for_every_form_of_parameters(shape: str, weight: str, shared: bool) -> None:
    check(model(shape, weight, shared))


@pytest.mark.parametrize("adjoint", ["store", "recompute"])
@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_it_equals_the_twin_for_every_normalisation(
    normalization: str, masked: bool, exclude_self: bool, adjoint: str
) -> None:
    present = some_pixels() if masked else None
    options = {"normalizations": [normalization] * 2, "exclude_self": exclude_self, "adjoint": adjoint}
    check(weak(model(), normalization), present=present, **options)


@pytest.mark.parametrize("options", [{"operator": "pydensecrf"}, {"halo": 1}, {"iterations": 1}, {"iterations": 6}])
def test_it_equals_the_twin_for_other_options(options: dict[str, Any]) -> None:
    check(model(), **options)


@pytest.mark.parametrize("adjoint", ["store", "recompute"])
@pytest.mark.parametrize("weight", ["potts", "per label", "matrix"])
@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("normalization", ["symmetric", "none"])
def test_convergent_inference_equals_the_twin(
    normalization: str, exclude_self: bool, weight: str, adjoint: str
) -> None:
    options = {"normalizations": [normalization] * 2, "exclude_self": exclude_self, "inference": "convergent"}
    leaves = weak(positive(model(weight=weight, shared=False)), normalization)
    check(leaves, adjoint=adjoint, present=some_pixels(), **options)


@pytest.mark.parametrize("inference", ["parallel", "convergent"])
@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("weight", ["potts", "per label", "matrix"])
def test_implicit_gradients_equal_those_of_the_twin(weight: str, exclude_self: bool, inference: str) -> None:
    leaves = positive(model(weight=weight, shared=False))
    leaves = (*leaves[:-2], *(0.3 * mu for mu in leaves[-2:]))  # so that a fixed point is reached
    options = {"exclude_self": exclude_self, "inference": inference, "iterations": 400, "adjoint": "implicit"}
    options["normalizations"] = ["symmetric"] * 2
    found = run(batched, leaves, torch.float64, present=some_pixels(), **options)
    truth = run(reference, leaves, torch.float64, present=some_pixels(), **options)
    for name, error in errors(found, truth).items():
        # Both solve to 1e-11 of the cotangent, together or image by image. Measured: 4e-11.
        assert error < (1e-12 if name == "log_q" else 1e-9), name


def positive(leaves: tuple[Any, ...]) -> tuple[Any, ...]:
    """With positive semi-definite weights."""
    return (*leaves[:-2], *(mu if mu.ndim < 2 else mu @ mu.T / len(mu) for mu in leaves[-2:]))


def test_convergent_inference_refuses_what_has_no_free_energy() -> None:
    with pytest.raises(InputError, match="expects symmetric kernel matrices"):
        run(batched, model(), normalizations=["after"] * 2, inference="convergent")


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("masked", [False, True])
def test_it_equals_the_native_loop(normalization: str, masked: bool) -> None:
    present = some_pixels() if masked else None
    options = {"normalizations": [normalization] * 2, "present": present}
    leaves = weak(model(weight="matrix", shared=False), normalization)
    found = errors(run(batched, leaves, **options), run(native, leaves, **options))
    for name, error in found.items():  # both in float32
        assert error < 2 * (SINGLE if name in ("log_q", "scores") else CANCELLED), name


def test_without_iterations_only_scores_have_a_gradient() -> None:
    log_q, (slope, *others) = run(batched, model(), torch.float64, iterations=0)
    scores = model()[0].double().requires_grad_()
    truth = scores.log_softmax(1)
    truth.backward(random(*truth.shape, seed=77).double())
    assert torch.allclose(log_q, truth, rtol=0, atol=1e-12)
    assert torch.allclose(slope, scores.grad, rtol=0, atol=1e-12)
    assert all(not other.any() for other in others)


@pytest.mark.parametrize("learnt", [NAMES[:1], NAMES[1:3], NAMES[3:5], NAMES[5:], ("colour", "near", "w_near")])
@pytest.mark.parametrize("adjoint", ["store", "recompute"])
def test_each_gradient_can_be_computed_alone(learnt: tuple[str, ...], adjoint: str) -> None:
    whole = run(batched, model(), torch.float64)[1]
    found = run(batched, model(), torch.float64, learnt=learnt, adjoint=adjoint)[1]
    for name, slope, full in zip(NAMES, found, whole, strict=True):
        assert (slope is None) == (name not in learnt), name
        # Recomputed gradients are sums over images, of differences that cancel.
        assert slope is None or float((slope - full).abs().max() / full.abs().max()) < DIFFERENCES, name


class _Counting(TorchDispatchMode):
    """Counts operations."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "options",
    [
        {"iterations": 3},
        {"iterations": 3, "inference": "convergent", "exclude_self": True},
        {"iterations": 100, "adjoint": "implicit"},
    ],
    ids=["parallel", "convergent", "implicit"],
)
def test_the_number_of_operations_does_not_depend_on_the_number_of_images(options: dict[str, Any]) -> None:
    counts = []
    for images in (2, 9):
        scores = random(images, LABELS, POINTS, seed=9).requires_grad_()
        features = random(1, POINTS, 2, seed=2), random(images, POINTS, 3, seed=3)
        shapes = [torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)]
        weights = [torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)]
        with _Counting() as counting:
            log_q = batched(scores, features, shapes, weights, normalizations=["symmetric"] * 2, **options)
            log_q.backward(random(*log_q.shape, seed=77))
        counts.append(counting.count)
    # Iterations to a fixed point, and products that solve its system, are those of the slowest image.
    assert counts[0] == counts[1] or ("adjoint" in options and counts[1] < 1.5 * counts[0])


def test_recomputing_stores_nothing_and_binds_one_image_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[int] = []
    bind = batched_torch.bind_batch

    def noting(features: Any, images: int, *rest: Any) -> Any:
        bound.append(images)
        return bind(features, images, *rest)

    monkeypatch.setattr(batched_torch, "bind_batch", noting)
    saved: list[int] = []

    def note(tensor: Any) -> Any:
        saved.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        run(batched, model(), adjoint="recompute", iterations=5)
    assert bound == [BATCH] * 2 + [1] * 2 * BATCH
    assert sum(size >= BATCH * POINTS * LABELS for size in saved) == 2  # scores and result


def test_second_derivatives_are_an_error_not_zero() -> None:
    leaves = [leaf.clone().requires_grad_() for leaf in model()]
    f, position, colour, *rest = leaves
    log_q = batched(f, [position, colour], rest[:2], rest[2:], normalizations=["symmetric"] * 2, iterations=2)
    slopes = torch.autograd.grad(log_q.square().sum(), leaves, create_graph=True)
    for slope in slopes:
        with pytest.raises(NotImplementedError, match="densefield has no second derivatives"):
            torch.autograd.grad(slope.sum(), f, retain_graph=True)


def test_several_cotangents_at_once_are_an_error() -> None:
    scores = model()[0].requires_grad_()
    log_q = batched(scores, [model()[1]], [torch.ones(2)], [torch.tensor(1.0)], normalizations=["after"])
    with pytest.raises(NotImplementedError, match="one cotangent at a time"):
        torch.autograd.grad(log_q, scores, torch.ones(2, *log_q.shape), is_grads_batched=True)


@pytest.mark.parametrize(("images", "points"), [(0, 5), (2, 0)])
def test_empty_input_gives_empty_output(images: int, points: int) -> None:
    scores = torch.zeros(images, 3, points, requires_grad=True)
    features = torch.zeros(1, points, 2, requires_grad=True)
    widths, weight = torch.ones(2, requires_grad=True), torch.tensor(1.0, requires_grad=True)
    log_q = batched(scores, [features], [widths], [weight], normalizations=["symmetric"], iterations=3)
    assert log_q.shape == scores.shape
    log_q.sum().backward()
    assert torch.equal(widths.grad, torch.zeros(2)) and torch.equal(weight.grad, torch.tensor(0.0))
    assert scores.grad.shape == scores.shape and features.grad.shape == features.shape


def test_without_kernels_it_is_log_softmax() -> None:
    scores = random(2, 3, 70, seed=1).requires_grad_()
    log_q = batched(scores, [], [], [], normalizations=[], iterations=3)
    assert torch.equal(log_q, scores.log_softmax(1))
    log_q.backward(random(2, 3, 70, seed=8))
    expected = torch.autograd.grad(scores.log_softmax(1), scores, random(2, 3, 70, seed=8))[0]
    assert torch.allclose(scores.grad, expected, rtol=0, atol=2e-6)


def test_a_retained_graph_can_be_differentiated_again() -> None:
    scores = model()[0].requires_grad_()
    log_q = batched(scores, [model()[2]], [torch.ones(3)], [torch.tensor(2.0)], normalizations=["symmetric"])
    once = torch.autograd.grad(log_q.sum(), scores, retain_graph=True)[0]
    assert torch.equal(torch.autograd.grad(log_q.sum(), scores)[0], once)
