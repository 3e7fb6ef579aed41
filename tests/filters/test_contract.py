"""The contract of all filters; a new filter joins CASES."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from densefield import InputError, InputTypeError, _core
from densefield.filters import ExactFilter, LatticeFilter

SHAPE, SIGMA = (6, 7), 1.7
N = SHAPE[0] * SHAPE[1]
PIXELS = np.stack(np.meshgrid(*map(np.arange, SHAPE), indexing="ij"), axis=-1).reshape(N, 2) / SIGMA


@dataclass
class Case:
    """A filter, its array type, and its rounding error."""

    make: Callable[[np.ndarray], Any]  # features → filter
    array: Callable[[np.ndarray], Any]
    rounding: float  # of one number; sums of tens of numbers have up to ten times as much
    symmetric: bool = True


def torch_case(dtype: str, rounding: float, exact: bool = False, **options: Any) -> Case:
    torch = pytest.importorskip("torch")
    from densefield.filters import TorchLatticeFilter

    def array(x: np.ndarray) -> Any:
        return torch.as_tensor(x).to(getattr(torch, dtype))

    def make(x: np.ndarray) -> Any:
        return ExactFilter(array(x)) if exact else TorchLatticeFilter(array(x), **options)

    return Case(make, array, rounding, symmetric=options.get("operator") != "pydensecrf")


def lattice_case(**options: Any) -> Case:
    return Case(
        lambda x: LatticeFilter(x.astype(np.float32), **options),
        lambda x: x.astype(np.float32),
        6e-8,
        symmetric=options.get("operator") != "pydensecrf",
    )


CASES: dict[str, Callable[[], Case]] = {
    "exact, float64": lambda: Case(ExactFilter, lambda x: x.astype(np.float64), 1.1e-16),
    "exact, float32": lambda: Case(lambda x: ExactFilter(x.astype(np.float32)), lambda x: x.astype(np.float32), 6e-8),
    "exact, torch": lambda: torch_case("float64", 1.1e-16, exact=True),
    "torch lattice, float64": lambda: torch_case("float64", 1.1e-16),
    "torch lattice, float32": lambda: torch_case("float32", 6e-8),
    "torch lattice, halo": lambda: torch_case("float64", 1.1e-16, halo=1),
    "torch lattice, pydensecrf": lambda: torch_case("float64", 1.1e-16, operator="pydensecrf"),
    "lattice": lambda: lattice_case(),
    "lattice, halo": lambda: lattice_case(halo=2),
    "lattice, not calibrated": lambda: lattice_case(calibrate=False),
    "lattice, pydensecrf": lambda: lattice_case(operator="pydensecrf"),
    **{f"lattice, {simd}": lambda simd=simd: lattice_case(simd=simd) for simd in _core.available_simd()},
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


@pytest.fixture
def k(case: Case) -> Any:
    return case.make(PIXELS)


def random(*shape: int, seed: int = 8151) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def difference(a: Any, b: Any) -> float:
    """The largest difference, relative to the largest number."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    assert a.shape == b.shape
    return float(np.abs(a - b).max(initial=0.0) / np.abs(b).max(initial=1e-300))


def test_num_points_is_the_number_of_points(k: Any) -> None:
    assert k.num_points == N


def test_filtering_is_linear(case: Case, k: Any) -> None:
    x, y = random(N, 3), random(N, 3, seed=61)
    together = k.apply(case.array(2.5 * x - 0.75 * y))
    apart = 2.5 * k.apply(case.array(x)) - 0.75 * k.apply(case.array(y))
    assert difference(together, apart) < 30 * case.rounding


def test_the_adjoint_satisfies_its_definition(case: Case, k: Any) -> None:
    x, y = case.array(random(N, 3)), case.array(random(N, 3, seed=61))
    left = float((k.apply(x) * y).sum())
    right = float((x * k.apply_adjoint(y)).sum())
    size = float(np.linalg.norm(np.asarray(k.apply(x))) * np.linalg.norm(np.asarray(y)))
    assert abs(left - right) < 10 * case.rounding * size


