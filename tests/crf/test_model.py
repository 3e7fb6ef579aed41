"""The NumPy CRF on images of any shape."""

from __future__ import annotations

import copy
import pickle
from itertools import islice

import numpy as np
import pytest

from densefield import CRF, Bilateral, Custom, Solution, Spatial
from densefield.crf.mean_field import mean_field
from densefield.crf.pairwise import Pairwise
from tests.support.crf_reference import NORMALIZATIONS, dense_marginals, exact, gaussian, random_input, softmax


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("exclude_self", [False, True])
def test_a_crf_is_mean_field_with_the_kernels_of_the_image(normalization, exclude_self):
    scores, image = random_input(4, 5)
    y, x = np.mgrid[:4, :5]
    position = np.stack([x, y], axis=-1).reshape(20, 2)
    near = gaussian(position / [2, 3], normalization)
    alike = gaussian(np.concatenate([position / 4, image.reshape(20, 3) / [50, 60, 70]], axis=1), "symmetric")
    if exclude_self:
        np.fill_diagonal(near, 0)
        np.fill_diagonal(alike, 0)
    kernels = Spatial((2, 3), weight=0.8, normalization=normalization), Bilateral(4, (50, 60, 70), weight=3)
    solution = exact(*kernels, iterations=4, exclude_self=exclude_self).solve(scores, image)
    expected = dense_marginals(scores.reshape(3, 20), [(near, 0.8), (alike, 3.0)], 4)
    assert np.allclose(solution.marginals.reshape(3, 20), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("shape", [(5, 6), (3, 4, 5), (17,)])
def test_results_have_the_shape_of_the_scores(shape):
    scores, image = random_input(*shape)
    for crf in (CRF([Bilateral(3, 50)]), exact(Bilateral(3, 50))):
        solution = crf.solve(scores, image)
        assert isinstance(solution, Solution)
        assert solution.marginals.shape == solution.log_marginals.shape == (3, *shape)
        assert solution.labels.shape == shape
        assert np.array_equal(solution.labels, solution.marginals.argmax(axis=0))
        assert np.allclose(np.exp(solution.log_marginals), solution.marginals, rtol=1e-6)
        assert np.allclose(solution.marginals.sum(axis=0), 1, atol=1e-6)
        assert solution.iterations == 5 and len(solution.residuals) == 5
        assert solution.energies is None and solution.converged is None


def test_the_exact_method_keeps_double_precision_and_the_lattice_is_single():
    scores, image = random_input(4, 5)
    assert exact().solve(scores, image).marginals.dtype == np.float64
    assert exact().solve(scores.astype(np.float32), image).marginals.dtype == np.float32
    assert CRF().solve(scores, image).marginals.dtype == np.float32
    assert CRF().solve(scores.astype(np.float16), image).marginals.dtype == np.float32


def test_memory_order_does_not_matter():
    scores, image = random_input(6, 7)
    plain = exact().solve(scores, image).marginals
    assert np.array_equal(exact().solve(np.asfortranarray(scores), np.asfortranarray(image)).marginals, plain)
    flipped = exact().solve(scores[:, ::-1], image[::-1]).marginals
    assert np.allclose(flipped[:, ::-1], plain, rtol=1e-12)  # sums in another order


def test_input_is_left_as_it_was():
    scores, image = random_input(5, 6)
    kept = scores.copy(), image.copy()
    for crf in (CRF(), exact()):
        crf.solve(scores, image, convergent=True, energies=True)
        assert np.array_equal(scores, kept[0]) and np.array_equal(image, kept[1])


@pytest.mark.parametrize("options", [{}, {"damping": 0.4}, {"convergent": True}])
def test_the_steps_one_by_one_are_the_solution(options):
    scores, image = random_input(5, 6)
    for crf in (CRF(iterations=4), exact(iterations=4)):
        steps = list(islice(crf.steps(scores, image, energies=True, **options), 5))
        for count, step in enumerate(steps):
            assert step.iterations == count == len(step.residuals) == len(step.energies) - 1
        solution = crf.solve(scores, image, energies=True, **options)
        # `solve` may sum float32 in another order than single steps.
        close = 1e-13 if crf.solve(scores, image).marginals.dtype == np.float64 else 1e-5
        assert np.allclose(steps[-1].marginals, solution.marginals, rtol=0, atol=close)
        assert np.allclose(steps[-1].residuals, solution.residuals, rtol=0, atol=close)
        assert np.allclose(steps[-1].energies, solution.energies, rtol=close)


def test_no_iterations_give_the_softmax():
    scores, image = random_input(5, 6)
    solution = exact(iterations=0).solve(scores, image, tolerance=0.1)
    assert np.allclose(solution.marginals, softmax(scores), rtol=1e-14)
    assert solution.iterations == 0 and solution.residuals == () and solution.converged is False


def test_a_tolerance_stops_early_and_reports_convergence():
    scores, image = random_input(5, 6)
    crf = exact(Spatial(2, weight=1), iterations=100)
    solution = crf.solve(scores, tolerance=1e-6)
    assert solution.converged is True
    assert 1 < solution.iterations < 100
    assert solution.residuals[-1] <= 1e-6 < solution.residuals[-2]
    last = next(islice(crf.steps(scores), solution.iterations, None))
    assert np.allclose(last.marginals, solution.marginals, rtol=1e-12)
    hasty = exact(Spatial(2, weight=1), iterations=1).solve(scores, image, tolerance=1e-6)
    assert hasty.converged is False and hasty.iterations == 1


def test_energies_are_the_free_energy_of_every_step():
    scores, image = random_input(4, 5)
    crf = exact(Bilateral(3, 70, weight=2, normalization="none"), iterations=3)
    energies = crf.solve(scores, image, energies=True).energies
    k = crf.problem(scores, image).pairwise[0].smooth(np.eye(20))
    assert len(energies) == 4
    for energy, step in zip(energies, crf.steps(scores, image), strict=False):
        q = step.marginals.reshape(3, 20)
        expected = (q * np.log(q)).sum() - (q * scores.reshape(3, 20)).sum() - np.einsum("li,ij,lj->", q, k, q)
        assert energy == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("options", [{}, {"convergent": True}, {"damping": 0.5}])
@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (2, 0, 3), (0,)])
def test_an_empty_image_gives_an_empty_solution(shape, exclude_self, options):
    scores, image = np.zeros((3, *shape)), np.zeros((*shape, 3), np.uint8)
    for method in ("lattice", "exact"):
        crf = CRF([Spatial(2), Bilateral(3, 10)], method=method, exclude_self=exclude_self)
        solution = crf.solve(scores, image, energies=True, tolerance=1e-3, **options)
        assert solution.marginals.shape == (3, *shape) and solution.labels.shape == shape
        assert solution.converged and solution.energies == (0, 0)


