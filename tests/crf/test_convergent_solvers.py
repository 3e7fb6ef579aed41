"""The convex program of each pixel: min Σ q log q - q·c + ½ qᵀ D q over distributions."""

from __future__ import annotations

import numpy as np
import pytest

from densefield.crf import convergent
from densefield.crf.convergent import solve_diagonal, solve_matrix
from densefield.crf.mean_field import log_softmax

EPS = np.finfo(np.float64).eps


def semidefinite(random: np.random.Generator, labels: int) -> np.ndarray:
    """A matrix of random rank with the largest eigenvalue 1."""
    w = random.normal(size=(labels, int(random.integers(1, labels + 1))))
    matrix = w @ w.T
    return matrix / np.linalg.eigvalsh(matrix).max()


def objective(log_q: np.ndarray, c: np.ndarray, d: np.ndarray) -> float:
    q = np.exp(log_q)
    return float(q @ (log_q - c) + q @ d @ q / 2)


def assert_stationary(log_q: np.ndarray, c: np.ndarray, dq: np.ndarray, scale: np.ndarray) -> None:
    """log q + D q - c is equal, -ν, for all labels, and q is a distribution."""
    assert np.isfinite(log_q).all()
    assert np.abs(np.exp(log_q).sum(axis=1) - 1).max() <= 4 * EPS * c.shape[1]
    # Terms of the size of c and D are rounded about ten times.
    spread = np.ptp(log_q + dq - c, axis=1)
    assert (spread <= 32 * EPS * (1 + np.abs(c).max(axis=1) + scale)).all()


@pytest.mark.parametrize("labels", [1, 2, 5, 21])
@pytest.mark.parametrize("spread", [1.0, 100.0, 1e4])
@pytest.mark.parametrize("strength", [0.0, 1e-300, 1e-3, 1.0, 30.0, 1e4, 1e12])
def test_a_diagonal_is_solved_to_rounding(labels, spread, strength):
    random = np.random.default_rng(73_021)
    c = random.uniform(-spread, spread, (300, labels))
    one = strength * random.random((300, 1))
    each = strength * random.random((300, labels)) * (random.random((300, labels)) > 0.3)  # 0 for some labels
    for d in (one, each):
        log_q = solve_diagonal(c, d)
        assert_stationary(log_q, c, d * np.exp(log_q), d.max(axis=1))


@pytest.mark.parametrize("labels", [1, 2, 5, 21])
@pytest.mark.parametrize("spread", [1.0, 100.0, 1e4])
@pytest.mark.parametrize("strength", [0.0, 1e-3, 1.0, 30.0, 1e4, 1e9])
def test_a_matrix_is_solved_to_rounding(labels, spread, strength):
    random = np.random.default_rng(90_127)
    c = random.uniform(-spread, spread, (60, labels))
    factors = strength * random.random((60, 2))
    matrices = np.stack([semidefinite(random, labels), semidefinite(random, labels)])
    log_q = solve_matrix(c, factors, matrices, np.exp(log_softmax(c)))
    dq = np.einsum("im,mkl,il->ik", factors, matrices, np.exp(log_q))
    assert_stationary(log_q, c, dq, factors.sum(axis=1))


def test_both_solvers_agree_on_diagonals():
    random = np.random.default_rng(5_519)
    c, d = random.normal(scale=3, size=(200, 4)), 8 * random.random((200, 1))
    each = np.array([0.0, 0.5, 1.0, 2.0])
    found = solve_matrix(c, d, np.diag(each)[None], np.full((200, 4), 0.25))
    assert np.allclose(found, solve_diagonal(c, d * each), rtol=0, atol=1e-13)


