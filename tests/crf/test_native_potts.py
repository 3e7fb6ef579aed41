"""Potts kernels filter differences from the last class, which does not change results."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from densefield.crf.mean_field import log_softmax, mean_field_steps, update
from densefield.crf.native import native_mean_field, state_floats
from tests.support.random_terms import Array, bind_random, random

# As in test_native: float32 sums in another order. Measured: 1e-6.
ROUNDING = 4e-6
TILE = 64  # points processed together; stored marginals are in tiles


def potts(points: int, labels: int, **options: Any) -> list[Any]:
    return bind_random(points, labels, kinds=["potts"], **options)


def infer(bounds: list[Any], scores: Array, iterations: int, **options: Any) -> Array:
    q = np.full_like(scores, np.nan)
    native_mean_field(bounds, scores, iterations, 2, marginals=q, **options)
    return q


@pytest.mark.parametrize("labels", [3, 5, 17, 21, 33, 53])
def test_results_do_not_depend_on_the_order_of_classes(labels: int) -> None:
    bounds, scores = potts(700, labels), 2 * random(labels, 700, seed=52)
    turned = infer(bounds, np.roll(scores, 1, axis=0), 4)
    assert np.abs(np.roll(turned, -1, axis=0) - infer(bounds, scores, 4)).max() <= ROUNDING


@pytest.mark.parametrize("favour", [60.0, -60.0, 1e4, -1e4])
def test_the_last_class_may_be_certain_or_impossible(favour: float) -> None:
    bounds, scores = potts(300, 6), random(6, 300, seed=53)
    scores[-1] += np.float32(favour)
    rows, couplings = np.ascontiguousarray(scores.T), bounds
    expected = list(islice(mean_field_steps(rows, couplings), 4))[-1]
    log_q = np.empty_like(scores)
    q = infer(bounds, scores, 3, log_marginals=log_q)
    assert np.abs(q - expected.q.T).max() <= ROUNDING
    # Two roundings of such large numbers in either implementation.
    assert np.abs(log_q - expected.log_q.T).max() <= ROUNDING + 4 * np.spacing(np.float32(abs(favour)))


@pytest.mark.parametrize("labels", [2, 3, 21, 40])
@pytest.mark.parametrize("points", [1, 63, 300])
@pytest.mark.parametrize("scale", [1.0, 60.0])  # the larger scores exceed the range of exponentials without a maximum
def test_pixels_that_send_nothing_to_themselves_equal_the_reference(points: int, labels: int, scale: float) -> None:
    bounds, scores = potts(points, labels, exclude_self=True), np.float32(scale) * random(labels, points, seed=56)
    expected = list(islice(mean_field_steps(np.ascontiguousarray(scores.T), bounds), 6))[-1]
    log_q = np.empty_like(scores)
    residuals = np.empty(5, np.float32)
    q = infer(bounds, scores, 5, log_marginals=log_q, residuals=residuals)
    assert np.abs(q - expected.q.T).max() <= ROUNDING * max(1.0, scale / 4)  # scores are rounded in proportion
    assert abs(residuals[-1] - expected.residual) <= ROUNDING * max(1.0, scale / 4)


@pytest.mark.parametrize("labels", [3, 21])
def test_the_start_need_not_sum_to_one(labels: int) -> None:
    bounds, scores = potts(400, labels), random(labels, 400, seed=54)
    start = np.abs(random(labels, 400, seed=55))
    z: Any = update(np.ascontiguousarray(scores.T), bounds, np.ascontiguousarray(start.T))
    assert np.abs(infer(bounds, scores, 1, start=start) - np.exp(log_softmax(z)).T).max() <= ROUNDING


@pytest.mark.parametrize("labels", [2, 3, 21, 34])
@pytest.mark.parametrize("points", [1, 63, 200])
def test_states_and_residuals_equal_the_reference(points: int, labels: int) -> None:
    bounds, scores = potts(points, labels), random(labels, points, seed=56)
    rows, couplings = np.ascontiguousarray(scores.T), bounds
    steps = list(islice(mean_field_steps(rows, couplings), 4))
    states = np.zeros((3, state_floats(points, labels)), np.float32)
    residuals = np.empty(3, np.float32)
    infer(bounds, scores, 3, states=states, residuals=residuals)
    assert residuals == pytest.approx([step.residual for step in steps[1:]], abs=2 * ROUNDING)
    for step, planes in zip(steps, states, strict=False):
        q = planes.reshape(-1, labels, TILE).transpose(1, 0, 2).reshape(labels, -1)[:, :points]
        assert np.abs(q - step.q.T).max() <= ROUNDING
