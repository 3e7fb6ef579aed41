"""Accuracy of the lattice compared with the exact sum, on photos and random points; see docs/accuracy.md."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from densefield.filters import ExactFilter, LatticeFilter

skimage_data = pytest.importorskip("skimage.data")
transform = pytest.importorskip("skimage.transform")

HEIGHT, WIDTH = 60, 80


def photo_features(name: str, dimension: int, sigma_xy: float, sigma_rgb: float) -> np.ndarray:
    """Grey; (x, y); with grey; with red and blue; with all colours; with the colours' product too: (N, d)."""
    image = transform.resize(getattr(skimage_data, name)(), (HEIGHT, WIDTH), anti_aliasing=True) * 255
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    position, colour = np.stack([x, y], axis=-1) / sigma_xy, image / sigma_rgb
    grey = colour.mean(axis=-1, keepdims=True)
    product = colour.prod(axis=-1, keepdims=True) ** (1 / 3)
    parts = [[grey], [position], [position, grey], [position, colour[..., ::2]], [position, colour]]
    parts.append([position, colour, product])
    return np.concatenate(parts[dimension - 1], axis=-1).reshape(-1, dimension)


def cloud(dimension: int, spread: float) -> np.ndarray:
    return np.random.default_rng(dimension).random((4000, dimension)) * spread


CASES = {
    "narrow photo": lambda d: photo_features("coffee", d, 6, 8),
    "medium photo": lambda d: photo_features("astronaut", d, 20, 13),
    "wide photo": lambda d: photo_features("chelsea", d, 40, 30),
    "dense cloud": lambda d: cloud(d, 3.0),
    "sparse cloud": lambda d: cloud(d, 8.0),
}


@pytest.mark.parametrize("dimension", range(1, 7))
@pytest.mark.parametrize("case", CASES)
def test_the_raw_sum_of_ones_is_right_on_average(case: str, dimension: int) -> None:
    features = CASES[case](dimension)
    ones = np.ones((len(features), 1), np.float32)
    for halo in (0, 1):
        ratio = LatticeFilter(features, halo=halo).apply(ones) / ExactFilter(features).apply(ones.astype(np.float64))
        assert ratio.mean() == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("widths", [(6, 8), (20, 13), (40, 30)])
@pytest.mark.parametrize("name", ["astronaut", "chelsea", "coffee"])
def test_the_normalised_filter_is_accurate_and_a_halo_improves_it(name: str, widths: tuple[float, float]) -> None:
    features = photo_features(name, 5, *widths)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    disc = ((x - WIDTH / 2) ** 2 + (y - HEIGHT / 2) ** 2 < (HEIGHT / 3) ** 2).reshape(-1, 1)
    values = np.concatenate([disc, np.ones_like(disc)], axis=1).astype(np.float32)
    exact = ExactFilter(features).apply(values.astype(np.float64))
    errors = []
    for halo in (0, 1):
        found = LatticeFilter(features, halo=halo).apply(values)
        errors.append(np.abs(found[:, 0] / found[:, 1] - exact[:, 0] / exact[:, 1]))
    assert errors[0].mean() < 0.03  # measured: 0.006 to 0.021
    assert errors[1].max() < errors[0].max()  # measured: 0.3 to 0.96 of it


def test_the_symmetric_operator_is_positive_semi_definite_with_missing_vertices() -> None:
    """Sparse points in many dimensions: nearly all vertices lack neighbours."""
    for dimension in (2, 3, 5, 8):
        features = np.random.default_rng(dimension).standard_normal((300, dimension)) * 1.2
        dense = LatticeFilter(features).to_dense().astype(np.float64)
        values = np.linalg.eigvalsh(dense)
        assert np.abs(dense - dense.T).max() < 1e-6  # float32
        assert values[0] > -1e-6 * values[-1]
        other = LatticeFilter(features, operator="pydensecrf").to_dense().astype(np.float64)
        assert np.abs(other - other.T).max() > 1e-3  # for comparison


def test_photos_of_pascal_voc_are_filtered_as_accurately(shared: Path) -> None:
    """Real JPEG images: compressed, saturated, with black borders."""
    image_module = pytest.importorskip("PIL.Image")
    files = sorted((shared / "data/VOCdevkit/VOC2012/JPEGImages").glob("*.jpg"))[::150]
    assert len(files) > 5
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    position = np.stack([x, y], axis=-1)
    for path in files:
        image = np.asarray(image_module.open(path).convert("RGB").resize((WIDTH, HEIGHT)), np.float64)
        features = np.concatenate([position / 15, image / 13], axis=-1).reshape(-1, 5)
        values = np.concatenate([image.reshape(-1, 3), np.ones((len(features), 1))], axis=1)
        exact = ExactFilter(features).apply(values)
        found = LatticeFilter(features).apply(values.astype(np.float32))
        colour = np.abs(found[:, :3] / found[:, 3:] - exact[:, :3] / exact[:, 3:])
        assert (found[:, 3] / exact[:, 3]).mean() == pytest.approx(1, abs=0.03)
        assert colour.mean() < 3  # of 255 levels; the kernel itself is 13 wide