@pytest.mark.parametrize("strength", [0.3, 3.0, 30.0])
def test_a_general_optimiser_finds_nothing_lower(strength):
    optimize = pytest.importorskip("scipy.optimize")
    random = np.random.default_rng(41_213)
    for labels in (2, 3, 5):
        c, matrix = random.normal(scale=2, size=labels), strength * semidefinite(random, labels)
        found = solve_matrix(c[None], np.ones((1, 1)), matrix[None], np.full((1, labels), 1 / labels))[0]
        result = optimize.minimize(
            lambda q, c=c, d=matrix: objective(np.log(q), c, d),
            np.full(labels, 1 / labels),
            jac=lambda q, c=c, d=matrix: np.log(q) + 1 - c + d @ q,
            bounds=[(1e-12, 1)] * labels,
            constraints={"type": "eq", "fun": lambda q: q.sum() - 1, "jac": np.ones_like},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        # The optimiser stops at 1e-14 of the objective, where marginals are accurate to its square root.
        assert objective(found, c, matrix) <= result.fun + 1e-12
        assert np.allclose(np.exp(found), result.x, rtol=0, atol=1e-6)


def test_without_a_quadratic_term_it_is_the_softmax():
    random = np.random.default_rng(8_887)
    c = random.normal(scale=20, size=(50, 6))
    start = np.full((50, 6), 1 / 6)
    # Both round terms of the size of c.
    assert np.allclose(solve_diagonal(c, np.zeros((50, 1))), log_softmax(c), rtol=4 * EPS, atol=4 * EPS)
    assert np.allclose(
        solve_matrix(c, np.zeros((50, 1)), np.eye(6)[None], start), log_softmax(c), rtol=4 * EPS, atol=4 * EPS
    )


def test_float32_gives_the_correctly_rounded_solution():
    random = np.random.default_rng(6_353)
    c, d = random.normal(scale=9, size=(80, 5)).astype(np.float32), 4 * random.random((80, 1), np.float32)
    matrix, start = semidefinite(random, 5).astype(np.float32), np.full((80, 5), 0.2, np.float32)
    for solve in (lambda *a: solve_diagonal(*a[:2]), lambda c, d, x: solve_matrix(c, d, matrix[None], x)):
        found = solve(c, d, start)
        assert found.dtype == np.float32
        exact = solve(c.astype(np.float64), d.astype(np.float64), start)
        assert np.allclose(found, exact, rtol=np.finfo(np.float32).eps, atol=0)


def test_the_solution_does_not_depend_on_the_start():
    random = np.random.default_rng(2_741)
    c, factors = random.normal(scale=4, size=(40, 5)), 20 * random.random((40, 1))
    matrix = semidefinite(random, 5)[None]
    certain = np.eye(5)[random.integers(0, 5, 40)]
    found = [solve_matrix(c, factors, matrix, x) for x in (certain, np.full((40, 5), 0.2))]
    assert np.allclose(*found, rtol=0, atol=1e-12)


def test_batches_equal_single_pixels(monkeypatch):
    random = np.random.default_rng(13_499)
    c, d = random.normal(scale=3, size=(70, 3)), 5 * random.random((70, 1))
    matrix, start = semidefinite(random, 3)[None], np.full((70, 3), 1 / 3)
    whole = solve_diagonal(c, d), solve_matrix(c, d, matrix, start)
    monkeypatch.setattr(convergent, "_BATCH", 50)  # 16 pixels, and 5
    # Pixels of a batch stop together, so some make one more step, which changes them by rounding.
    assert np.allclose(solve_diagonal(c, d), whole[0], rtol=0, atol=1e-14)
    assert np.allclose(solve_matrix(c, d, matrix, start), whole[1], rtol=0, atol=1e-14)


def test_no_pixels_give_no_marginals():
    none = np.empty((0, 3))
    assert solve_diagonal(none, np.empty((0, 1))).shape == (0, 3)
    assert solve_matrix(none, np.empty((0, 1)), np.eye(3)[None], none).shape == (0, 3)


def test_a_matrix_that_rounding_made_slightly_indefinite_is_solved():
    random = np.random.default_rng(3_331)
    w = random.normal(size=(6, 1))
    matrix = (w @ w.T).astype(np.float32)
    assert np.linalg.eigvalsh(matrix.astype(np.float64)).min() < 0
    c, factors = random.normal(scale=2, size=(50, 6)), 10 * random.random((50, 1))
    log_q = solve_matrix(c, factors, matrix[None], np.full((50, 6), 1 / 6))
    norm = np.linalg.norm(matrix, 2)
    assert_stationary(log_q, c, factors * (np.exp(log_q) @ matrix.astype(np.float64)), norm * factors[:, 0])
