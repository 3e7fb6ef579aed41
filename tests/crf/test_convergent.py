"""Convergent inference: the free energy never rises."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pytest

from densefield import CRF, Bilateral, Spatial
from densefield.crf.convergent import convergent_steps
from densefield.crf.mean_field import Step, free_energy, log_softmax, mean_field_steps, update
from densefield.crf.pairwise import Pairwise, normalized
from densefield.errors import InputError
from densefield.filters import ExactFilter

EPS = np.finfo(np.float64).eps
EPS_SINGLE = np.finfo(np.float32).eps

Model = tuple[np.ndarray, list[Pairwise[np.ndarray]]]


def random_weight(random: np.random.Generator, labels: int, strength: float) -> np.ndarray:
    kind = random.integers(3)
    if kind == 0:
        return np.array(strength)
    if kind == 1:
        return strength * random.random(labels)
    w = random.normal(size=(labels, int(random.integers(1, labels + 1))))
    return strength * w @ w.T / labels


def random_model(seed: int) -> Model:
    """Up to 40 pixels, 6 labels and 3 kernels, of any strength, in float64 with exact filters."""
    random = np.random.default_rng(seed)
    points, labels = int(random.choice([1, 2, 3, random.integers(4, 41)])), int(random.integers(1, 7))
    spread = float(random.choice([0.0, 0.1, 3.0, 10.0, 100.0, 1e4]))
    scores = spread * random.normal(size=(points, labels))
    exclude_self = bool(random.integers(2))
    couplings = []
    for _ in range(random.integers(1, 4)):
        features = random.normal(size=(points, int(random.integers(1, 6)))) * 10 ** random.uniform(-2, 0.7)
        k = ExactFilter(features)
        mu = random_weight(random, labels, float(random.choice([0.1, 1.0, 10.0]) * random.choice([1.0, spread])))
        normalization = "symmetric" if random.integers(2) else "none"
        present = (random.random((points, 1)) > 0.1).astype(np.float64)
        couplings.append(normalized(k.apply, normalization, mu, present, k.diagonal() if exclude_self else None))
    return scores, couplings


def size_of_terms(step: Step[np.ndarray], scores: np.ndarray, couplings: list[Pairwise[np.ndarray]]) -> float:
    """The sum of absolute terms of the free energy, to which rounding is relative."""
    terms = np.abs(step.q * step.log_q).sum() + np.abs(step.q * scores).sum()
    return float(terms + sum(np.abs(step.q * coupling.message(step.q)).sum() for coupling in couplings))


def assert_falls(steps: list[Step[np.ndarray]], model: Model, rounding: float) -> None:
    levels = [free_energy(step.q, step.log_q, *model) for step in steps]
    assert np.isfinite(levels).all()
    for step, (before, after) in zip(steps, pairwise(levels), strict=False):
        assert after - before <= rounding * size_of_terms(step, *model)


@pytest.mark.parametrize("first_seed", range(70_000, 70_400, 40))
def test_the_free_energy_never_rises(first_seed):
    for seed in range(first_seed, first_seed + 40):
        model = random_model(seed)
        steps = list(islice(convergent_steps(*model), 12))
        for step in steps:
            assert np.isfinite(step.log_q).all()
            assert np.abs(step.q.sum(axis=1) - 1).max() <= 16 * EPS
        # Rounding of sums over up to 40·6 terms and of the solutions.
        assert_falls(steps, model, 8 * EPS)


def test_the_parallel_update_raises_the_free_energy_of_some_models():
    rising = 0
    for seed in range(70_000, 70_400):
        model = random_model(seed)
        steps = list(islice(mean_field_steps(*model), 12))
        levels = [free_energy(step.q, step.log_q, *model) for step in steps]
        rising += any(after - before > 1e-6 * abs(before) for before, after in pairwise(levels))
    assert rising >= 3


def opposed() -> tuple[CRF, np.ndarray]:
    """Two pixels with different scores that attract each other strongly."""
    crf = CRF([Spatial(100, weight=10, normalization="none")], iterations=30, exclude_self=True, method="exact")
    return crf, np.array([[[2.0, 0.0]], [[0.0, 2.0]]])


def test_the_parallel_update_of_two_opposed_pixels_oscillates():
    crf, scores = opposed()
    energies = crf.solve(scores, energies=True).energies
    rises = np.diff(energies)
    assert (rises[0::2] > 1).all() and (rises[1::2] < -1).all()


def test_convergent_inference_of_two_opposed_pixels_descends():
    crf, scores = opposed()
    solution = crf.solve(scores, convergent=True, energies=True, tolerance=1e-9)
    assert solution.converged
    assert solution.iterations < 30
    assert (np.diff(solution.energies) <= 8 * EPS * 20).all()
    assert solution.energies[-1] < min(crf.solve(scores, energies=True).energies) - 1


def test_with_self_interaction_it_equals_the_parallel_update():
    random = np.random.default_rng(16_103)
    scores, k = random.normal(size=(20, 3)), ExactFilter(random.normal(size=(20, 2)))
    couplings = [normalized(k.apply, "symmetric", np.array(4.0), np.ones((20, 1)))]
    for found, expected in islice(
        zip(convergent_steps(scores, couplings), mean_field_steps(scores, couplings), strict=True), 6
    ):
        assert np.array_equal(found.log_q, expected.log_q)
        assert found.residual == expected.residual


def converge(steps, tolerance: float) -> Step[np.ndarray] | None:
    return next((step for step in islice(steps, 3000) if step.residual <= tolerance), None)


def test_it_converges_to_a_fixed_point_of_mean_field():
    converged = 0
    for seed in range(70_400, 70_500):
        scores, couplings = random_model(seed)
        step = converge(convergent_steps(scores, couplings), 1e-13)
        if step is not None:
            converged += 1
            z = update(scores, couplings, step.q)
            # The linear part of the equation has the previous q, which changed by 1e-13.
            strength = max(np.abs(coupling.mu).max() for coupling in couplings)
            close = 1e-11 * (1 + strength)
            assert np.allclose(np.exp(log_softmax(z)), step.q, rtol=0, atol=close)
    assert converged >= 90


def test_both_methods_reach_the_same_fixed_point_with_small_weights():
    for seed in range(70_500, 70_540):
        random = np.random.default_rng(seed)
        k = ExactFilter(random.normal(size=(15, 2)))
        mu = random_weight(random, 4, 0.5)
        model = random.normal(size=(15, 4)), [normalized(k.apply, "symmetric", mu, np.ones((15, 1)), k.diagonal())]
        found, expected = converge(convergent_steps(*model), 1e-14), converge(mean_field_steps(*model), 1e-14)
        assert np.allclose(found.q, expected.q, rtol=0, atol=1e-13)


@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("normalization", ["symmetric", "none"])
@pytest.mark.parametrize("weight", [5.0, [1.0, 3.0, 0.5, 4.0], "matrix"])
def test_the_free_energy_falls_on_the_lattice(exclude_self, normalization, weight):
    random = np.random.default_rng(28_657)
    w = random.normal(size=(4, 4))
    weight = w @ w.T if weight == "matrix" else weight
    image = (random.random((12, 16, 3)) * 255).astype(np.uint8)
    image[:, 8:] //= 4
    kernels = (
        Spatial(2, weight=3, normalization=normalization),
        Bilateral(9, 60, weight=weight, normalization=normalization),
    )
    crf = CRF(kernels, exclude_self=exclude_self)
    problem = crf.problem(3 * random.normal(size=(4, 12, 16)), image)
    model = problem.rows, problem.pairwise
    steps = list(islice(convergent_steps(*model), 60))
    # The operator is symmetric and positive semi-definite; its float32 sums are rounded for the step and for the
    # energy.
    assert_falls(steps, model, 4 * EPS_SINGLE)
    levels = [free_energy(step.q, step.log_q, *model) for step in steps]
    assert levels[5] < levels[0] - 1


def test_solving_gives_the_last_of_the_steps():
    random = np.random.default_rng(36_529)
    scores, image = random.normal(size=(3, 5, 6)), random.random((5, 6, 3)) * 255
    crf = CRF([Bilateral(3, 80, weight=4)], iterations=4, exclude_self=True, method="exact")
    solution = crf.solve(scores, image, convergent=True, energies=True)
    steps = list(islice(crf.steps(scores, image, convergent=True, energies=True), 5))
    assert np.array_equal(steps[-1].marginals, solution.marginals)
    assert steps[-1].energies == solution.energies
    assert not np.array_equal(crf.solve(scores, image).marginals, solution.marginals)


def test_no_pixels_converge_at_once():
    solution = CRF([Spatial(2)], exclude_self=True).solve(np.empty((3, 0, 4)), convergent=True, tolerance=1e-3)
    assert solution.converged and solution.iterations == 1
    assert solution.marginals.shape == (3, 0, 4)


@pytest.mark.parametrize(
    "kernel, message",
    [
        (Spatial(2, normalization="after"), "spatial kernel has normalization='after'.*'symmetric' or 'none'"),
        (Spatial(2, normalization="before"), "has normalization='before'.*or parallel inference"),
        (Spatial(2, weight=-1), "weight of kernel 2 of 2 is not.*or parallel inference"),
        (Spatial(2, weight=[1, -0.1]), "expects positive semi-definite weights"),
        (Spatial(2, weight=[[0, 1], [1, 0]]), "expects positive semi-definite weights"),
    ],
)
def test_kernels_without_the_guarantee_are_rejected_immediately(kernel, message):
    scores = np.zeros((2, 3, 4))
    with pytest.raises(InputError, match=message):
        CRF([Spatial(1), kernel]).solve(scores, convergent=True)
    with pytest.raises(InputError, match=message):
        CRF([Spatial(1), kernel]).steps(scores, convergent=True)
    assert np.isfinite(CRF([Spatial(1), kernel]).solve(scores, damping=0.5).marginals).all()


@pytest.mark.parametrize("normalization", ["after", "before"])
def test_one_sided_kernels_and_convergent_inference_do_not_meet_in_one_crf(normalization, tmp_path):
    kernels = [Spatial(1), Bilateral(60, 10, normalization=normalization)]
    parallel = CRF(kernels)
    says = f"the bilateral kernel has normalization='{normalization}'"
    with pytest.raises(InputError, match=says):
        CRF(kernels, inference="convergent")
    with pytest.raises(InputError, match=says):
        parallel.options = parallel.options.replace(inference="convergent")
    assert parallel.options.inference == "parallel"
    with pytest.raises(InputError, match=says):
        CRF(inference="convergent").replace(kernels=kernels)
    parallel.save(tmp_path / "crf.toml")
    text = (tmp_path / "crf.toml").read_text(encoding="utf-8").replace('"parallel"', '"convergent"')
    (tmp_path / "crf.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=rf"crf\.toml: inference: .*{says}"):
        CRF.load(tmp_path / "crf.toml")


def test_the_operator_of_pydensecrf_is_rejected_on_the_lattice():
    scores = np.zeros((2, 3, 4))
    with pytest.raises(InputError, match=r"operator is 'pydensecrf'. Use operator='symmetric' or method='exact'"):
        CRF([Spatial(2)], operator="pydensecrf").solve(scores, convergent=True)
    CRF([Spatial(2)], operator="pydensecrf", method="exact").solve(scores, convergent=True)


def test_damping_with_convergent_inference_is_rejected():
    with pytest.raises(InputError, match=r"damping is 0.5 with convergent=True.*leave one of them out"):
        CRF([Spatial(2)]).solve(np.zeros((2, 3, 4)), convergent=True, damping=0.5)
