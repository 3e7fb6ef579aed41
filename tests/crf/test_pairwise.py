"""One kernel on its points, compared with dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import CRF, Spatial
from densefield.crf import pairwise
from densefield.crf.pairwise import Pairwise, _normalized_in_place, normalized
from densefield.filters import ExactFilter, LatticeFilter

NORMALIZATIONS = ["symmetric", "after", "before", "none"]


def points(seed: int = 15_013, count: int = 25) -> tuple[ExactFilter, np.ndarray]:
    """A filter and its dense matrix."""
    k = ExactFilter(np.random.default_rng(seed).normal(size=(count, 2)))
    return k, k.to_dense()


def dense_normalised(k: np.ndarray, normalization: str) -> np.ndarray:
    """The formulas of docs/conventions.md."""
    d = np.diag(k.sum(axis=1))
    if normalization == "symmetric":
        root = np.linalg.inv(np.sqrt(d))
        return root @ k @ root
    if normalization == "after":
        return np.linalg.inv(d) @ k
    if normalization == "before":
        return k @ np.linalg.inv(d)
    return k


def dense(coupling: Pairwise[np.ndarray], count: int) -> np.ndarray:
    return coupling.smooth(np.eye(count))


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_each_normalization_matches_its_formula(normalization):
    k, matrix = points()
    coupling = normalized(k.apply, normalization, np.array(1.0), np.ones((25, 1)))
    assert np.allclose(dense(coupling, 25), dense_normalised(matrix, normalization), rtol=1e-13)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_excluding_self_interaction_gives_a_zero_diagonal(normalization):
    k, matrix = points()
    coupling = normalized(k.apply, normalization, np.array(1.0), np.ones((25, 1)), k.diagonal())
    expected = dense_normalised(matrix, normalization)
    np.fill_diagonal(expected, 0)
    assert np.allclose(dense(coupling, 25), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("exclude_self", [False, True])
def test_absent_pixels_have_no_effect(normalization, exclude_self):
    k, matrix = points()
    here = np.random.default_rng(5).random(25) > 0.4
    diagonal = k.diagonal() if exclude_self else None
    coupling = normalized(k.apply, normalization, np.array(1.0), here[:, None].astype(np.float64), diagonal)
    among = dense_normalised(matrix[np.ix_(here, here)], normalization)
    if exclude_self:
        np.fill_diagonal(among, 0)
    expected = np.zeros((25, 25))
    expected[np.ix_(here, here)] = among
    assert np.allclose(dense(coupling, 25), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("exclude_self", [False, True])
def test_without_present_pixels_messages_are_zero(normalization, exclude_self):
    k, _ = points()
    diagonal = k.diagonal() if exclude_self else None
    coupling = normalized(k.apply, normalization, np.array(1.0), np.zeros((25, 1)), diagonal)
    assert not dense(coupling, 25).any()


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_both_factors_are_equal_for_symmetric_normalization(normalization):
    k, _ = points()
    coupling = normalized(k.apply, normalization, np.array(1.0), np.ones((25, 1)))
    matrix = dense(coupling, 25)
    assert coupling.is_symmetric == np.allclose(matrix, matrix.T, rtol=1e-13)


@pytest.mark.parametrize("mu", [np.array(2.0), np.array([1.0, 2.0, 3.0]), np.arange(9.0).reshape(3, 3)])
def test_a_message_is_filtered_then_multiplied_by_the_compatibility(mu):
    k, matrix = points()
    q = np.random.default_rng(8_627).dirichlet(np.ones(3), 25)
    full = mu if mu.ndim == 2 else mu * np.eye(3)
    message = normalized(k.apply, "after", mu, np.ones((25, 1))).message(q)
    expected = np.einsum("ij,jm,lm->il", dense_normalised(matrix, "after"), q, full)
    assert np.allclose(message, expected, rtol=1e-13)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_on_the_lattice_the_diagonal_is_that_of_the_lattice(normalization):
    features = np.random.default_rng(14_051).normal(size=(25, 3))
    k = LatticeFilter(features)
    matrix = dense_normalised(k.to_dense().astype(np.float64), normalization)
    np.fill_diagonal(matrix, 0)
    coupling = normalized(k.apply, normalization, np.array(1.0, np.float32), np.ones((25, 1), np.float32), k.diagonal())
    found = coupling.smooth(np.eye(25, dtype=np.float32))
    # Float32: the diagonal of size one cancels up to rounding.
    assert np.abs(found - matrix).max() < 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_the_in_place_normalization_gives_the_same_bits(normalization, dtype):
    matrix = np.random.default_rng(30).random((40, 40)).astype(dtype)
    ones, mu = np.ones((40, 1), dtype), np.asarray(2, dtype)
    here = _normalized_in_place(matrix.__matmul__, normalization, mu, ones, None)
    there = normalized(matrix.__matmul__, normalization, mu, ones)
    assert (
        here.lattice is None and np.array_equal(here.before, there.before) and np.array_equal(here.after, there.after)
    )
    assert here.before.dtype == dtype and here.is_symmetric == there.is_symmetric and here.own is None
    assert np.array_equal(ones, np.ones((40, 1)))
    diagonal = np.diagonal(matrix).copy()
    here = _normalized_in_place(matrix.__matmul__, normalization, mu, ones, None, diagonal)
    there = normalized(matrix.__matmul__, normalization, mu, ones, diagonal)
    assert np.array_equal(here.own, there.own) and np.array_equal(here.diagonal, there.diagonal)


def test_the_cache_drops_the_least_recently_used_and_obeys_its_limits(monkeypatch):
    cache, made = pairwise._Cache(), []
    monkeypatch.setattr(pairwise, "_megabytes", lambda term: 40 if term != "large" else 101)

    def get(key: str) -> None:
        if cache.get(key) is None:
            made.append(key)
            cache.put(key, key)  # type: ignore[arg-type]

    monkeypatch.setattr(pairwise, "CACHED_MB", 100)
    for key in ("a", "b", "a", "c", "a", "b"):
        get(key)  # two of them fit
    assert made == ["a", "b", "c", "b"]
    get("large")
    get("large")
    assert made[4:] == ["large", "large"]
    monkeypatch.setenv("DENSEFIELD_CACHE_MB", "39")
    get("a")
    get("a")
    assert made[6:] == ["a", "a"]


def test_a_locked_cache_is_not_waited_for(monkeypatch):
    """A process that forks while the lock is held leaves it locked in the child."""
    cache = pairwise._Cache()
    monkeypatch.setattr(pairwise, "_megabytes", lambda term: 1)
    cache.put("a", "term")  # type: ignore[arg-type]
    with cache._lock:
        assert cache.get("a") is None
        cache.put("b", "term")  # type: ignore[arg-type]
    assert cache.get("a") == "term" and cache.get("b") is None


def test_the_cache_distinguishes_a_width_from_a_covariance():
    scores = np.random.default_rng(77).normal(size=(3, 200)).astype(np.float32)
    width, covariance = Spatial(2, weight=3), Spatial(covariance=[[0.25]], weight=3)
    CRF([width]).marginals(scores)
    found = CRF([covariance]).marginals(scores)
    pairwise._cache.clear()
    assert np.array_equal(found, CRF([covariance]).marginals(scores))


def test_the_size_of_a_cached_term_is_about_what_it_takes():
    for sigma in (0.5, 1, 3):
        term = CRF([Spatial(sigma)]).problem(np.zeros((2, 400, 500), np.float32)).pairwise[0]
        per_pixel = pairwise._megabytes(term) * 1e6 / 200_000
        assert 45 < per_pixel < 210  # measured by resident memory: 54, 133 and 204 at widths of 3, 1 and 0.5
