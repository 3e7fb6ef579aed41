"""Temperatures against a search over the loss, scores of known calibration, and invalid input."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from densefield import InputError
from densefield.metrics import apply_temperature, fit_temperature

Array = npt.NDArray[Any]


def calibrated(seed: int, classes: int = 4, size: tuple[int, int] = (40, 50)) -> tuple[Array, Array]:
    """Scores (L, H, W) and labels drawn from their softmax."""
    random = np.random.default_rng(seed)
    scores = random.normal(0, 2, (classes, *size))
    return scores, (scores + random.gumbel(size=scores.shape)).argmax(0)


def mean_loss(images: list[tuple[Array, Array]], temperature: float) -> float:
    losses = []
    for scores, labels in images:
        q = np.take_along_axis(apply_temperature(scores, temperature), np.minimum(labels, 3)[None], axis=0)[0]
        losses.append(-np.log(q[labels != 255].astype(np.float64)))
    return float(np.concatenate(losses).mean())


@pytest.mark.parametrize("factor", [0.4, 1.0, 2.5])
def test_the_temperature_undoes_a_factor_of_calibrated_scores(factor: float):
    images = [(factor * scores, labels) for scores, labels in (calibrated(seed) for seed in range(4))]
    # 8,000 pixels determine it to 2 %.
    assert fit_temperature(images) == pytest.approx(factor, rel=0.06)


def test_no_temperature_has_a_lower_loss():
    scores, labels = calibrated(17)
    labels[:5] = 255
    images = [(3 * scores, labels), (scores[:, :9], labels[:9])]
    found = fit_temperature(images)
    assert all(mean_loss(images, found) <= mean_loss(images, found * factor) for factor in (0.8, 0.97, 1.03, 1.3))


def test_scores_that_are_always_right_or_useless_give_the_limits():
    labels = np.array([[0, 1]])
    right = np.array([[[5.0, -5.0]], [[-5.0, 5.0]]])
    assert fit_temperature([(right, labels)]) == pytest.approx(0.01, rel=1e-3)
    assert fit_temperature([(-right, labels)]) == pytest.approx(100.0, rel=1e-3)


def test_a_sample_of_the_pixels_gives_nearly_the_same_temperature():
    scores, labels = calibrated(3, size=(100, 100))
    every, few = (fit_temperature([(2 * scores, labels)], samples=samples) for samples in (10**5, 2500))
    assert few != every
    assert few == pytest.approx(every, rel=0.12)  # 2,500 pixels determine it to 4 %


def test_marginals_sum_to_one_and_keep_their_order():
    scores = 50 * calibrated(8)[0]
    q = apply_temperature(scores, 7.0)
    assert q.dtype == np.float32
    np.testing.assert_allclose(q.sum(0), 1, atol=1e-6)  # float32
    np.testing.assert_array_equal(q.argmax(0), scores.argmax(0))


def test_invalid_input_is_refused():
    scores, labels = calibrated(2, size=(3, 4))
    with pytest.raises(InputError, match="no pixel has a true label"):
        fit_temperature([])
    with pytest.raises(InputError, match="no pixel has a true label"):
        fit_temperature([(scores, np.full((3, 4), 255))])
    with pytest.raises(InputError, match=r"labels are int64 \(4, 3\), expected integers \(3, 4\)"):
        fit_temperature([(scores, labels.T)])
    with pytest.raises(InputError, match="0 to 9, expected 0 to 3, or 255"):
        fit_temperature([(scores, np.where(np.eye(3, 4) > 0, 9, 0))])
    with pytest.raises(InputError, match=r"infinity.*maximum"):
        apply_temperature(np.where(scores > 1, -np.inf, scores), 1.0)
    with pytest.raises(InputError, match="scores are int64"):
        apply_temperature(np.ones((2, 3, 3), int), 1.0)
    for temperature in (0.0, -1.0, np.nan, "1"):
        with pytest.raises(InputError, match="temperature is"):
            apply_temperature(scores, temperature)  # type: ignore[arg-type]
