"""Features of pixels: positions, channels, custom features."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import Bilateral, Custom, InputError, InputTypeError, Spatial
from densefield.crf.features import MOST_CHANNELS, checked_spacing, grid_positions, image_channels, pixel_features


def test_positions_are_x_then_y_then_z_in_the_order_of_the_pixels():
    positions = grid_positions((2, 3, 4))
    assert positions.shape == (24, 3)
    for z, y, x in [(0, 0, 0), (0, 0, 3), (0, 2, 1), (1, 1, 2)]:
        assert positions[np.ravel_multi_index((z, y, x), (2, 3, 4))].tolist() == [x, y, z]


def test_points_without_a_grid_have_one_coordinate():
    assert grid_positions((4,)).tolist() == [[0], [1], [2], [3]]


def test_spacing_has_the_order_of_positions_and_full_precision():
    spacing = (0.1, 0.3, 1.7)
    positions = grid_positions((2, 3, 4), spacing)
    assert np.array_equal(positions, grid_positions((2, 3, 4)).astype(np.float64) * spacing)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (0,), (2, 0, 3)])
def test_an_empty_grid_has_no_positions(shape):
    assert grid_positions(shape).shape == (0, len(shape))
    assert grid_positions(shape, (2.0,) * len(shape)).shape == (0, len(shape))


@pytest.mark.parametrize("spacing", [(1.0,), (1.0, 2.0, 3.0), 2.0, (1.0, 0.0), (1.0, -2.0), (1.0, np.nan), (np.inf, 1)])
def test_spacing_that_is_not_one_positive_number_per_axis_is_rejected(spacing):
    with pytest.raises(InputError, match=r"spacing is .*, expected 2 numbers above 0, one per axis in the order x, y"):
        checked_spacing(spacing, 2)


@pytest.mark.parametrize("spacing", ["wide", ("a", "b"), (1.0, None), [[1.0], [2.0, 3.0]]])
def test_spacing_that_is_not_numbers_is_rejected(spacing):
    with pytest.raises(InputTypeError, match=r"spacing is .*, expected 2 numbers above 0"):
        checked_spacing(spacing, 2)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.float16, np.float32, np.float64])
def test_channels_are_the_pixels_of_the_image(dtype):
    image = np.arange(2 * 3 * 4).reshape(2, 3, 4).astype(dtype)
    channels = image_channels(image, (2, 3))
    assert channels.dtype == dtype
    assert channels.tolist() == image.reshape(6, 4).tolist()


def test_a_grey_image_has_one_channel():
    image = np.arange(6).reshape(2, 3)
    assert image_channels(image, (2, 3)).tolist() == [[0], [1], [2], [3], [4], [5]]


def test_a_volume_and_a_cloud_of_points_have_channels_too():
    assert image_channels(np.zeros((2, 3, 4, 5)), (2, 3, 4)).shape == (24, 5)
    assert image_channels(np.zeros((2, 3, 4)), (2, 3, 4)).shape == (24, 1)
    assert image_channels(np.zeros((7, 3)), (7,)).shape == (7, 3)
    assert image_channels(np.zeros(7), (7,)).shape == (7, 1)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_an_empty_image_keeps_its_channels(shape):
    assert image_channels(np.zeros((*shape, 3)), shape).shape == (0, 3)
    assert image_channels(np.zeros(shape), shape).shape == (0, 1)


@pytest.mark.parametrize(
    "image, error, message",
    [
        ([[1, 2]], InputTypeError, "the image is of type list, expected a numpy array .*Use numpy.asarray"),
        (np.zeros((2, 3), bool), InputTypeError, "dtype bool, expected integers or floating point numbers"),
        (np.zeros((2, 3), complex), InputTypeError, "dtype complex128, expected integers or floating point numbers"),
        (np.zeros((2, 3), object), InputTypeError, "dtype object, expected integers or floating point numbers"),
        (np.zeros((2, 4, 3)), InputError, r"\(2, 4, 3\), but the scores are for \(2, 3\): expected \(2, 3, channels\)"),
        (np.zeros((3, 2, 4)), InputError, "Rows and columns are swapped"),
        (np.zeros((4, 2, 3)), InputError, r"Its channels come first: use numpy.moveaxis\(image, 0, -1\)"),
        (np.zeros((2, 3, 1, 1)), InputError, r"expected \(2, 3, channels\)"),
        (np.zeros((2, 3, 0)), InputError, f"has 0 channels, expected 1 to {MOST_CHANNELS}"),
        (np.zeros((2, 3, 17)), InputError, f"has 17 channels, expected 1 to {MOST_CHANNELS}"),
    ],
)
def test_an_image_of_another_shape_or_type_is_rejected(image, error, message):
    with pytest.raises(error, match=message):
        image_channels(image, (2, 3))


def test_only_features_that_kernels_use_are_gathered():
    image = np.zeros((2, 3, 3))
    assert set(pixel_features([Spatial(1)], (2, 3), image)) == set()
    assert set(pixel_features([Spatial(1), Bilateral(1, 1)], (2, 3), image)) == {"channel"}
    depth = np.zeros((2, 3, 1))
    assert set(pixel_features([Custom("depth")], (2, 3), None, {"depth": depth})) == {"depth"}
    assert pixel_features([], (2, 3)) == {}


def test_features_are_given_per_pixel_or_in_a_list():
    depth = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    for given in (depth, depth.reshape(6, 2)):
        assert np.array_equal(
            pixel_features([Custom("depth")], (2, 3), None, {"depth": given})["depth"], depth.reshape(6, 2)
        )


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", "f8"])
def test_large_features_are_centred_before_they_are_rounded(dtype):
    depth = np.array([[2**24 + 3], [2**24 + 1], [2**24 + 8]], dtype)
    found = pixel_features([Custom("depth")], (3,), None, {"depth": depth})["depth"]
    assert found.astype(np.float32).ravel().tolist() == [0, -2, 5]


@pytest.mark.parametrize(
    "features, error, message",
    [
        (None, InputError, r"compares 'depth', but features= has nothing: pass features=\{'depth': array\}"),
        ({"height": np.zeros((6, 1))}, InputError, "compares 'depth', but features= has height"),
        (
            {"depth": [1, 2]},
            InputTypeError,
            r"feature 'depth' is of type list, expected a numpy array \(2, 3, d\) or \(6, d\)",
        ),
        ({"depth": np.zeros((6, 1), complex)}, InputTypeError, "feature 'depth' is complex128, expected a numpy array"),
        ({"depth": np.zeros((6, 1), bool)}, InputTypeError, "feature 'depth' is bool, expected a numpy array"),
        (
            {"depth": np.zeros((2, 3))},
            InputError,
            r"shape \(2, 3\), expected \(2, 3, d\) or \(6, d\).*\[\.\.\., None\]",
        ),
        ({"depth": np.zeros((5, 1))}, InputError, r"shape \(5, 1\), expected \(2, 3, d\) or \(6, d\)"),
        (
            {"depth": np.zeros((6, 1)), "age": np.zeros((6, 1))},
            InputError,
            "features= has age, which no kernel compares",
        ),
    ],
)
def test_features_that_do_not_fit_are_rejected(features, error, message):
    with pytest.raises(error, match=message):
        pixel_features([Custom("depth")], (2, 3), None, features)


def test_a_bilateral_kernel_without_an_image_is_rejected():
    with pytest.raises(InputError, match="compares colours, but no image was given: pass image="):
        pixel_features([Bilateral(1, 1)], (2, 3))