@pytest.mark.parametrize("exclude_self", [False, True])
def test_a_single_pixel_interacts_only_with_itself(exclude_self):
    scores, image = random_input(1, 1)
    kernels = Spatial(2, weight=1.5), Bilateral(3, 10, weight=0.5)
    expected = softmax(scores)
    if not exclude_self:  # normalised, it receives its own marginals
        for _ in range(5):
            expected = softmax(scores + 2.0 * expected)
    found = exact(*kernels, exclude_self=exclude_self).solve(scores, image).marginals
    assert np.allclose(found, expected, rtol=1e-12)
    found = CRF(kernels, exclude_self=exclude_self).solve(scores, image).marginals
    assert np.allclose(found, expected, atol=1e-6)


def test_a_single_label_is_certain():
    scores, image = random_input(4, 5, labels=1)
    for crf in (CRF(), exact(), CRF(exclude_self=True)):
        for options in ({}, {"convergent": True}):
            solution = crf.solve(scores, image, **options)
            assert np.allclose(solution.marginals, 1, atol=1e-6)
            assert not solution.labels.any()


@pytest.mark.parametrize("options", [{}, {"convergent": True}, {"damping": 0.5}])
def test_scores_of_ten_thousand_give_no_nan(options):
    scores, image = random_input(5, 6)
    for size in (1e4, -1e4):
        for crf in (CRF(), exact(), exact(exclude_self=True)):
            solution = crf.solve(size * np.sign(scores), image, energies=True, **options)
            assert np.isfinite(solution.log_marginals).all() and np.isfinite(solution.energies).all()
            assert np.allclose(solution.marginals.sum(axis=0), 1, atol=1e-5)


def test_equal_scores_stay_equal():
    _, image = random_input(5, 6)
    for crf in (CRF(), exact()):
        assert np.allclose(crf.solve(np.full((4, 5, 6), 7.0), image).marginals, 0.25, atol=1e-6)


def test_no_kernels_give_the_softmax():
    scores, _ = random_input(5, 6)
    assert np.allclose(CRF([]).solve(scores).marginals, softmax(scores), atol=1e-6)


def test_weights_per_label_and_matrices_are_used_unchanged():
    scores, _ = random_input(4, 5)
    plain = exact(Spatial(2, weight=1.7)).solve(scores).marginals
    for weight in ([1.7] * 3, np.diag([1.7] * 3)):
        assert np.allclose(exact(Spatial(2, weight=weight)).solve(scores).marginals, plain, rtol=1e-12)
    # A constant added to all scores of a pixel cancels: Potts may reward equal labels or penalise the others.
    punished = exact(Spatial(2, weight=1.7 * (np.eye(3) - 1), normalization="after")).solve(scores).marginals
    rewarded = exact(Spatial(2, weight=1.7, normalization="after")).solve(scores).marginals
    assert np.allclose(punished, rewarded, rtol=1e-11)


def test_solve_equals_the_reference_loop():
    scores, image = random_input(9, 11)
    for exclude_self in (False, True):
        crf = CRF(exclude_self=exclude_self)
        problem = crf.problem(scores, image)
        twin = mean_field(problem.rows, problem.pairwise, 5)
        # Float32 sums in another order.
        assert np.allclose(crf.solve(scores, image).marginals.reshape(3, -1).T, np.exp(twin), atol=1e-5)


