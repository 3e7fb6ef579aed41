"""The negative log-likelihood loss: values, gradients and errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from densefield import InputError, InputTypeError

torch = pytest.importorskip("torch")
from densefield import DenseCRF, Spatial  # noqa: E402
from densefield.nn import log_likelihood_loss  # noqa: E402


def log_marginals(*shape: int, seed: int = 7193, dtype: Any = None) -> Any:
    scores = torch.tensor(np.random.default_rng(seed).standard_normal(shape), dtype=dtype or torch.float64)
    return torch.log_softmax(scores, dim=1)


def labels_for(*shape: int, classes: int, void: float = 0.2, seed: int = 5023) -> Any:
    random = np.random.default_rng(seed)
    labels = random.integers(classes, size=shape)
    return torch.tensor(np.where(random.random(shape) < void, 255, labels))


def test_it_equals_the_sum_over_pixels_of_the_paper():
    log_q, labels = log_marginals(2, 3, 4, 5), labels_for(2, 4, 5, classes=3)
    total, pixels = 0.0, 0
    for b, r, c in np.ndindex(2, 4, 5):
        if labels[b, r, c] != 255:
            total -= float(log_q[b, labels[b, r, c], r, c])
            pixels += 1
    assert 0 < pixels < 40
    # Forty numbers summed in two orders.
    assert float(log_likelihood_loss(log_q, labels, reduction="sum")) == pytest.approx(total, rel=1e-14)
    assert float(log_likelihood_loss(log_q, labels)) == pytest.approx(total / pixels, rel=1e-14)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_for_a_softmax_it_is_the_cross_entropy(reduction):
    scores = torch.tensor(np.random.default_rng(811).standard_normal((2, 4, 3, 6)))
    labels = labels_for(2, 3, 6, classes=4)
    loss = log_likelihood_loss(torch.log_softmax(scores, dim=1), labels, reduction=reduction)
    peer = torch.nn.functional.cross_entropy(scores, labels, ignore_index=255, reduction=reduction)
    assert torch.allclose(loss, peer, rtol=1e-14, atol=0)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_its_gradient_matches_finite_differences(reduction):
    log_q = (log_marginals(2, 3, 2, 3) - 0.1).requires_grad_()  # finite differences stay below 0
    labels = labels_for(2, 2, 3, classes=3)
    assert torch.autograd.gradcheck(lambda each: log_likelihood_loss(each, labels, reduction=reduction), (log_q,))


def test_its_gradient_with_respect_to_marginals_is_equation_8():
    q = log_marginals(1, 3, 4, 5).exp().requires_grad_()
    labels = labels_for(1, 4, 5, classes=3)
    (slope,) = torch.autograd.grad(log_likelihood_loss(q.log(), labels, reduction="sum"), q)
    expected = torch.zeros_like(q)
    for r, c in np.ndindex(4, 5):
        if labels[0, r, c] != 255:
            expected[0, labels[0, r, c], r, c] = -1 / q.detach()[0, labels[0, r, c], r, c]
    assert torch.allclose(slope, expected, rtol=1e-15, atol=0)


def test_its_gradient_with_respect_to_scores_is_predicted_minus_true_marginals():
    scores = torch.tensor(np.random.default_rng(64).standard_normal((1, 3, 4, 5)), requires_grad=True)
    labels = labels_for(1, 4, 5, classes=3, void=0.0)
    (slope,) = torch.autograd.grad(
        log_likelihood_loss(torch.log_softmax(scores, dim=1), labels, reduction="sum"), scores
    )
    true = torch.nn.functional.one_hot(labels, 3).movedim(-1, 1)
    assert torch.allclose(slope, scores.detach().softmax(1) - true, rtol=0, atol=1e-15)


def test_the_chain_rule_reaches_the_parameters_of_a_crf():
    crf = DenseCRF(num_classes=3, kernels=[Spatial(1.5, weight=0.7)], method="exact", iterations=3).double()
    scores = torch.tensor(np.random.default_rng(2711).standard_normal((1, 3, 3, 4)), requires_grad=True)
    labels = labels_for(1, 3, 4, classes=3)
    inputs = (scores, *crf.parameters())

    def loss(scores: Any, *parameters: Any) -> Any:
        names = [name for name, _ in crf.named_parameters()]
        return log_likelihood_loss(
            torch.func.functional_call(crf, dict(zip(names, parameters, strict=True)), scores), labels
        )

    assert torch.autograd.gradcheck(loss, inputs)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_if_all_pixels_are_void_loss_and_gradient_are_zero(reduction):
    log_q = log_marginals(2, 3, 2, 2).requires_grad_()
    loss = log_likelihood_loss(log_q, torch.full((2, 2, 2), 255), reduction=reduction)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(log_q.grad, torch.zeros_like(log_q))


def test_marginals_of_void_pixels_have_no_effect():
    log_q = log_marginals(1, 2, 1, 3)
    log_q[0, :, 0, 2] = torch.tensor([-math.inf, 0.0], dtype=torch.float64)
    log_q.requires_grad_()
    labels = torch.tensor([[[0, 1, 255]]])
    loss = log_likelihood_loss(log_q, labels)
    loss.backward()
    assert torch.equal(loss, log_likelihood_loss(log_q[..., :2], labels[..., :2]))
    assert torch.equal(log_q.grad[..., 2], torch.zeros(1, 2, 1, dtype=torch.float64))


def test_an_impossible_true_label_has_an_infinite_loss():
    log_q = torch.tensor([0.0, 1.0]).log().reshape(1, 2, 1, 1)
    assert float(log_likelihood_loss(log_q, torch.tensor([[[0]]]))) == math.inf


@pytest.mark.parametrize("shape", [(2, 3, 7), (1, 3, 1, 1), (2, 3, 2, 3, 2), (0, 3, 4, 5), (1, 3, 0, 5)])
def test_marginals_may_have_any_axes_and_no_pixels(shape):
    labels = torch.zeros(shape[0], *shape[2:], dtype=torch.int64)
    loss = log_likelihood_loss(log_marginals(*shape), labels)
    assert loss.shape == () and bool(loss.isfinite())


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64"])
def test_labels_may_have_any_integer_type(dtype):
    log_q, labels = log_marginals(2, 3, 4, 5), labels_for(2, 4, 5, classes=3)
    assert torch.equal(log_likelihood_loss(log_q, labels.to(getattr(torch, dtype))), log_likelihood_loss(log_q, labels))


@pytest.mark.parametrize(("dtype", "relative"), [("float16", 2e-3), ("bfloat16", 2e-2)])
def test_half_precision_is_summed_in_float32(dtype, relative):
    log_q, labels = log_marginals(1, 3, 100, 100), labels_for(1, 100, 100, classes=3)
    loss = log_likelihood_loss(log_q.to(getattr(torch, dtype)), labels)
    assert loss.dtype == torch.float32
    # Every entry is correct to half a unit in the last place, unlike sums of 10⁴.
    assert float(loss) == pytest.approx(float(log_likelihood_loss(log_q, labels)), rel=relative)


@pytest.mark.parametrize(
    ("log_q", "labels", "options", "error", "message"),
    [
        (np.zeros((1, 2, 1, 1)), torch.zeros(1, 1, 1).long(), {}, InputTypeError, "log marginals are of type ndarray"),
        (torch.zeros(1, 2, 1, 1), [[0]], {}, InputTypeError, "labels are of type list"),
        (torch.zeros(1, 2, 1, 1).long(), torch.zeros(1, 1, 1).long(), {}, InputTypeError, "dtype torch.int64"),
        (torch.zeros(1, 2, 1, 1), torch.zeros(1, 1, 1), {}, InputTypeError, r"Use labels.long\(\)"),
        (torch.zeros(1, 2, 1, 1), torch.zeros(1, 1, 1).bool(), {}, InputTypeError, "dtype torch.bool"),
        (torch.zeros(2, 3), torch.zeros(2).long(), {}, InputError, r"\(2, 3\), expected \(batch, classes"),
        (torch.zeros(1, 0, 2, 2), torch.zeros(1, 2, 2).long(), {}, InputError, r"shape \(1, 0, 2, 2\)"),
        (torch.zeros(1, 2, 3, 4), torch.zeros(1, 4, 3).long(), {}, InputError, r"\(1, 4, 3\), expected \(1, 3, 4\)"),
        (torch.zeros(1, 2, 1, 1), torch.full((1, 1, 1), 2), {}, InputError, "hold 2, expected 0 to 1, or 255"),
        (torch.zeros(1, 2, 1, 1), torch.full((1, 1, 1), -1), {}, InputError, "hold -1, expected 0 to 1"),
        (torch.ones(1, 2, 1, 1), torch.zeros(1, 1, 1).long(), {}, InputError, r"use torch.log_softmax\(scores"),
        (torch.full((1, 2, 1, 1), math.nan), torch.zeros(1, 1, 1).long(), {}, InputError, "hold NaN"),
        (torch.zeros(1, 2, 1, 1), torch.zeros(1, 1, 1).long(), {"reduction": "none"}, InputError, "mean, sum"),
    ],
)
def test_wrong_input_raises_and_says_what_to_do(log_q, labels, options, error, message):
    with pytest.raises(error, match=message):
        log_likelihood_loss(log_q, labels, **options)


@pytest.mark.parametrize("smoothing", [0.05, 0.3])
def test_smoothed_labels_give_torch_s_cross_entropy(smoothing):
    generator = torch.Generator().manual_seed(90031)
    scores = torch.randn(2, 5, 4, 6, dtype=torch.float64, generator=generator, requires_grad=True)
    labels = torch.randint(5, (2, 4, 6), generator=generator)
    labels[0, :2] = 255
    found = log_likelihood_loss(scores.log_softmax(1), labels, label_smoothing=smoothing)
    expected = torch.nn.functional.cross_entropy(scores, labels, ignore_index=255, label_smoothing=smoothing)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    gradients = (torch.autograd.grad(loss, scores, retain_graph=True)[0] for loss in (found, expected))
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("wrong", [-0.1, 1.0, float("nan")])
def test_smoothing_outside_its_range_is_rejected(wrong):
    with pytest.raises(InputError, match="expected a number from 0 to less than 1"):
        log_likelihood_loss(torch.zeros(1, 2, 1, 1).log_softmax(1), torch.zeros(1, 1, 1).long(), label_smoothing=wrong)
