"""The free energy, term by term."""

from __future__ import annotations

import numpy as np
import pytest

from densefield.crf.mean_field import free_energy
from densefield.crf.pairwise import normalized
from densefield.filters import ExactFilter


def test_the_free_energy_matches_its_formula():
    random = np.random.default_rng(23_029)
    features, f, q = random.normal(size=(9, 2)), random.normal(size=(9, 3)), random.dirichlet(np.ones(3), 9)
    mu = random.normal(size=(3, 3))
    mu = mu + mu.T
    k = ExactFilter(features)
    expected = (q * np.log(q)).sum() - (q * f).sum()
    for i in range(9):
        for j in range(9):
            if i != j:
                expected -= 0.5 * q[i] @ mu @ q[j] * np.exp(-0.5 * ((features[i] - features[j]) ** 2).sum())
    couplings = [normalized(k.apply, "none", mu, np.ones((9, 1)), k.diagonal())]
    assert free_energy(q, np.log(q), f, couplings) == pytest.approx(expected, rel=1e-13)


def test_a_forbidden_label_adds_nothing():
    q = np.array([[1.0, 0.0], [0.5, 0.5]])
    with np.errstate(divide="ignore"):
        log_q = np.log(q)
    assert free_energy(q, log_q, np.zeros((2, 2)), []) == pytest.approx(-np.log(2), rel=1e-15)


def test_many_float32_pixels_are_summed_in_float64():
    q = np.full((300_000, 1), 1.0, np.float32)
    f = np.full((300_000, 1), 0.1, np.float32)
    exact = -300_000 * float(np.float32(0.1))
    assert free_energy(q, np.zeros_like(q), f, []) == pytest.approx(exact, rel=1e-12)


def test_no_pixels_have_no_energy():
    none = np.empty((0, 2))
    assert free_energy(none, none, none, []) == 0


def test_torch_gives_the_same():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(3_643)
    f, q = random.normal(size=(9, 3)), random.dirichlet(np.ones(3), 9)
    features = random.normal(size=(9, 2))
    levels = []
    for convert in (np.asarray, torch.tensor):
        k = ExactFilter(convert(features))
        couplings = [normalized(k.apply, "symmetric", convert(np.array(2.0)), convert(np.ones((9, 1))))]
        levels.append(free_energy(convert(q), convert(np.log(q)), convert(f), couplings))
    assert levels[0] == pytest.approx(levels[1], rel=1e-13)