def photo(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """A photo (rows, columns, 3), 0…255, and rough scores of three labels by its brightness."""
    data, transform = pytest.importorskip("skimage.data"), pytest.importorskip("skimage.transform")
    image = transform.resize(data.coffee(), (rows, columns), anti_aliasing=True) * 255
    grey = image.mean(axis=-1)
    scores = -np.abs(grey[None] - np.array([40.0, 110.0, 190.0])[:, None, None]) / 30
    noise = np.random.default_rng(31_337).normal(scale=1.0, size=scores.shape)
    return image, scores + noise


@pytest.mark.parametrize("widths", [(10, 20), (20, 13)])
def test_the_lattice_is_near_the_exact_sum_on_a_photo(widths):
    image, scores = photo(32, 44)
    kernels = Spatial(3, weight=3), Bilateral(*widths, weight=5)
    found, expected = (CRF(kernels, method=method).solve(scores, image) for method in ("lattice", "exact"))
    difference = np.abs(found.marginals - expected.marginals)
    # The normalised filter has a mean error of 0.01 (docs/accuracy.md). The weights sum to 8, and where two
    # labels compete an error of 0.08 changes a marginal by up to 0.02; this is rare.
    assert difference.mean() < 0.0075
    assert (found.labels == expected.labels).mean() > 0.99


def same(first: Solution, second: Solution) -> bool:
    return np.array_equal(first.marginals, second.marginals)


@pytest.mark.parametrize("method", ["lattice", "exact"])
def test_caches_of_one_image_do_not_change_the_next(method):
    def fresh() -> CRF:
        return CRF([Spatial(2, weight=2), Spatial(4), Bilateral(4, 60, weight=3)], method=method)

    crf = fresh()
    first, second = random_input(5, 6, seed=1_009), random_input(5, 6, seed=1_013)
    other, fewer = random_input(6, 5, seed=1_019), random_input(5, 6, labels=2, seed=1_021)
    ignore = np.random.default_rng(1_031).random((5, 6)) < 0.3
    for scores, image in (first, second, other, fewer, first, other):
        assert same(crf.solve(scores, image), fresh().solve(scores, image))
    scores, image = first
    for options in ({"spacing": (2.0, 3.0)}, {"ignore": ignore}, {}, {"spacing": (3.0, 2.0)}, {}):
        assert same(crf.solve(scores, image, **options), fresh().solve(scores, image, **options))
    single = scores.astype(np.float32)
    assert same(crf.solve(single, image), fresh().solve(single, image))


@pytest.mark.parametrize("twin", [copy.deepcopy, copy.copy, lambda crf: pickle.loads(pickle.dumps(crf))])
def test_it_can_be_copied_and_pickled_after_use(twin):
    scores, image = random_input(5, 6)
    crf = CRF()
    expected = crf.solve(scores, image).marginals
    assert (twin(crf).solve(scores, image).marginals == expected).all()


@pytest.mark.parametrize("method", ["lattice", "exact"])
@pytest.mark.parametrize("covariance", [None, np.diag([0.09, 0.09, 0.09])])
def test_results_do_not_depend_on_the_origin_of_points(method, covariance):
    """Positions in millimetres on a map of the earth have eight digits; float32 has seven."""
    random = np.random.default_rng(90_001)
    local = np.round(random.random((300, 3)) * 5, 3)
    scores = random.normal(size=(2, 300)).astype(np.float32)
    crf = CRF([Custom("place", 0.3, weight=4, covariance=covariance)], method=method)
    near = crf.solve(scores, features={"place": local}).marginals
    far = crf.solve(scores, features={"place": local + np.array([500_000, 5_400_000, 300])}).marginals
    assert np.abs(near - far).max() < 1e-5  # rounding of float32 in marginals


def test_couplings_are_bound_to_the_pixels():
    problem = CRF().problem(*random_input(4, 5))
    assert [type(term) for term in problem.pairwise] == [Pairwise, Pairwise]
    assert problem.pairwise[0].smooth(np.ones((20, 3), np.float32)).shape == (20, 3)


@pytest.mark.slow
def test_convergent_inference_descends_on_a_photo_of_full_size(shared):
    image_module = pytest.importorskip("PIL.Image")
    image = np.asarray(image_module.open(shared / "data" / "pydensecrf-examples" / "im1.png").convert("RGB"))
    grey = image.mean(axis=-1)
    scores = -np.abs(grey[None] - np.linspace(20, 230, 6)[:, None, None]) / 40
    crf = CRF([Spatial(3, weight=3), Bilateral(30, 15, weight=10)], iterations=30, exclude_self=True)
    energies = np.array(crf.solve(scores, image, convergent=True, energies=True).energies)
    # The energy sums float32 messages.
    assert (np.diff(energies) <= 4 * np.finfo(np.float32).eps * np.abs(energies).max()).all()
    assert energies[-1] < energies[0]
