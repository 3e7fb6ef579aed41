"""Native code visits pixels in another order, which changes results by rounding only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield import CRF, Bilateral, Custom, Spatial, _core, refine
from densefield.crf import problem
from densefield.crf.features import grid_positions
from densefield.crf.native import native_mean_field
from densefield.crf.options import AxisOrder
from densefield.crf.pairwise import PixelGrid, scaled_features
from densefield.filters.pixel_order import PixelOrder, pixel_order
from tests.support.random_terms import Array, bind_random, random

SIZES = [(1, 1), (1, 64), (3, 5), (32, 64), (33, 65), (70, 200), (200, 70), (96, 128), (5, 1000), (1000, 5), (130, 63)]
# Sums of a lattice in another order: 6e-8 in some tens of roundings, times weights of 5. Measured: 9e-7.
ROUNDING = 4e-6


VOLUMES = [(3, 5, 2), (16, 64, 8), (17, 65, 9), (40, 150, 20), (1, 130, 300), (300, 63, 2), (20, 700, 3)]


@pytest.mark.parametrize("size", [*SIZES, *VOLUMES])
def test_an_order_has_every_pixel_once(size: tuple[int, ...]) -> None:
    order, count = PixelOrder(*size), np.prod(size)
    assert order.native.num_pixels == count
    assert np.array_equal(np.sort(order.indices), np.arange(count))
    assert np.array_equal(order.indices[order.inverse], np.arange(count))


@pytest.mark.parametrize("size", [(0, 0), (0, 7), (7, 0), (7, 7, 0), (0, 7, 7), (7, 0, 7)])
def test_an_empty_image_has_an_empty_order(size: tuple[int, ...]) -> None:
    assert len(PixelOrder(*size).indices) == 0


def test_blocks_follow_a_z_order_curve() -> None:
    order = PixelOrder(128, 300).indices
    y, x = np.divmod(order[: 256 * 128], 300)  # the remaining columns come last
    assert (order[256 * 128 :] % 300 >= 256).all()
    blocks = np.stack([y // 32, x // 64], axis=1).reshape(-1, 64 * 32, 2)
    assert (blocks == blocks[:, :1]).all()
    z = [(0, 0), (0, 1), (1, 0), (1, 1)]
    expected = [(2 * v + b, 2 * h + a) for v, h in z for b, a in z]
    assert [tuple(block) for block in blocks[:, 0].tolist()] == expected


def test_blocks_of_a_volume_follow_a_z_order_curve() -> None:
    order = PixelOrder(32, 130, 16).indices
    z, y, x = np.unravel_index(order[: 32 * 128 * 16], (16, 32, 130))
    assert (order[32 * 128 * 16 :] % 130 >= 128).all()
    blocks = np.stack([z // 8, y // 16, x // 64], axis=1).reshape(-1, 64 * 16 * 8, 3)
    assert (blocks == blocks[:, :1]).all()
    assert blocks[:, 0].tolist() == [[k, j, i] for k in (0, 1) for j in (0, 1) for i in (0, 1)]


def test_consecutive_pixels_are_closer_than_in_rows() -> None:
    order = PixelOrder(256, 512)
    for first in range(0, 256 * 512, 8192):
        y, x = np.divmod(order.indices[first : first + 8192], 512)
        assert np.ptp(x) + np.ptp(y) < 256  # 16 rows: 512 + 16


def test_small_images_narrow_volumes_and_points_have_no_order() -> None:
    shapes = [(), (10**6,), (64, 64), (63, 10**5), (10**5, 63), (8, 40, 50), (100, 100, 63), (8, 8, 64, 64)]
    assert all(pixel_order(shape) is None for shape in shapes)
    assert pixel_order((128, 128)) is pixel_order((128, 128)) is not None
    assert pixel_order((4, 64, 64)) is pixel_order((4, 64, 64)) is not None
    assert pixel_order((1 << 16, 1 << 15)) is None  # too many pixels for 32-bit indices


def test_the_order_of_a_large_image_is_not_cached() -> None:
    first, second = pixel_order((1024, 2048)), pixel_order((1024, 2048))
    assert first is not None and second is not None and first is not second


@pytest.mark.parametrize(
    "size", [(-1, 3), (3, -1), (3, 3, -1), (1 << 16, 1 << 16), (1 << 62, 4), (1 << 12, 1 << 12, 1 << 8)]
)
def test_a_size_out_of_range_raises(size: Any) -> None:
    with pytest.raises(ValueError, match="height, width and depth must be"):
        _core.PixelOrder(*size)


@pytest.mark.parametrize("size", [(1.5, 2), (None, 3)])
def test_a_size_that_is_not_an_integer_raises(size: Any) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _core.PixelOrder(*size)


@pytest.mark.parametrize("kinds", [["potts"], ["potts", "per label"], ["matrix"]])
@pytest.mark.parametrize("labels", [1, 2, 3, 5, 21, 33, 70])
@pytest.mark.parametrize(("height", "width"), [(3, 5), (33, 65), (70, 200)])
def test_inference_in_pixel_order_equals_inference_on_reordered_scores(
    height: int, width: int, labels: int, kinds: list[str]
) -> None:
    order, points = PixelOrder(height, width), height * width
    bounds = bind_random(points, labels, kinds=kinds)
    scores, start = random(labels, points, seed=41), np.abs(random(labels, points, seed=42))
    start /= start.sum(axis=0)

    def results(f: Array, begin: Array | None, **options: Any) -> list[Array]:
        out = [np.full_like(f, np.nan) for _ in range(2)] + [np.zeros(4, np.float32)]
        q, log_q, residuals = out
        native_mean_field(
            bounds, f, 4, 2, marginals=q, log_marginals=log_q, residuals=residuals, start=begin, **options
        )
        alone = np.full_like(f, np.nan)
        native_mean_field(bounds, f, 4, 2, marginals=alone, start=begin, **options)
        return [*out, alone]

    for begin in (None, start):
        for tolerance in (None, 1e-9):
            along = None if begin is None else np.ascontiguousarray(begin[:, order.indices])
            expected = results(np.ascontiguousarray(scores[:, order.indices]), along, tolerance=tolerance)
            found = results(scores, begin, tolerance=tolerance, order=order)
            for here, there in zip(found, expected, strict=True):
                assert np.array_equal(here if here.ndim == 1 else here[:, order.indices], there)


def test_an_order_of_another_number_of_points_is_an_error() -> None:
    scores = random(2, 30, seed=1)
    with pytest.raises(ValueError, match="another number of points"):
        native_mean_field(bind_random(30, 2), scores, 1, 1, marginals=np.empty_like(scores), order=PixelOrder(5, 7))


def test_an_order_of_other_features_is_an_error() -> None:
    with pytest.raises(ValueError, match="another number of points"):
        _core.fill_features(np.zeros((6, 1)), [1.0], np.zeros((6, 1), np.float32), 0, _core.PixelOrder(1, 5), 1)


HEIGHT, WIDTH, LABELS = 130, 150, 3
IMAGE = np.random.default_rng(5).integers(0, 256, (HEIGHT // 10, WIDTH // 10, 3), np.uint8).repeat(10, 0).repeat(10, 1)
SCORES = random(LABELS, HEIGHT, WIDTH, seed=77)
MATRIX = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.0], [0.5, 0.0, 2.0]])
DEPTH = {"depth": np.random.default_rng(6).random((HEIGHT, WIDTH, 1))}
MODELS: dict[str, tuple[list[Any], dict[str, Any], dict[str, Any]]] = {
    "photo": ([Spatial(3, weight=3), Bilateral(60, 10, weight=5)], {}, {}),
    "labels": ([Spatial(3, weight=[1, 2, 3]), Bilateral(60, 10, weight=MATRIX)], {}, {}),
    "covariance": ([Spatial(covariance=[[9.0, 2.0], [2.0, 5.0]], weight=3)], {}, {}),
    "features": ([Custom("depth", sigma=0.1, weight=4)], {}, {"features": DEPTH}),
    "without self": ([Spatial(3, weight=3)], {"exclude_self": True}, {}),
    "ignored": ([Spatial(3), Bilateral(60, 10, weight=5)], {}, {"ignore": SCORES[0] > 1}),
    "energies": ([Spatial(3, weight=2)], {}, {"energies": True, "damping": 0.2}),
    "convergent": ([Spatial(3, weight=2)], {}, {"convergent": True}),
    "tolerance": ([Spatial(3, weight=2)], {}, {"tolerance": 1e-3}),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_a_model_gives_the_same_with_and_without_pixel_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, settings, options = MODELS[name]
    ordered = CRF(kernels, iterations=3, **settings).solve(SCORES, IMAGE, **options)
    alone = CRF(kernels, iterations=3, **settings).marginals(SCORES, IMAGE, **options)
    assert CRF(kernels, **settings).problem(SCORES, IMAGE, features=options.get("features")).order is not None
    monkeypatch.setattr(problem, "pixel_order", lambda shape: None)
    crf = CRF(kernels, iterations=3, **settings)
    plain = crf.solve(SCORES, IMAGE, **options)
    assert ordered.iterations == plain.iterations and ordered.residuals == pytest.approx(plain.residuals, abs=ROUNDING)
    assert np.abs(ordered.marginals - plain.marginals).max() <= ROUNDING
    assert np.abs(ordered.log_marginals - plain.log_marginals).max() <= ROUNDING * np.abs(plain.log_marginals).max()
    assert np.array_equal(alone, ordered.marginals.astype(np.float32))
    if plain.energies is not None:
        assert ordered.energies == pytest.approx(plain.energies, rel=1e-8)


def test_a_volume_gives_the_same_with_and_without_pixel_order(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (9, 40, 80)
    volume = np.random.default_rng(17).integers(0, 256, (3, 10, 20), np.uint8).repeat(3, 0).repeat(4, 1).repeat(4, 2)
    scores, crf = random(3, *shape, seed=78), CRF([Spatial(3, weight=2), Bilateral(5, 20, weight=3)], iterations=3)
    ordered, spaced = crf.solve(scores, volume), crf.solve(scores, volume, spacing=(1.0, 1.5, 2.0))
    assert crf.problem(scores, volume).order is not None
    monkeypatch.setattr(problem, "pixel_order", lambda shape: None)
    assert np.abs(ordered.marginals - crf.solve(scores, volume).marginals).max() <= ROUNDING
    plain = crf.solve(scores, volume, spacing=(1.0, 1.5, 2.0))
    assert np.abs(spaced.marginals - plain.marginals).max() <= ROUNDING


@pytest.mark.parametrize("shape", [(HEIGHT, WIDTH), (9, 40, 80), (500,), (1, 1)])
@pytest.mark.parametrize(("spacing", "axis_order"), [(None, "xy"), (None, "yx"), ((0.7, 1.3, 2.9), "xy")])
def test_features_are_positions_and_channels_over_widths_in_pixel_order(
    shape: tuple[int, ...], spacing: tuple[float, ...] | None, axis_order: AxisOrder
) -> None:
    axes, count = len(shape), int(np.prod(shape))
    steps = None if spacing is None else spacing[:axes]
    channels = np.random.default_rng(9).integers(0, 256, (count, 3), np.uint8)
    grid = PixelGrid(shape, steps, axis_order, pixel_order(shape))
    widths = np.array([*(60.0, 50, 40)[:axes], 10, 11, 12])
    found = grid.features(["position", "channel"], {"channel": channels}, widths, np.float32, 2)
    columns = np.concatenate([grid_positions(shape, steps, axis_order), channels], axis=1).astype(np.float32)
    assert found.dtype == np.float32
    assert np.array_equal(found, grid._ordered(columns / widths.astype(np.float32)))


def test_whitened_features_are_in_pixel_order() -> None:
    positions, order = grid_positions((HEIGHT, WIDTH)), PixelOrder(HEIGHT, WIDTH)
    whitening = Spatial(covariance=[[9.0, 2.0], [2.0, 5.0]]).shape({"position": 2})
    plain = scaled_features([positions], whitening, np.float32)
    assert np.array_equal(scaled_features([positions], whitening, np.float32, order), plain[order.indices])


def test_labels_keep_their_positions() -> None:
    """A wrong order would scatter a mask of one corner."""
    mask = np.zeros((HEIGHT, WIDTH), int)
    mask[:40, 110:] = 1
    image = np.where(mask[..., None] == 1, 250, 5).astype(np.uint8).repeat(3, axis=2)
    assert np.array_equal(refine(image, labels=mask).argmax(0), mask)
