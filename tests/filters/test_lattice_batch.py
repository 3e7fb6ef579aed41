"""The lattice of a whole batch equals the lattices of its images, one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield.errors import InputError

torch = pytest.importorskip("torch")
from densefield.filters import LatticeFilter, TorchLatticeFilter  # noqa: E402
from densefield.filters.lattice_batch import BatchLattice  # noqa: E402
from densefield.filters.lattice_geometry import (  # noqa: E402
    corner_codes,
    corner_keys,
    distinct_rows,
    find_rows,
    round_to_lattice,
)

ROUNDING = 1e-12  # of sums in float64 in another order; measured: below 1e-14


def cloud(*shape: int, spread: float = 1.5, seed: int = 611) -> Any:
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape) * spread)


def relative(found: Any, expected: Any) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("options", [{}, {"operator": "pydensecrf"}, {"halo": 1}, {"calibrate": False}])
@pytest.mark.parametrize("dimension", [1, 2, 5, 8])
def test_it_equals_the_lattices_of_its_images(dimension: int, options: dict[str, Any]) -> None:
    images, points = 3, 120
    spread = torch.tensor([0.4, 1.0, 2.0]).double()[:, None, None]  # so that magnitudes differ
    features = spread * cloud(images, points, dimension, spread=1.5 if dimension < 6 else 0.5)
    values = cloud(images, points, 4, seed=5)
    lattice = BatchLattice(features, images, **options)
    twins = [TorchLatticeFilter(x, **options) for x in features]
    assert lattice.num_vertices == sum(twin.num_vertices for twin in twins)
    assert relative(lattice.magnitude, torch.tensor([twin.magnitude for twin in twins], dtype=torch.float64)) < ROUNDING
    rows = values.flatten(0, 1)
    for adjoint in (False, True):
        expected = [twin.apply_adjoint(v) if adjoint else twin.apply(v) for twin, v in zip(twins, values, strict=True)]
        assert relative(lattice.apply(rows, adjoint), torch.cat(expected)) < ROUNDING
    diagonal = torch.cat([twin.diagonal() for twin in twins])
    assert relative(lattice.diagonal()[:, 0], diagonal) < ROUNDING


def test_images_do_not_exchange_values() -> None:
    features = cloud(1, 50, 2).expand(2, -1, -1)  # the same points twice
    values = torch.cat([cloud(50, 1).abs(), torch.zeros(50, 1).double()])
    assert not BatchLattice(features, 2).apply(values)[50:].any()


@pytest.mark.parametrize("options", [{}, {"operator": "pydensecrf"}, {"halo": 1}])
def test_features_of_all_images_are_embedded_once_and_repeated(options: dict[str, Any]) -> None:
    features, values = cloud(1, 70, 3), cloud(3 * 70, 2, seed=5)
    once, thrice = BatchLattice(features, 3, **options), BatchLattice(features.repeat(3, 1, 1), 3, **options)
    assert once.num_vertices == thrice.num_vertices
    assert relative(once.apply(values), thrice.apply(values)) < ROUNDING
    assert relative(once.diagonal(), thrice.diagonal()) < ROUNDING


@pytest.mark.parametrize("sigma", [1e-3, 1e-7])  # codes of the second exceed 64 bits
def test_keys_of_any_size_are_told_apart(sigma: float) -> None:
    x = cloud(2, 60, 4, spread=1.0) / sigma
    x[:, 30:] = x[:, :30] + 1e-3  # neighbours, so that there are sums
    values = cloud(120, 2, seed=5)
    lattice = BatchLattice(x, 2, calibrate=False)
    twins = [TorchLatticeFilter(each, calibrate=False) for each in x]
    assert lattice.num_vertices == sum(twin.num_vertices for twin in twins)
    expected = torch.cat([twin.apply(v) for twin, v in zip(twins, values.split(60), strict=True)])
    assert relative(lattice.apply(values), expected) < ROUNDING


def test_codes_of_corners_number_their_keys() -> None:
    cells, rank, _ = round_to_lattice(cloud(200, 4) - cloud(200, 4).mean(1, keepdim=True))
    image = torch.arange(2).repeat_interleave(100)
    codes = corner_codes(cells, rank, image, 2).flatten()
    keys = torch.cat([image[:, None, None].expand(-1, 4, 1), corner_keys(cells, rank)], 2).flatten(0, 1)
    number, distinct = distinct_rows(keys)
    assert len(distinct) == len(keys.unique(dim=0)) == len(codes.unique())
    assert torch.equal(distinct[number], keys)
    same_codes = codes[:, None] == codes
    assert torch.equal(same_codes, number[:, None] == number)


@pytest.mark.parametrize("spread", [3, 2**29])  # codes of the second exceed 64 bits, and are made dense
def test_rows_are_found_at_their_places(spread: int) -> None:
    rows = torch.tensor(np.random.default_rng(8).integers(-spread, spread, (300, 4)))
    rows[:, 3] = -rows[:, :3].sum(1)
    number, distinct = distinct_rows(rows)
    assert torch.equal(find_rows(rows, distinct), number)
    elsewhere = torch.cat([distinct[:2], distinct[2:] + torch.tensor([5 * spread, -5 * spread, 0, 0])])
    assert find_rows(elsewhere, distinct).tolist() == [0, 1, *[len(distinct)] * (len(distinct) - 2)]


@pytest.mark.parametrize("dimension", [2, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("operator", ["symmetric", "pydensecrf"])
def test_the_diagonal_of_many_points_equals_the_native_one(dimension: int, operator: Any) -> None:
    x = cloud(70_000, dimension, spread=4.0).float()  # more than are processed at a time
    native = LatticeFilter(x.numpy(), operator=operator, calibrate=False)
    found = TorchLatticeFilter(x, operator=operator, calibrate=False).diagonal()
    assert relative(found, torch.from_numpy(native.diagonal())) < 1e-6  # float32; measured: 4e-7


@pytest.mark.parametrize("dimension", [1, 2, 3, 5, 9, 16])
@pytest.mark.parametrize("options", [{}, {"operator": "pydensecrf"}, {"halo": 1}])
def test_the_diagonal_is_that_of_the_matrix(dimension: int, options: dict[str, Any]) -> None:
    if dimension > 5 and "halo" in options:
        pytest.skip("a halo of so many dimensions is too large for the dense matrix")
    k = TorchLatticeFilter(cloud(150, dimension, spread=1.5 if dimension < 6 else 0.5), **options)
    assert relative(k.diagonal(), k.to_dense().diagonal()) < ROUNDING


def test_features_that_are_not_finite_raise() -> None:
    features = cloud(2, 9, 2)
    features[1, 3, 0] = torch.nan
    with pytest.raises(InputError, match="NaN or infinity at 1 of 18 points, first at point 12"):
        BatchLattice(features, 2)
