"""Sequential updates: the free energy falls for any symmetric model, with the fixed points of other updates."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from densefield import CRF, Bilateral, InputError, Spatial
from densefield.crf.convergent import convergent_steps
from densefield.crf.mean_field import log_softmax, mean_field_steps, update
from densefield.crf.pairwise import normalized
from densefield.crf.sequential import sequential_steps
from densefield.filters import ExactFilter
from tests.crf.test_convergent import EPS, Model, assert_falls, random_model


def without_diagonal(seed: int, sign: float = 1.0) -> Model:
    """A random model in float64 whose pixels send nothing to themselves; a negative sign makes weights repel."""
    scores, terms = random_model(seed)
    random = np.random.default_rng(seed + 1)
    bound = []
    for term in terms:
        k = ExactFilter(random.normal(size=(len(scores), 2)))
        bound.append(normalized(k.apply, "symmetric", sign * term.mu, np.ones((len(scores), 1)), k.diagonal()))
    return scores, bound


def weak_model(seed: int) -> Model:
    """One with a single fixed point: weights so small that the update is a contraction."""
    random = np.random.default_rng(seed)
    k = ExactFilter(random.normal(size=(30, 2)))
    term = normalized(k.apply, "symmetric", np.array(1.5), np.ones((30, 1)), k.diagonal())
    return random.normal(size=(30, 4)), [term]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("first_seed", range(81_000, 81_200, 40))
def test_the_free_energy_never_rises_whatever_the_weights(first_seed: int, sign: float) -> None:
    for seed in range(first_seed, first_seed + 40):
        model = without_diagonal(seed, sign)
        steps = list(islice(sequential_steps(*model), 8))
        # Rounding of sums over up to 40·6 terms, as in test_convergent.
        assert_falls(steps, model, 8 * EPS)


def test_one_iteration_is_the_update_of_the_paper_pixel_by_pixel() -> None:
    scores, terms = weak_model(81_301)
    q = np.exp(log_softmax(scores))
    for i in range(len(scores)):
        q[i] = np.exp(log_softmax(update(scores, terms, q)))[i]  # Eq. 5 for all pixels; pixel i is taken
    found = list(islice(sequential_steps(scores, terms), 2))[-1]
    assert np.abs(found.q - q).max() <= 64 * EPS


@pytest.mark.parametrize("seed", range(81_400, 81_410))
def test_all_updates_reach_the_same_fixed_point_of_a_weak_model(seed: int) -> None:
    model = weak_model(seed)
    last = [
        next(islice(steps(*model), 300, None)).q for steps in (mean_field_steps, convergent_steps, sequential_steps)
    ]
    assert np.abs(last[0] - last[2]).max() <= 1e-12  # changes fall by more than half in each iteration
    assert np.abs(last[1] - last[2]).max() <= 1e-12


def test_it_converges_where_the_parallel_update_oscillates() -> None:
    options = {"iterations": 60, "exclude_self": True, "method": "exact"}
    kernels = [Spatial(100, weight=10, normalization="none")]
    opposed = np.array([[[2.0, 0.0]], [[0.0, 2.0]]])
    assert not CRF(kernels, **options).solve(opposed, tolerance=1e-6).converged
    assert CRF(kernels, inference="sequential", **options).solve(opposed, tolerance=1e-6).converged


def test_the_crf_solves_sequentially() -> None:
    rng = np.random.default_rng(81_500)
    scores, image = rng.standard_normal((3, 6, 7)), rng.uniform(0, 255, (6, 7, 3))
    kernels = [Spatial(2, weight=2), Bilateral(5, 60, weight=2)]
    crf = CRF(kernels, iterations=4, inference="sequential", method="exact", exclude_self=True)
    solution = crf.solve(scores, image, energies=True)
    problem = crf.problem(scores, image)
    expected = list(islice(sequential_steps(problem.rows, problem.pairwise), 5))[-1]
    assert np.array_equal(solution.marginals, problem.unflatten(expected.q))
    assert solution.energies is not None and (np.diff(solution.energies) <= 0).all()
    assert np.array_equal(crf.marginals(scores, image), solution.marginals.astype(np.float32))


def test_options_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"method='exact', but method is 'lattice'.*'convergent'"):
        CRF(inference="sequential", exclude_self=True)
    with pytest.raises(InputError, match="Use exclude_self=True"):
        CRF(inference="sequential", method="exact")
    crf = CRF([Spatial(2)], inference="sequential", method="exact", exclude_self=True)
    with pytest.raises(InputError, match=r"damping is 0\.5 with inference='sequential'"):
        crf.solve(np.zeros((2, 3, 3)), damping=0.5)
    with pytest.raises(InputError, match="leave one of them out"):
        crf.solve(np.zeros((2, 3, 3)), convergent=True)
    with pytest.raises(InputError, match="inference is 'series', expected one of parallel, convergent, sequential"):
        CRF(inference="series")


def test_terms_with_a_diagonal_and_large_images_are_refused() -> None:
    scores, terms = weak_model(81_600)
    with pytest.raises(InputError, match="kernel 1 of 1 has its diagonal"):
        sequential_steps(scores, [replace(terms[0], own=None)])
    with pytest.raises(InputError, match="at most 20000 pixels"):
        sequential_steps(np.zeros((20_001, 2)), [])


def test_a_sequential_crf_cannot_be_saved_since_files_have_no_method(tmp_path) -> None:
    crf = CRF([Spatial(2)], inference="sequential", method="exact", exclude_self=True)
    with pytest.raises(InputError, match="inference='convergent'"):
        crf.save(tmp_path / "crf.toml")
