"""The native mean field in torch equals the reference, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest

from densefield.crf.kernels import Normalization

torch = pytest.importorskip("torch")
from densefield.nn import native_op as native_torch  # noqa: E402
from tests.support.mean_field_ops import native, reference  # noqa: E402

BATCH, LABELS, POINTS = 3, 4, 150
NAMES = ("scores", "position", "colour", "near", "alike", "w_near", "w_alike")
# Native sums are in float32, the reference in float64; log marginals are below 20. Measured: 2e-7 of the largest, 4e-7
# of the largest gradient of a score.
ROUNDING = 2e-6
# Gradients of widths and features are differences of sums with cancellation. Measured: at most 5e-5 of the
# largest, and 4e-6 for weights.
CANCELLED = 1e-4


def random(*shape: int, seed: int) -> Any:
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape), dtype=torch.float32)


def short(*shape: int, seed: int) -> Any:
    """Numbers of few digits, which divided by powers of two are equal in float32 and float64."""
    return (random(*shape, seed=seed) * 64).round() / 64


def model(shape: str = "widths", weight: str = "potts", shared: bool = True) -> tuple[Any, ...]:
    """Scores, features, shapes and weights of two kernels; the first has the same features for all items if shared."""
    near = {
        "widths": torch.tensor([0.5, 1.0]),
        "matrix": torch.tensor([[2.0, 0.0], [0.5, 1.0]]),
    }[shape]
    mixing = random(LABELS, LABELS, seed=5)
    w_near = {
        "potts": torch.tensor(2.0),
        "per label": 1 + random(LABELS, seed=5).abs(),
        "matrix": (mixing + mixing.T) / 2,
    }[weight]
    return (
        2 * random(BATCH, LABELS, POINTS, seed=9),
        short(1 if shared else BATCH, POINTS, 2, seed=2),
        short(BATCH, POINTS, 3, seed=3),
        near,
        torch.tensor([1.0, 0.5, 2.0]),
        w_near,
        torch.tensor(3.0),
    )


def run(
    mean_field: Callable[..., Any], leaves: tuple[Any, ...], dtype: Any = torch.float32, **options: Any
) -> tuple[Any, list[Any]]:
    """Log marginals, and gradients of a random combination with respect to every leaf."""
    learnt = options.pop("learnt", NAMES)
    copies = [
        leaf.detach().to(dtype).clone().requires_grad_(name in learnt) for name, leaf in zip(NAMES, leaves, strict=True)
    ]
    f, position, colour, *rest = copies
    options = {"normalizations": ["symmetric", "after"], "iterations": 3, **options}
    log_q = mean_field(f, [position, colour], rest[:2], rest[2:], **options)
    if log_q.requires_grad:
        log_q.backward(random(*log_q.shape, seed=77).to(dtype))
    return log_q.detach(), [copy.grad for copy in copies]


def check(leaves: tuple[Any, ...], **options: Any) -> None:
    log_q, slopes = run(native, leaves, **options)
    truth, true_slopes = run(reference, leaves, torch.float64, **options)
    assert log_q.dtype == torch.float32 and log_q.is_contiguous()
    assert float((log_q - truth).abs().max() / truth.abs().max()) < ROUNDING
    for name, slope, true, leaf in zip(NAMES, slopes, true_slopes, leaves, strict=True):
        assert slope.shape == leaf.shape and slope.dtype == torch.float32, name
        tolerance = ROUNDING if name == "scores" else CANCELLED
        assert float((slope - true).abs().max() / true.abs().max()) < tolerance, name


@pytest.mark.parametrize("weight", ["potts", "per label", "matrix"])
@pytest.mark.parametrize("shape", ["widths", "matrix"])
@pytest.mark.parametrize("shared", [True, False])
def test_it_equals_the_reference_for_every_form_of_parameters(shape: str, weight: str, shared: bool) -> None:
    check(model(shape, weight, shared))


@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("normalization", get_args(Normalization))
def test_it_equals_the_reference_for_every_normalisation(normalization: str, masked: bool, exclude_self: bool) -> None:
    leaves = model()
    if normalization == "none":  # messages are sums over a hundred points
        leaves = (*leaves[:-2], *(0.05 * weight for weight in leaves[-2:]))
    present = (random(BATCH, POINTS, seed=6) > -0.8).float() if masked else None
    check(leaves, normalizations=[normalization] * 2, present=present, exclude_self=exclude_self)


@pytest.mark.parametrize("normalization", get_args(Normalization))
@pytest.mark.parametrize("mean_field", [native, reference])
def test_ignored_pixels_do_not_affect_the_gradients_of_shapes(mean_field: Any, normalization: str) -> None:
    """Ignored pixels are at positions of other pixels, so that the lattices stay the same."""
    dtype = torch.float32 if mean_field is native else torch.float64
    f, position, colour, *rest = (leaf.to(dtype) for leaf in model(shared=False))
    cotangent = random(BATCH, LABELS, POINTS, seed=77).to(dtype)

    def slopes(absent: int) -> list[Any]:
        features = [torch.cat([p, p[:, 7:8].expand(-1, absent, -1)], dim=1) for p in (position, colour)]
        scores, sent = (torch.cat([each, each.new_zeros(BATCH, LABELS, absent)], dim=2) for each in (f, cotangent))
        shapes = [shape.clone().requires_grad_() for shape in rest[:2]]
        present = torch.cat([torch.ones(BATCH, POINTS), torch.zeros(BATCH, absent)], dim=1)
        # The magnitude of this operator is not calibrated.
        options: dict[str, Any] = {"normalizations": [normalization] * 2, "operator": "pydensecrf", "iterations": 3}
        mean_field(scores, features, shapes, rest[2:], present=present, **options).backward(sent)
        return [shape.grad for shape in shapes]

    for few, many in zip(slopes(0), slopes(1000), strict=True):
        assert float((many - few).abs().max() / few.abs().max()) < CANCELLED


@pytest.mark.parametrize("options", [{"operator": "pydensecrf"}, {"halo": 1}, {"iterations": 1}, {"iterations": 6}])
def test_it_equals_the_reference_for_other_options(options: dict[str, Any]) -> None:
    check(model(), **options)


def test_without_iterations_only_scores_have_a_gradient() -> None:
    log_q, (slope, *others) = run(native, model(), iterations=0)
    scores = model()[0].double().requires_grad_()
    truth = scores.log_softmax(1)
    truth.backward(random(*truth.shape, seed=77).double())
    assert float((log_q - truth.detach()).abs().max()) < 20 * ROUNDING
    assert float((slope - scores.grad).abs().max()) < 20 * ROUNDING
    assert all(not other.any() for other in others)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("learnt", [NAMES, NAMES[:1], NAMES[3:]])
def test_recomputed_and_stored_marginals_give_the_same_gradients(learnt: tuple[str, ...], masked: bool) -> None:
    present = (random(BATCH, POINTS, seed=6) > -0.8).float() if masked else None
    options: Any = {"learnt": learnt, "present": present}
    log_q, stored = run(native, model(), adjoint="store", **options)
    same, recomputed = run(native, model(), adjoint="recompute", **options)
    assert torch.equal(log_q, same)
    for name, one, other in zip(NAMES, stored, recomputed, strict=True):
        assert (one is None and other is None) or torch.equal(one, other), name


def test_marginals_are_recomputed_for_one_image_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    native_mean_field, native_back_track = native_torch.native_mean_field, native_torch.native_back_track

    def forward(bounds: Any, scores: Any, iterations: int, threads: int, **options: Any) -> Any:
        if options["states"] is not None:
            events.append(f"states on {threads}")
        return native_mean_field(bounds, scores, iterations, threads, **options)

    def backward(*arguments: Any, **options: Any) -> Any:
        result = native_back_track(*arguments, **options)
        events.append("used")
        return result

    monkeypatch.setattr(native_torch, "native_mean_field", forward)
    monkeypatch.setattr(native_torch, "native_back_track", backward)
    run(native, model(), adjoint="recompute", threads=4)
    assert events == ["states on 4", "used"] * BATCH  # each on all threads


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_the_number_of_threads_does_not_change_results(threads: int) -> None:
    log_q, slopes = run(native, model(), threads=1)
    same, others = run(native, model(), threads=threads)
    assert torch.equal(log_q, same)
    assert all(torch.equal(one, other) for one, other in zip(slopes, others, strict=True))


def test_frozen_parameters_are_not_differentiated(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    native_back_track = native_torch.native_back_track

    def noting(bounds: Any, normalizations: Any, wanted: Any, *rest: Any, **options: Any) -> Any:
        asked.append(wanted)
        return native_back_track(bounds, normalizations, wanted, *rest, **options)

    monkeypatch.setattr(native_torch, "native_back_track", noting)
    _, whole = run(native, model())
    asked.clear()
    _, slopes = run(native, model(), learnt=("colour", "near", "w_near"))
    assert len(asked) == BATCH
    for near, alike in asked:
        assert (near.weight, near.shape, near.features) == (True, True, False)
        assert (alike.weight, alike.shape, alike.features) == (False, False, True)
    for name, slope, full in zip(NAMES, slopes, whole, strict=True):
        assert (slope is None) == (name not in ("colour", "near", "w_near")), name
        assert slope is None or torch.equal(slope, full), name


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_differentiation_nothing_is_stored(mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[Any] = []
    native_mean_field = native_torch.native_mean_field

    def noting(*arguments: Any, **options: Any) -> Any:
        states.append(options["states"])
        return native_mean_field(*arguments, **options)

    monkeypatch.setattr(native_torch, "native_mean_field", noting)
    expected, _ = run(native, model())
    assert len(states) == BATCH and all(each is not None for each in states)
    states.clear()
    with mode():
        log_q, _ = run(native, model(), learnt=())
    assert torch.equal(log_q, expected)
    learnt_by_nobody, _ = run(native, model(), learnt=())
    assert torch.equal(learnt_by_nobody, expected)
    recomputed, _ = run(native, model(), adjoint="recompute", learnt=())
    assert torch.equal(recomputed, expected)
    assert states == [None] * 3 * BATCH


@pytest.mark.parametrize(("images", "points"), [(0, 5), (2, 0)])
def test_empty_input_gives_empty_output(images: int, points: int) -> None:
    scores = torch.zeros(images, 3, points, requires_grad=True)
    features = torch.zeros(1, points, 2, requires_grad=True)
    widths, weight = torch.ones(2, requires_grad=True), torch.tensor(1.0, requires_grad=True)
    log_q = native(scores, [features], [widths], [weight], normalizations=["symmetric"], iterations=3)
    assert log_q.shape == scores.shape
    log_q.sum().backward()
    assert torch.equal(widths.grad, torch.zeros(2)) and torch.equal(weight.grad, torch.tensor(0.0))
    assert scores.grad.shape == scores.shape and features.grad.shape == features.shape


def test_without_kernels_it_is_log_softmax() -> None:
    scores = random(2, 3, 70, seed=1).requires_grad_()
    cotangent = random(2, 3, 70, seed=8)
    log_q = native(scores, [], [], [], normalizations=[], iterations=3)
    (slope,) = torch.autograd.grad(log_q, scores, cotangent)
    expected = scores.log_softmax(1)
    assert torch.allclose(log_q, expected, rtol=0, atol=1e-6)
    assert torch.allclose(slope, torch.autograd.grad(expected, scores, cotangent)[0], rtol=0, atol=2e-6)
