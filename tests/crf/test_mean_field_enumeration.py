"""Mean field compared with exact marginals of models small enough for enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from densefield import CRF, Bilateral, Kernel, Spatial
from densefield.crf.mean_field import free_energy
from densefield.crf.problem import Problem

SHAPES = [(1, 1, 1), (2, 1, 1), (3, 1, 1), (1, 1, 4), (2, 1, 2), (3, 1, 4), (2, 1, 5), (3, 1, 5)]  # (L, H, W)


def model_matrix(problem: Problem) -> np.ndarray:
    """Σ_m μ_m(l, l′) k̂_m(i, j) as (N, L, N, L), from the messages of unit vectors."""
    labels, points = problem.scores.shape
    matrix = np.zeros((points, labels, points, labels))
    for j, l in product(range(points), range(labels)):
        unit = np.zeros((points, labels))
        unit[j, l] = 1
        matrix[:, :, j, l] = sum(coupling.message(unit) for coupling in problem.pairwise)
    return matrix


class Listed:
    """p(y) ∝ exp(Σ_i f_i(y_i) + Σ_{i<j} Σ_m μ_m(y_i, y_j) k̂_m(i,j)), for every labelling."""

    def __init__(self, problem: Problem) -> None:
        f, pairs = problem.rows, model_matrix(problem)
        points, labels = f.shape
        self.labellings = np.array(list(product(range(labels), repeat=points)))  # (L^N, N)
        i, j = np.triu_indices(points, 1)
        totals = []
        for y in self.labellings:
            totals.append(f[range(points), y].sum() + pairs[i, y[i], j, y[j]].sum())
        top = max(totals)
        self.log_z = top + np.log(np.exp(np.array(totals) - top).sum())
        self.log_p = np.array(totals) - self.log_z
        self.marginals = np.stack(
            [[np.exp(self.log_p[self.labellings[:, n] == l]).sum() for l in range(labels)] for n in range(points)]
        )

    def divergence_from(self, q: np.ndarray) -> float:
        """KL(q‖p) for the product of marginals q (N, L)."""
        chosen = q[range(q.shape[0]), self.labellings]  # (L^N, N)
        weight = chosen.prod(axis=1)
        return float((weight * (np.log(chosen).sum(axis=1) - self.log_p)).sum())


def random_kernels(random: np.random.Generator, labels: int, strength: float) -> list[Kernel]:
    matrix = random.normal(size=(labels, labels))
    return [
        Spatial(1.5, weight=strength * random.normal(), normalization="none"),
        Spatial(3, weight=strength * random.normal(size=labels)),
        Bilateral(2, 90, weight=strength * (matrix + matrix.T)),
    ]


def random_model(shape: tuple[int, int, int], strength: float, seed: int) -> tuple[CRF, np.ndarray, np.ndarray]:
    """A CRF, its scores and its image."""
    random = np.random.default_rng(seed)
    crf = CRF(random_kernels(random, shape[0], strength), iterations=200, exclude_self=True, method="exact")
    return crf, random.normal(scale=2, size=shape), (random.random((*shape[1:], 3)) * 255).astype(np.uint8)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_free_energy_is_the_divergence_minus_log_z(shape):
    random = np.random.default_rng(10_271)
    for seed in range(8_000, 8_006):
        crf, *data = random_model(shape, 2.0, seed)
        problem = crf.problem(*data)
        listed = Listed(problem)
        for _ in range(5):
            q = random.dirichlet(np.ones(shape[0]), size=problem.rows.shape[0])
            divergence = listed.divergence_from(q)
            # Rounding of up to 243 terms of size ten.
            assert free_energy(q, np.log(q), problem.rows, problem.pairwise) + listed.log_z == pytest.approx(
                divergence, rel=1e-10, abs=1e-10
            )
            assert divergence >= -1e-12


@pytest.mark.parametrize("shape", SHAPES)
def test_mean_field_reduces_the_divergence_from_the_model(shape):
    crf, *data = random_model(shape, 0.3, 8_111)
    listed = Listed(crf.problem(*data))
    solution = crf.solve(*data, tolerance=1e-12, energies=True)
    q = solution.marginals.reshape(shape[0], -1).T
    divergence = listed.divergence_from(q)
    assert solution.converged
    assert solution.energies[-1] + listed.log_z == pytest.approx(divergence, abs=1e-10)
    assert solution.energies[-1] <= solution.energies[0] + 1e-12
    assert divergence < 0.05


def test_the_error_of_mean_field_is_quadratic_in_the_weights():
    # Mean field is exact to first order in the weights, so marginals differ in second order: half the weights, a
    # quarter of the error.
    def error(strength: float) -> float:
        crf, *data = random_model((3, 2, 2), strength, 8_233)
        q = crf.solve(*data, tolerance=1e-15).marginals.reshape(3, -1).T
        return float(np.abs(q - Listed(crf.problem(*data)).marginals).max())

    errors = [error(strength) for strength in (0.02, 0.01, 0.005, 0.0025)]
    assert errors[-1] > 1e-8  # far above rounding
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    # The third order remains, and halves with the weights.
    assert np.abs(ratios[-1] - 4) < 0.05
    assert (np.abs(ratios - 4) < 0.4).all()


def test_a_model_without_kernels_is_solved_exactly():
    random = np.random.default_rng(8_329)
    scores = random.normal(scale=3, size=(3, 1, 4))
    crf = CRF([], method="exact", exclude_self=True)
    solution, listed = crf.solve(scores, energies=True), Listed(crf.problem(scores))
    assert np.allclose(solution.marginals.reshape(3, 4).T, listed.marginals, rtol=0, atol=1e-14)
    assert solution.energies[-1] == pytest.approx(-listed.log_z, abs=1e-12)


def test_a_single_pixel_without_self_interaction_is_solved_exactly():
    crf, *data = random_model((3, 1, 1), 5.0, 8_419)
    expected = Listed(crf.problem(*data)).marginals
    assert np.allclose(crf.solve(*data).marginals.reshape(3, 1).T, expected, rtol=0, atol=1e-14)
