"""The native lattice equals the torch lattice: same vertices and magnitude, results equal up to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield import _core
from densefield.filters import LatticeFilter

torch = pytest.importorskip("torch")
from densefield.filters import TorchLatticeFilter  # noqa: E402
from densefield.filters.calibration import calibration_samples  # noqa: E402

# Float32 values rounded in about 10 (d+1) operations of 6e-8 each; measured: at most 5e-7.
ROUNDING = 2e-6


def cloud(points: int, dimension: int, spread: float = 1.5, seed: int = 40) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((points, dimension)) * spread


def relative(a: Any, b: Any) -> float:
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(np.abs(a - b).max() / np.abs(b).max())


@pytest.mark.parametrize("dimension", range(1, 17))
@pytest.mark.parametrize("operator", ["symmetric", "pydensecrf"])
def test_both_agree_in_every_dimension(dimension: int, operator: Any) -> None:
    # Widths for which points have neighbours in every dimension.
    points = 900 if dimension < 6 else 300  # the reference finds neighbours by sorting, which is slow
    features = cloud(points, dimension, 1.5 if dimension < 6 else 0.5).astype(np.float32)
    values, cotangent = cloud(points, 7, 1, seed=2).astype(np.float32), cloud(points, 7, 1, seed=3).astype(np.float32)
    native, twin = (
        LatticeFilter(features, operator=operator),
        TorchLatticeFilter(torch.tensor(features), operator=operator),
    )
    assert native.num_vertices == twin.num_vertices
    assert native.magnitude == pytest.approx(twin.magnitude, rel=1e-5)  # a sum over vertices in float32
    assert relative(native.apply(values), twin.apply(torch.tensor(values))) < ROUNDING
    assert relative(native.apply_adjoint(values), twin.apply_adjoint(torch.tensor(values))) < ROUNDING
    for derivative in ("gaussian", "lattice"):
        ours = native.gradients(cotangent, values, derivative)
        theirs = twin.gradients(torch.tensor(cotangent), torch.tensor(values), derivative)
        assert relative(ours[0], theirs[0]) < ROUNDING
        assert relative(ours[1], theirs[1]) < 10 * ROUNDING  # differences of sums: some digits cancel


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 8, 13, 21, 32, 33, 64, 67])
@pytest.mark.parametrize("simd", _core.available_simd())
def test_both_agree_for_any_number_of_channels_and_instruction_set(channels: int, simd: str) -> None:
    features, values = cloud(500, 5), cloud(500, channels, 1, seed=channels).astype(np.float32)
    twin = TorchLatticeFilter(torch.tensor(features)).apply(torch.tensor(values).double())
    native = LatticeFilter(features, simd=simd)
    assert relative(native.apply(values), twin) < ROUNDING
    out = np.full((502, channels), 77.0, np.float32)  # with a row before and after, to detect writes out of bounds
    native.apply(values, out=out[1:-1])
    assert relative(out[1:-1], twin) < ROUNDING
    assert (out[[0, -1]] == 77.0).all()
    back, slope = native.gradients(values, values[::-1].copy(), "lattice")
    expected = TorchLatticeFilter(torch.tensor(features)).gradients(
        torch.tensor(values).double(), torch.tensor(values[::-1].copy()).double(), "lattice"
    )
    assert relative(back, expected[0]) < ROUNDING
    assert relative(slope, expected[1]) < ROUNDING


@pytest.mark.parametrize("halo", [1, 2])
@pytest.mark.parametrize("dimension", [1, 2, 3, 5])
def test_both_agree_with_a_halo(dimension: int, halo: int) -> None:
    features, values = cloud(200, dimension), cloud(200, 2, 1).astype(np.float32)
    native, twin = LatticeFilter(features, halo=halo), TorchLatticeFilter(torch.tensor(features), halo=halo)
    assert native.num_vertices == twin.num_vertices > LatticeFilter(features).num_vertices
    assert relative(native.apply(values), twin.apply(torch.tensor(values).double())) < ROUNDING


def test_they_agree_for_points_on_faces_of_simplices() -> None:
    # Integer features and grey colours have ties that rounding could break either way.
    y, x = np.mgrid[:24, :31]
    grey = (x * 7 + y * 3) % 5
    features = np.stack([x / 4, y / 4, grey / 2, grey / 2, grey / 2], axis=-1).reshape(-1, 5)
    values = cloud(len(features), 3, 1).astype(np.float32)
    native, twin = LatticeFilter(features), TorchLatticeFilter(torch.tensor(features))
    assert native.num_vertices == twin.num_vertices
    assert relative(native.apply(values), twin.apply(torch.tensor(values).double())) < ROUNDING


@pytest.mark.parametrize("channels", [3, 21, 37])
def test_both_agree_on_many_chunks_of_points(channels: int) -> None:
    features, values = cloud(30_000, 3, 4), cloud(30_000, channels, 1).astype(np.float32)
    native, twin = LatticeFilter(features), TorchLatticeFilter(torch.tensor(features))
    assert native.num_vertices == twin.num_vertices
    assert relative(native.apply(values), twin.apply(torch.tensor(values).double())) < ROUNDING
    ours = native.gradients(values, values[::-1].copy(), "lattice")
    theirs = twin.gradients(torch.tensor(values).double(), torch.tensor(values[::-1].copy()).double(), "lattice")
    assert relative(ours[0], theirs[0]) < ROUNDING
    assert relative(ours[1], theirs[1]) < ROUNDING


@pytest.mark.parametrize("sigma", [40.0, 3.0, 0.3, 1e-3, 1e-6])
@pytest.mark.parametrize("operator", ["symmetric", "pydensecrf"])
def test_they_agree_on_positions_for_every_kind_of_key_table(sigma: float, operator: Any) -> None:
    # Dense tables, and hash tables for narrow and wide keys, on many chunks of points.
    y, x = np.mgrid[:150, :131]
    features = np.stack([x, y], axis=-1).reshape(-1, 2) / sigma
    if operator == "pydensecrf":
        features = features.astype(np.float32)
        if sigma < 1e-3:
            pytest.skip("single precision cannot embed this")
    values = cloud(len(features), 3, 1).astype(np.float32)
    native = LatticeFilter(features, operator=operator, calibrate=False, threads=2)
    twin = TorchLatticeFilter(torch.tensor(features), operator=operator, calibrate=False)
    assert native.num_vertices == twin.num_vertices
    expected = twin.apply(torch.tensor(values.astype(features.dtype)))
    assert relative(native.apply(values), expected) < ROUNDING


@pytest.mark.parametrize("sigma", [1e-3, 1e-5, 1e-6])
def test_they_agree_on_the_magnitude_for_any_width(sigma: float) -> None:
    y, x = np.mgrid[:30, :40]
    features = np.stack([x, y], axis=-1).reshape(-1, 2) / sigma
    native, twin = LatticeFilter(features), TorchLatticeFilter(torch.tensor(features))
    assert native.magnitude == pytest.approx(twin.magnitude, rel=1e-5)


@pytest.mark.parametrize("points", [10, 512, 513, 50_000])
def test_both_calibrate_on_the_same_points(points: int) -> None:
    for features in (
        cloud(points, 3),
        cloud(points, 3).astype(np.float32),
        np.zeros((points, 2)),
        np.full((points, 1), -0.0),
    ):
        assert _core.calibration_samples(features, 2) == calibration_samples(features).tolist()


def test_the_derivative_of_the_torch_lattice_equals_finite_differences() -> None:
    """Inside a simplex the lattice's function is smooth, and "lattice" is its derivative."""
    features = torch.tensor(cloud(40, 3, 0.8))
    values, cotangent = torch.tensor(cloud(40, 2, 1, seed=7)), torch.tensor(cloud(40, 2, 1, seed=8))

    def loss(x: Any) -> float:
        return float((cotangent * TorchLatticeFilter(x, calibrate=False).apply(values)).sum())

    slope = TorchLatticeFilter(features, calibrate=False).gradients(cotangent, values, "lattice")[1]
    step = 1e-6
    for point in range(40):
        for axis in range(3):
            nudge = torch.zeros_like(features)
            nudge[point, axis] = step
            central = (loss(features + nudge) - loss(features - nudge)) / (2 * step)
            # Central differences lose about 1e-16/1e-6 of numbers of size 10.
            assert central == pytest.approx(float(slope[point, axis]), rel=1e-7, abs=1e-8)
