"""The diagonal of the native lattice, against the matrix itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield.filters import LatticeFilter


def points(count: int, dimension: int, spread: float, seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32) * np.float32(spread)


@pytest.mark.parametrize("operator", ["symmetric", "pydensecrf"])
@pytest.mark.parametrize("halo", [0, 1])
@pytest.mark.parametrize("spread", [0.05, 0.5, 1.5, 30.0])
@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 5, 6, 7])
def test_the_diagonal_is_that_of_the_matrix_in_any_dimension(
    dimension: int, spread: float, halo: int, operator: Any
) -> None:
    if halo and dimension > 5:
        pytest.skip("a halo in so many dimensions takes minutes")
    k = LatticeFilter(points(400, dimension, spread, seed=7301), operator=operator, halo=halo, calibrate=False)
    dense = np.diagonal(k.to_dense())
    # Sums of up to 729 products in float32, in another order. Measured: 5e-7.
    assert np.abs(k.diagonal() / dense - 1).max() <= 2e-6


@pytest.mark.parametrize("operator", ["symmetric", "pydensecrf"])
def test_points_of_an_image_share_simplices_and_edges(operator: Any) -> None:
    rng = np.random.default_rng(7302)
    y, x = np.mgrid[:40, :50]
    colours = np.kron(rng.random((8, 10, 3)), np.ones((5, 5, 1))) * 255 + 4 * rng.standard_normal((40, 50, 3))
    features = np.concatenate([np.stack([x, y], -1) / 30, colours / 20], -1).reshape(-1, 5)
    k = LatticeFilter(features, operator=operator, calibrate=False)
    assert np.abs(k.diagonal() / np.diagonal(k.to_dense()) - 1).max() <= 2e-6


def test_the_diagonal_does_not_depend_on_the_number_of_threads() -> None:
    features = points(20_000, 5, 0.8, seed=7303)
    one, many = (LatticeFilter(features, threads=threads, calibrate=False).diagonal() for threads in (1, 4))
    assert np.array_equal(one, many)
