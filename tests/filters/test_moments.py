"""Second moments, the derivative with respect to kernel shapes: native compared with torch and the exact sum."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from densefield.filters import ExactFilter, LatticeFilter

torch = pytest.importorskip("torch")
from densefield.errors import InputError, InputTypeError  # noqa: E402
from densefield.filters import TorchLatticeFilter, apply_filter  # noqa: E402
from densefield.filters.lattice_geometry import elevate, vertex_features  # noqa: E402
from tests.support.misuse import WRONG_TYPE  # noqa: E402


def random(*shape: int, seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def exact_moments(x: Any, g: Any, v: Any) -> Any:
    """Σ_ij k(i,j) (g_i·v_j) (x_i - x_j)(x_i - x_j)ᵀ by its definition, (d, d)."""
    apart = x[:, None] - x[None]
    pairs = (g @ v.T) * np.exp(-0.5 * (apart**2).sum(-1))
    return np.einsum("ij,ije,ijf->ef", pairs, apart, apart)


@pytest.mark.parametrize("dimension", [1, 2, 3, 5, 9, 16])
def test_vertex_features_is_the_inverse_of_elevate(dimension: int) -> None:
    x, scale = torch.tensor(random(40, dimension, seed=1)), torch.tensor(random(dimension, seed=2)).abs() + 0.1
    assert torch.allclose(vertex_features(elevate(x, scale), scale), x, rtol=0, atol=1e-12)


def test_vertex_moments_equal_their_definition() -> None:
    k = TorchLatticeFilter(torch.tensor(1.5 * random(60, 2, seed=3)))
    g, v = torch.tensor(random(60, 3, seed=4)), torch.tensor(random(60, 3, seed=5))
    vertices = k.num_vertices
    blur = k._blur(torch.eye(vertices + 1, dtype=torch.float64))[:vertices, :vertices]
    a, b, p = k._splat(g)[:-1], k._splat(v)[:-1], k._centred
    apart = p[:, None] - p[None]
    pairs = k.magnitude * blur * (a @ b.T)
    moments = k._vertex_moments(g, v)
    assert torch.allclose(moments, torch.einsum("ij,ije,ijf->ef", pairs, apart, apart), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("dimension", "points"), [(1, 300), (2, 9000), (3, 300), (5, 300), (8, 300), (16, 300)])
@pytest.mark.parametrize("options", [{}, {"operator": "pydensecrf"}, {"halo": 1}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_native_moments_equal_those_in_torch(dimension: int, points: int, options: dict[str, Any], dtype: Any) -> None:
    if dimension == 16 and "halo" in options:
        pytest.skip("a halo in 16 dimensions is too large for the twin")
    x = 7 + (1.5 if dimension < 6 else 0.5) * random(points, dimension, seed=6).astype(np.float32)
    g, v, more = random(3, points, 1, seed=7).astype(np.float32)
    present = (np.arange(points)[:, None] % 3 > 0).astype(np.float32)
    native, twin = LatticeFilter(x.astype(dtype), **options), TorchLatticeFilter(torch.tensor(x).double(), **options)

    def difference(here: Any, added: Any) -> float:
        """The relative difference of all moments of `here`, and of (added, here) if given."""
        g_here, v_here, one = (torch.tensor(each).double() for each in (here * g, here * v, here))
        vertices = twin._vertex_moments(g_here, v_here).numpy()
        sums = here * g * native.apply(here * v)
        truth = twin.second_moments(g_here, v_here, one).numpy()
        if added is not None:
            truth = truth + twin.second_moments(torch.tensor(here * added).double(), one, one).numpy()
            added = (here * added)[:, 0]
        found = native.point_moments(vertices, sums[:, 0], added, None if here.all() else here[:, 0])
        size = twin.second_moments(abs(g_here), abs(v_here), one).abs().max()
        return float(np.abs(found - truth).max() / size)

    everyone = np.ones_like(present)
    for here in (everyone, present):
        for added in (None, more):
            assert difference(here, added) < 1e-6  # float32 sums with cancellation; measured: at most 2.3e-7


@pytest.mark.parametrize("options", [{}, {"operator": "pydensecrf"}])
def test_moments_with_ones_are_exact_point_moments(options: dict[str, Any]) -> None:
    x, g = torch.tensor(2 * random(80, 3, seed=10)), torch.tensor(random(80, 1, seed=11))
    k = TorchLatticeFilter(x, **options)
    apart = x[:, None] - x[None]
    expected = torch.einsum("ij,i,ije,ijf->ef", k.to_dense(), g[:, 0], apart, apart)
    assert torch.allclose(k.second_moments(g, torch.ones_like(g)), expected, rtol=1e-10, atol=1e-10)


def test_moments_do_not_depend_on_the_number_of_threads() -> None:
    x = 6 * random(100_000, 3, seed=8).astype(np.float32)
    sums, more = random(2, 100_000, seed=9).astype(np.float32)
    first, *others = (
        LatticeFilter(x, threads=threads, calibrate=False).point_moments(np.eye(3), sums, more)
        for threads in (1, 2, 3, 7)
    )
    assert all(np.array_equal(moments, first) for moments in others)


def photo_like(rows: int, columns: int) -> tuple[Any, Any, Any]:
    """Positions and colours of something like a photo over their widths; noisy labels, and those without noise but a
    few columns aside."""
    rng = np.random.default_rng(21)
    y, x = np.mgrid[:rows, :columns]
    side = x + 0.4 * y > 0.6 * columns
    colour = np.stack([40 + 150 * side, 90 + 2 * x, 60 + 3 * y], -1) + 6 * rng.standard_normal((rows, columns, 3))
    features = np.concatenate([np.stack([x, y], -1) / 10.0, colour / 25.0], -1).reshape(-1, 5)
    v = np.stack([side, ~side], -1) + 0.3 * rng.standard_normal((rows, columns, 2))
    g = np.stack([side, ~side], -1).astype(np.float64)
    g = np.roll(g, 4, axis=1).reshape(-1, 2)
    return features, g, v.reshape(-1, 2)


def test_the_derivative_of_a_normalised_kernel_by_widths_is_close_to_the_exact_one() -> None:
    x, g, v = photo_like(36, 48)
    x = np.ascontiguousarray(x[:, :2])

    def derivative(k: Any, moments: Any) -> Any:
        """The gradient of ⟨g, D^-½ K D^-½ v⟩ with respect to the logarithms of the widths."""
        one = np.ones((len(x), 1))
        root = k(one) ** -0.5
        a, b = g * root, v * root
        to_total = -(root**2) / 2 * ((a * k(b)).sum(1, keepdims=True) + (b * k(a)).sum(1, keepdims=True))
        return np.diagonal(moments(a, b) + moments(to_total, one))

    exact = derivative(ExactFilter(x).apply, lambda a, b: exact_moments(x, a, b))
    lattice = TorchLatticeFilter(torch.tensor(x))
    found = derivative(
        lambda values: lattice.apply(torch.tensor(values)).numpy(),
        lambda a, b: lattice.second_moments(torch.tensor(a), torch.tensor(b)).numpy(),
    )
    assert found @ exact / np.linalg.norm(found) / np.linalg.norm(exact) > 0.999  # measured: 0.9996
    assert np.linalg.norm(found) / np.linalg.norm(exact) == pytest.approx(1, abs=0.12)  # measured: 1.07


def test_the_derivative_of_a_kernel_without_normalization_is_close_to_the_exact_one() -> None:
    x, g, v = photo_like(36, 48)
    exact = np.diagonal(exact_moments(x, g, v))
    found = np.diagonal(TorchLatticeFilter(torch.tensor(x)).second_moments(torch.tensor(g), torch.tensor(v)).numpy())
    assert found @ exact / np.linalg.norm(found) / np.linalg.norm(exact) > 0.999  # measured: 0.99998
    assert np.linalg.norm(found) / np.linalg.norm(exact) == pytest.approx(1, abs=0.05)  # measured: 0.98


@pytest.mark.parametrize("offset", [0, 1000])
def test_single_precision_is_enough_for_an_image(offset: float) -> None:
    positions = np.stack(np.mgrid[:120, :160], -1).reshape(-1, 2) / 3 + offset
    g, v = random(2, 19200, 2, seed=13)

    def moments(dtype: Any) -> Any:
        """A normalised kernel, for which two large sums nearly cancel."""
        k = TorchLatticeFilter(torch.tensor(positions, dtype=dtype), calibrate=False)
        one = torch.ones(19200, 1, dtype=dtype)
        root = k.apply(one) ** -0.5
        a, b = (torch.tensor(each, dtype=dtype) * root for each in (g, v))
        to_total = -(root**2) / 2 * (a * k.apply(b) + b * k.apply(a)).sum(1, keepdim=True)
        return (k.second_moments(a, b) + k.second_moments(to_total, one)).double()

    found, truth = moments(torch.float32), moments(torch.float64)
    # Features are up to 30 widths from the mean; rounding errors are 6e-8 times the square. Measured: 1.2e-4.
    assert float((found - truth).abs().max() / truth.abs().max()) < 1e-3


def test_the_gradient_by_stretch_is_minus_the_moments() -> None:
    k = TorchLatticeFilter(torch.tensor(random(30, 2, seed=10)))
    g, v = torch.tensor(random(30, 3, seed=11)), torch.tensor(random(30, 3, seed=12))
    stretch = torch.eye(2, dtype=torch.float64, requires_grad=True)
    apply_filter(k, v, stretch=stretch).backward(g)
    assert stretch.grad is not None and torch.equal(stretch.grad, -k.second_moments(g, v))


def test_wrong_shapes_raise() -> None:
    k, v = TorchLatticeFilter(torch.zeros(3, 2)), torch.zeros(3, 1)
    with pytest.raises(InputError, match=r"stretch has shape \(3, 3\), expected \(2, 2\)"):
        apply_filter(k, v, stretch=torch.eye(3))
    with pytest.raises(InputError, match="shape"):
        k.second_moments(v, torch.zeros(3, 2))


def test_an_invalid_present_raises() -> None:
    k, v = TorchLatticeFilter(torch.zeros(5, 2)), torch.zeros(5, 1)
    with pytest.raises(InputError, match="no stretch"):
        apply_filter(k, v, present=torch.ones(5, 1))
    with pytest.raises(InputError, match=r"present has shape \(5,\), expected \(5, 1\)"):
        apply_filter(k, v, stretch=torch.eye(2), present=torch.ones(5))


def test_stretch_of_other_filters_raises() -> None:
    with pytest.raises(InputTypeError, match="stretch needs a TorchLatticeFilter"):
        apply_filter(ExactFilter(torch.zeros(3, 2)), torch.zeros(3, 1), stretch=torch.eye(2))


def test_moments_of_no_points_are_zero() -> None:
    k = LatticeFilter(np.empty((0, 2), np.float32))
    assert np.array_equal(k.point_moments(np.zeros((2, 2)), np.empty(0, np.float32)), np.zeros((2, 2)))
    empty = torch.empty(0, 1, dtype=torch.float64)
    twin = TorchLatticeFilter(torch.empty(0, 2, dtype=torch.float64))
    assert torch.equal(twin.second_moments(empty, empty), torch.zeros(2, 2, dtype=torch.float64))


OTHER_SIZES = np.zeros(4, np.float32), np.zeros(6, np.float32)
OTHER_TYPES = np.zeros((5, 1), np.float32), np.zeros(5, np.complex64)


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        *product(("row_sums", "extra", "present"), OTHER_SIZES, [ValueError], ["another number of points"]),
        *((*row, *WRONG_TYPE) for row in product(("row_sums", "extra", "present"), OTHER_TYPES)),
        ("moments", np.zeros((2, 3)), ValueError, "moments must be"),
        ("moments", np.zeros((2, 2), np.float32), *WRONG_TYPE),
        ("moments", np.zeros(4), *WRONG_TYPE),
        ("threads", 0, ValueError, "threads must be"),
        ("row_sums", None, *WRONG_TYPE),
    ],
)
def test_point_moments_with_invalid_arguments_raises(
    name: str, value: Any, error: type[Exception], message: str
) -> None:
    lattice, numbers = LatticeFilter(np.zeros((5, 2), np.float32)).native, np.zeros(5, np.float32)
    fitting: dict[str, Any] = {
        "row_sums": numbers,
        "extra": numbers,
        "present": numbers,
        "moments": np.zeros((2, 2)),
        "factor": 1.0,
        "magnitude": 1.0,
        "threads": 1,
    }
    lattice.point_moments(**fitting)
    with pytest.raises(error, match=message):
        lattice.point_moments(**{**fitting, name: value})
