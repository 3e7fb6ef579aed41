"""Mean field as in the paper, for NumPy and torch."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from densefield.crf.mean_field import exponential, largest_change, log_softmax, mean_field, mean_field_steps, update
from densefield.crf.pairwise import Pairwise, normalized
from densefield.filters import ExactFilter

Model = tuple[np.ndarray, list[Pairwise[np.ndarray]]]


def random_model(seed: int, points: int = 12, labels: int = 3, strength: float = 1.0) -> Model:
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(labels, labels))
    couplings = []
    for mu in (np.array(strength), strength * random.normal(size=labels), strength * (matrix + matrix.T)):
        k = ExactFilter(random.normal(size=(points, 2)))
        couplings.append(normalized(k.apply, "symmetric", mu, np.ones((points, 1)), k.diagonal()))
    return random.normal(size=(points, labels)), couplings


def test_the_update_matches_the_equation_of_the_paper():
    random = np.random.default_rng(17_389)
    features, f, q = random.normal(size=(6, 2)), random.normal(size=(6, 3)), random.dirichlet(np.ones(3), 6)
    mu = random.normal(size=(3, 3))
    k = ExactFilter(features)
    found = update(f, [normalized(k.apply, "none", mu, np.ones((6, 1)), k.diagonal())], q)
    for i in range(6):
        for l in range(3):
            z = f[i, l]
            for j in set(range(6)) - {i}:
                kernel = np.exp(-0.5 * ((features[i] - features[j]) ** 2).sum())
                z += sum(mu[l, other] * kernel * q[j, other] for other in range(3))
            assert found[i, l] == pytest.approx(z, rel=1e-12)


def test_the_update_does_not_change_its_arguments():
    f, couplings = random_model(3_121)
    q = np.full_like(f, 1 / 3)
    kept = f.copy(), q.copy()
    update(f, couplings, q)
    assert np.array_equal(f, kept[0]) and np.array_equal(q, kept[1])


def test_steps_are_updates_from_the_softmax_of_the_scores():
    f, couplings = random_model(3_137)
    q = np.exp(log_softmax(f))
    last = None
    for step in islice(mean_field_steps(f, couplings), 6):
        assert np.allclose(step.q, q, rtol=1e-14)
        assert np.allclose(np.exp(step.log_q), step.q, rtol=1e-14)
        assert np.allclose(step.q.sum(axis=1), 1, rtol=1e-14)
        assert step.residual == (np.inf if last is None else pytest.approx(np.abs(q - last).max(), rel=1e-12))
        last, q = q, np.exp(log_softmax(update(f, couplings, q)))


def test_t_iterations_are_the_first_t_steps():
    f, couplings = random_model(3_163)
    for count, step in enumerate(islice(mean_field_steps(f, couplings), 4)):
        assert np.array_equal(mean_field(f, couplings, count), step.log_q)


def test_damping_keeps_a_part_of_the_last_log_marginals():
    f, couplings = random_model(3_181)
    first, second = islice(mean_field_steps(f, couplings, 0.3), 2)
    expected = log_softmax(0.7 * update(f, couplings, first.q) + 0.3 * first.log_q)
    assert np.array_equal(second.log_q, expected)


def test_damping_does_not_move_fixed_points():
    f, couplings = random_model(3_203, strength=0.3)
    ends = [list(islice(mean_field_steps(f, couplings, damping), 400))[-1] for damping in (0.0, 0.6)]
    assert max(end.residual for end in ends) < 1e-15
    assert np.allclose(ends[0].q, ends[1].q, rtol=0, atol=1e-14)


def test_damping_ends_oscillation():
    # Two pixels that repel each other and start equal.
    k = ExactFilter(np.zeros((2, 1)))
    model = (
        np.array([[0.1, 0.0], [0.11, 0.0]]),
        [normalized(k.apply, "none", np.array(-8.0), np.ones((2, 1)), k.diagonal())],
    )
    plain, damped = (list(islice(mean_field_steps(*model, damping), 200))[-1] for damping in (0.0, 0.5))
    assert plain.residual > 0.5
    assert damped.residual < 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_of_ten_thousand_give_no_nan(dtype):
    random = np.random.default_rng(3_217)
    scores = random.choice([-1e4, 1e4], size=(12, 3)).astype(dtype)
    k = ExactFilter(random.normal(size=(12, 2)).astype(dtype))
    couplings = [normalized(k.apply, "symmetric", np.array(5, dtype), np.ones((12, 1), dtype))]
    for step in islice(mean_field_steps(scores, couplings), 5):
        assert step.q.dtype == dtype
        assert np.isfinite(step.log_q).all()
        # Labels of equal scores have equal marginals up to rounding of 10⁴.
        assert np.allclose(step.q.sum(axis=1), 1, rtol=0, atol=1e-6 if dtype == np.float32 else 1e-14)


def test_equal_scores_stay_equal():
    k = ExactFilter(np.random.default_rng(5).normal(size=(9, 2)))
    couplings = [normalized(k.apply, "symmetric", np.array(50.0), np.ones((9, 1)))]
    for step in islice(mean_field_steps(np.full((9, 4), -3.0), couplings), 4):
        assert np.array_equal(step.q, np.full((9, 4), 0.25))


def test_a_single_label_is_certain():
    f, couplings = random_model(3_229, labels=1, strength=9.0)
    for step in islice(mean_field_steps(f, couplings), 3):
        assert np.array_equal(step.q, np.ones((12, 1)))


def test_an_empty_image_has_a_residual_of_0():
    none = np.empty((0, 3))
    assert [step.residual for step in islice(mean_field_steps(none, []), 3)] == [np.inf, 0, 0]
    assert largest_change(none, none) == 0


def test_log_softmax_matches_its_formula_and_is_shift_invariant():
    f = np.random.default_rng(3_251).normal(size=(20, 5))
    assert np.allclose(log_softmax(f), f - np.log(np.exp(f).sum(axis=1, keepdims=True)), rtol=1e-13)
    assert np.allclose(log_softmax(f + 100), log_softmax(f), rtol=0, atol=1e-13)
    assert np.allclose(exponential(log_softmax(f)).sum(axis=1), 1, rtol=1e-14)


def test_torch_takes_the_same_steps():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(3_257)
    f, features, mu = random.normal(size=(12, 3)), random.normal(size=(12, 2)), random.normal(size=(3, 3))

    def steps(convert):
        k = ExactFilter(convert(features))
        couplings = [normalized(k.apply, "symmetric", convert(mu + mu.T), convert(np.ones((12, 1))), k.diagonal())]
        return list(islice(mean_field_steps(convert(f), couplings, 0.2), 5))

    for expected, found in zip(steps(np.asarray), steps(torch.tensor), strict=True):
        assert np.allclose(found.log_q.numpy(), expected.log_q, rtol=1e-12, atol=1e-13)
        assert found.residual == pytest.approx(expected.residual, rel=1e-9)