def test_the_dense_matrix_equals_the_filter(case: Case, k: Any) -> None:
    x = case.array(random(N, 2))
    assert difference(k.to_dense() @ x, k.apply(x)) < 30 * case.rounding
    assert difference(k.to_dense().T @ x, k.apply_adjoint(x)) < 30 * case.rounding


def test_symmetric_operators_are_symmetric(case: Case, k: Any) -> None:
    dense = np.asarray(k.to_dense(), np.float64)
    asymmetry = np.abs(dense - dense.T).max()
    if case.symmetric:
        assert asymmetry < 10 * case.rounding  # entries are at most about 1, each rounded some ten times
    else:
        assert asymmetry > 1e-4  # otherwise this case would test nothing


def test_symmetric_operators_are_positive_semi_definite(case: Case, k: Any) -> None:
    if not case.symmetric:
        pytest.skip("this operator is not symmetric")
    values = np.linalg.eigvalsh(np.asarray(k.to_dense(), np.float64))
    assert values[0] > -10 * case.rounding * values[-1]


def test_the_diagonal_is_that_of_the_matrix(case: Case, k: Any) -> None:
    assert difference(k.diagonal(), k.to_dense().diagonal()) < 10 * case.rounding


def test_the_filter_approximates_the_gaussian(case: Case, k: Any) -> None:
    exact = ExactFilter(PIXELS).apply(np.ones((N, 1)))
    ratio = np.asarray(k.apply(case.array(np.ones((N, 1)))), np.float64) / exact
    if not case.symmetric:  # pydensecrf's magnitude is too small
        ratio /= ratio.mean()
    assert np.abs(ratio - 1).max() < 0.2  # the worst pixel; test_accuracy.py has more


def test_a_batch_equals_single_calls(case: Case, k: Any) -> None:
    batch = case.array(random(3, N, 5))
    for method in (k.apply, k.apply_adjoint):
        assert difference(method(batch), np.stack([np.asarray(method(item)) for item in batch])) < 2 * case.rounding


def test_channels_do_not_mix(case: Case, k: Any) -> None:
    values = case.array(random(N, 41))
    whole = np.asarray(k.apply(values))
    for channel in (0, 31, 32, 40):
        alone = np.asarray(k.apply(case.array(np.asarray(values)[:, channel : channel + 1])))
        assert difference(whole[:, channel : channel + 1], alone) < 10 * case.rounding


def test_out_is_filled_and_returned(case: Case, k: Any) -> None:
    values = case.array(random(N, 2))
    out = case.array(np.full((N, 2), np.nan))
    assert k.apply(values, out=out) is out
    assert difference(out, k.apply(values)) == 0


def test_empty_batches_and_channels_give_empty_results(case: Case, k: Any) -> None:
    assert tuple(k.apply(case.array(np.zeros((N, 0)))).shape) == (N, 0)
    assert tuple(k.apply(case.array(np.zeros((0, N, 2)))).shape) == (0, N, 2)


@pytest.mark.parametrize("shape", [(N + 1, 2), (N,), (2, N), (1, 1, N, 2), (N, 1, 2)])
def test_values_of_a_wrong_shape_raise(case: Case, k: Any, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=str(N)):
        k.apply(case.array(np.zeros(shape)))


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.complex64])
def test_values_of_a_wrong_dtype_raise(case: Case, k: Any, dtype: type) -> None:
    sample = case.array(np.zeros((N, 1)))
    wrong = np.zeros((N, 1), dtype)
    if not isinstance(sample, np.ndarray):
        wrong = type(sample)(np.zeros((N, 1))).long()
    with pytest.raises(InputTypeError, match=r"dtype|int64"):
        k.apply(wrong)


def test_values_that_are_no_array_raise(k: Any) -> None:
    with pytest.raises(InputTypeError, match="list"):
        k.apply([[0.0]] * N)


def test_an_invalid_out_raises(case: Case, k: Any) -> None:
    with pytest.raises(InputError, match="out"):
        k.apply(case.array(np.zeros((N, 2))), out=case.array(np.zeros((N, 3))))


