"""PixelFeatures gives the same features and lattices as an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from densefield import _core
from densefield.errors import InputError
from densefield.filters import LatticeFilter
from densefield.filters.pixel_order import PixelFeatures, PixelOrder
from tests.support.misuse import WRONG_TYPE

Bytes = npt.NDArray[np.uint8]


def pixels_of(points: int, channels: int) -> Bytes:
    return np.random.default_rng(points + channels).integers(0, 256, (points, channels), np.uint8)


def written(
    pixels: Bytes, width: int, positions: Any, channels: Any, order: PixelOrder | None
) -> npt.NDArray[np.float32]:
    y, x = np.divmod(np.arange(len(pixels)), width)
    parts = [x.astype("f4") / np.float32(positions[0]), y.astype("f4") / np.float32(positions[1])]
    parts += [pixels[:, c].astype("f4") / np.float32(channels[c]) for c in range(pixels.shape[1])]
    features = np.stack(parts, axis=1)
    return features if order is None else features[order.indices]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("channels", [0, 1, 3, 4])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 5), (64, 64), (70, 130), (130, 70), (200, 64)])
def test_features_are_positions_and_channels_over_widths(height: int, width: int, channels: int, ordered: bool) -> None:
    order = PixelOrder(height, width) if ordered else None
    pixels, widths = pixels_of(height * width, channels), (7.0, 11.0, 13.0, 0.3)[:channels]
    features = PixelFeatures(pixels, width, (3.0, 5.0), widths, order)
    assert features.shape == (height * width, 2 + channels)
    expected = written(pixels, width, (3.0, 5.0), widths, order)
    assert np.array_equal(features.array(), expected)
    assert np.array_equal(LatticeFilter(features).features, expected)


@pytest.mark.parametrize("operator", ["symmetric", "pydensecrf"])
@pytest.mark.parametrize("ordered", [False, True])
def test_the_lattice_equals_that_of_the_array(ordered: bool, operator: Any) -> None:
    height, width = 90, 140
    order = PixelOrder(height, width) if ordered else None
    features = PixelFeatures(pixels_of(height * width, 3), width, (20.0, 20.0), (40.0, 40.0, 40.0), order)
    values = np.random.default_rng(1).random((height * width, 3), np.float32)
    described, array = (LatticeFilter(each, operator=operator, threads=2) for each in (features, features.array()))
    assert described.num_vertices == array.num_vertices
    assert np.array_equal(described.apply(values), array.apply(values))


def test_an_image_without_pixels_has_a_lattice_too() -> None:
    assert LatticeFilter(PixelFeatures(pixels_of(0, 3), 0, (1.0, 1.0), (1.0, 1.0, 1.0))).num_points == 0


def test_widths_that_are_too_small_raise() -> None:
    with pytest.raises(InputError, match="Use larger widths"):
        LatticeFilter(PixelFeatures(pixels_of(6, 3), 3, (1.0, 1.0), (1e-30, 1.0, 1.0)))
    with pytest.raises(InputError, match="infinity"):
        LatticeFilter(PixelFeatures(pixels_of(6, 3), 3, (1.0, 1.0), (0.0, 1.0, 1.0)))


def test_too_many_channels_raise() -> None:
    with pytest.raises(ValueError, match="dimension"):
        LatticeFilter(PixelFeatures(pixels_of(6, 15), 3, (1.0, 1.0), (1.0,) * 15))


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"pixels": None}, *WRONG_TYPE),
        ({"pixels": pixels_of(6, 3)[:, 0]}, *WRONG_TYPE),
        ({"pixels": pixels_of(6, 2)}, ValueError, "one width per channel"),
        ({"width": 0}, ValueError, "width must be 1 to the number of points"),
        ({"width": -1}, ValueError, "width must be 1 to the number of points"),
        ({"width": 7}, ValueError, "width must be 1 to the number of points"),
        ({"position_widths": [1.0]}, ValueError, "one width for x, one for y"),
        ({"position_widths": [1.0, 1.0, 1.0]}, ValueError, "one width for x, one for y"),
        ({"channel_widths": [1.0, 1.0]}, ValueError, "one width per channel"),
        ({"channel_widths": None}, *WRONG_TYPE),
        ({"order": _core.PixelOrder(3, 2)}, ValueError, "the pixel order is of another image"),
        ({"order": _core.PixelOrder(2, 4)}, ValueError, "the pixel order is of another image"),
        ({"order": 3}, RuntimeError, "std::bad_cast"),
    ],
)
def test_invalid_pixel_features_raise(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    given: dict[str, Any] = {"pixels": pixels_of(6, 3), "width": 3, "position_widths": [1.0, 1.0]}
    given |= {"channel_widths": [1.0, 1.0, 1.0], "order": _core.PixelOrder(2, 3)}
    _core.PixelFeatures(**given)
    with pytest.raises(error, match=message):
        _core.PixelFeatures(**{**given, **changes})


@pytest.mark.parametrize(
    "shape, error, message",
    [((6, 4), ValueError, "out must be"), ((5, 5), ValueError, "out must be"), ((30,), *WRONG_TYPE)],
)
def test_an_array_of_another_shape_is_not_filled(shape: tuple[int, ...], error: type[Exception], message: str) -> None:
    features = PixelFeatures(pixels_of(6, 3), 3, (1.0, 1.0), (1.0, 1.0, 1.0))
    with pytest.raises(error, match=message):
        features.native.fill(np.empty(shape, np.float32))
