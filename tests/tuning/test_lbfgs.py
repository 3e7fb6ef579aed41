"""Learning the CRF's parameters on the log-likelihood by L-BFGS."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="learning needs torch")

import torch

from densefield.crf.kernels import Bilateral, Spatial
from densefield.errors import InputError
from densefield.evaluation.evaluation import evaluate_images
from densefield.nn.dense_crf import DenseCRF
from densefield.tuning.lbfgs import SCALE, WEIGHTS, _accumulate, _bounded, _excess, learn_crf
from tests.support.scored_scenes import ScoredScenes

KERNELS = (Spatial(2, weight=0.5), Bilateral(12, 15, weight=0.5))


class Doubles(ScoredScenes):
    """A source small enough for the exact sum in float64."""

    def __getitem__(self, index):
        scored = super().__getitem__(index)
        image, labels = scored.image[:, 6:15, 6:14], scored.labels[6:15, 6:14]
        return replace(scored, scores=scored.scores[:, 6:15, 6:14].double(), image=image, labels=labels)


def test_learning_lowers_the_loss_and_returns_it():
    source, crf = ScoredScenes(3), DenseCRF(2, KERNELS)
    before = evaluate_images(source, crf).negative_log_likelihood
    losses = []
    loss = learn_crf(crf, source, evaluations=8, watch=lambda evaluation: losses.append(evaluation.loss))
    assert losses[0] == pytest.approx(before, rel=1e-5)  # sums are in float32
    assert loss == min(losses) < before - 0.02
    assert evaluate_images(source, crf).negative_log_likelihood == pytest.approx(loss, rel=1e-5)


def test_the_gradient_over_all_images_matches_finite_differences():
    source = Doubles(2)
    crf = DenseCRF(2, KERNELS, method="exact").double()
    free = dict(crf.named_parameters())
    _accumulate(crf, source, {name: _bounded(name, value) for name, value in free.items()}, pixels=100)
    step = 1e-5
    for parameter in free.values():
        for place in range(parameter.numel()):
            losses = []
            for sign in (1, -1):
                with torch.no_grad():
                    parameter.view(-1)[place] += sign * step
                detached = {name: value.detach().requires_grad_() for name, value in free.items()}
                losses.append(_accumulate(crf, source, detached, pixels=100))
                with torch.no_grad():
                    parameter.view(-1)[place] -= sign * step
            slope = SCALE * (losses[0] - losses[1]) / (2 * step)
            # The error of central differences is step² plus rounding divided by the step.
            assert float(parameter.grad.view(-1)[place]) == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_frozen_parameters_do_not_change():
    crf = DenseCRF(2, KERNELS).freeze("spatial.*", "*.log_weight")
    before = {name: value.clone() for name, value in crf.state_dict().items()}
    learn_crf(crf, ScoredScenes(2), evaluations=3)
    moved = [name for name, value in crf.state_dict().items() if not torch.equal(value, before[name])]
    assert moved == ["bilateral.log_sigma"]


def test_the_number_of_evaluations_is_limited():
    for most in (1, 2, 5):
        seen = []
        learn_crf(DenseCRF(2, KERNELS), ScoredScenes(1), evaluations=most, watch=seen.append)
        assert 1 <= len(seen) <= most


def test_parameters_beyond_their_bounds_are_clamped_and_driven_back():
    free = {"spatial.log_weight": torch.tensor(WEIGHTS[1] + 2.0, requires_grad=True)}
    within = {name: _bounded(name, value) for name, value in free.items()}
    assert float(within["spatial.log_weight"].detach()) == pytest.approx(math.log(200))
    excess = _excess(free, within)
    excess.backward()
    # The penalty is 2²/2 and its slope 2, in float32 of numbers near 7.
    assert float(excess.detach()) == pytest.approx(2.0, rel=1e-6)
    assert float(free["spatial.log_weight"].grad) == pytest.approx(2.0, rel=1e-6)


def test_void_images_cannot_be_learnt_from():
    class Void(ScoredScenes):
        def __getitem__(self, index):
            scored = super().__getitem__(index)
            return replace(scored, labels=torch.full_like(scored.labels, 255))

    with pytest.raises(InputError, match="nothing to learn from"):
        learn_crf(DenseCRF(2), Void(1))


def test_learning_needs_at_least_one_evaluation():
    with pytest.raises(InputError, match="evaluations is 0"):
        learn_crf(DenseCRF(2), ScoredScenes(1), evaluations=0)