def test_out_that_overlaps_the_values_raises(case: Case, k: Any) -> None:
    values = case.array(np.zeros((N, 2)))
    with pytest.raises(InputError, match="shares memory"):
        k.apply(values, out=values)


def test_permuting_points_permutes_the_output(case: Case) -> None:
    values, order = random(N, 3), np.random.default_rng(5).permutation(N)
    whole = case.make(PIXELS).apply(case.array(values))
    permuted = case.make(PIXELS[order]).apply(case.array(values[order]))
    assert difference(permuted, np.asarray(whole)[order]) < 30 * case.rounding


def test_a_filter_copies_its_features(case: Case) -> None:
    features = PIXELS.copy()  # an array that a filter could use without a copy
    k, other = case.make(features), case.make(PIXELS)
    values = case.array(random(N, 2))
    features *= 2
    assert difference(k.apply(values), other.apply(values)) == 0
    assert difference(k.gradients(values, values)[1], other.gradients(values, values)[1]) == 0


def test_no_points_give_empty_results(case: Case) -> None:
    k = case.make(np.zeros((0, 3)))
    assert k.num_points == 0
    assert tuple(k.apply(case.array(np.zeros((0, 4)))).shape) == (0, 4)
    assert tuple(k.to_dense().shape) == (0, 0)
    assert tuple(k.diagonal().shape) == (0,)
    for shape in ((0, 4), (2, 0, 4)):
        nothing = case.array(np.zeros(shape))
        assert tuple(k.apply(nothing).shape) == shape
        assert [tuple(part.shape) for part in k.gradients(nothing, nothing)] == [shape, (0, 3)]


@pytest.mark.parametrize("shape", [(0, N, 3), (N, 0)])
def test_gradients_of_empty_values_are_zero(case: Case, shape: tuple[int, ...]) -> None:
    nothing = case.array(np.zeros(shape))
    back, slope = case.make(PIXELS).gradients(nothing, nothing)
    assert tuple(back.shape) == shape
    assert not np.asarray(slope).any()


def test_equal_points_are_summed(case: Case) -> None:
    itself = float(case.make(np.full((1, 2), 3.25)).diagonal()[0])
    for count in (1, 2, 300):
        values = np.arange(count, dtype=float)[:, None] + 1
        result = case.make(np.full((count, 2), 3.25)).apply(case.array(values))
        assert difference(result, np.full((count, 1), itself * values.sum())) < 300 * case.rounding


def test_distant_points_do_not_interact(case: Case) -> None:
    k = case.make(np.array([[0.0, 0.0], [400.0, 0.0], [0.0, -9000.0]]))
    dense = np.asarray(k.to_dense())
    assert np.count_nonzero(dense) == 3
    assert (dense.diagonal() > 0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_features_that_are_not_finite_raise_with_the_point(case: Case, bad: float) -> None:
    features = PIXELS.copy()
    features[17, 1] = bad
    with pytest.raises(InputError, match="point 17"):
        case.make(features)


@pytest.mark.parametrize("shape", [(5,), (5, 0), (5, 17), (1, 5, 2)])
def test_features_of_a_wrong_shape_raise(case: Case, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="features"):
        case.make(np.zeros(shape))


def test_the_gaussian_derivative_equals_its_formula_on_the_dense_matrix(case: Case) -> None:
    k = case.make(PIXELS)
    v, g = random(2, N, 3), random(2, N, 3, seed=9)
    back, slope = k.gradients(case.array(g), case.array(v))
    dense = np.asarray(k.to_dense(), np.float64)
    coupling = np.einsum("bic,bjc->ij", g, v) * dense + np.einsum("bic,bjc->ij", v, g) * dense.T
    expected = coupling @ PIXELS - coupling.sum(axis=1)[:, None] * PIXELS
    # Float32 features are rounded too, and sums of differences cancel.
    assert difference(slope, expected) < 200 * case.rounding
    assert difference(back, k.apply_adjoint(case.array(g))) == 0
