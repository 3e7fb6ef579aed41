"""The CRF and arrays of any precision, byte order, strides and range, with errors for invalid ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield import CRF, Bilateral, Custom, InputError, Spatial

RNG = np.random.default_rng(6701)
SCORES = RNG.standard_normal((3, 6, 7)).astype(np.float32)
IMAGE = RNG.uniform(0, 255, (6, 7, 3)).round()
PHOTO = [Spatial(2, weight=2), Bilateral(4, 60, weight=3)]


def softmax(scores: Any) -> Any:
    power = np.exp(scores - scores.max(0))
    return power / power.sum(0)


@pytest.mark.parametrize(
    "dtype", ["u1", "i2", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "g", ">i4", ">f2", ">f4", "<f8"]
)
def test_colours_are_the_same_in_any_dtype_and_byte_order(dtype: str) -> None:
    expected = CRF(PHOTO).marginals(SCORES, IMAGE)
    assert np.array_equal(CRF(PHOTO).marginals(SCORES, IMAGE.astype(dtype)), expected)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", ">f4", "<f4", ">f8"])
def test_scores_are_the_same_in_any_dtype_and_byte_order(dtype: str) -> None:
    scores = SCORES.astype(np.float16)  # representable in all dtypes
    expected = CRF(PHOTO).marginals(scores.astype(np.float32), IMAGE)
    assert np.array_equal(CRF(PHOTO).marginals(scores.astype(dtype), IMAGE), expected)


def backwards(array: Any) -> Any:
    """The same numbers in reversed memory order."""
    return array[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1]


def spread(array: Any) -> Any:
    """The same numbers with gaps in memory."""
    return np.repeat(array, 2, axis=-1)[..., ::2]


def read_only(array: Any) -> Any:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


@pytest.mark.parametrize("view", [backwards, spread, read_only, np.asfortranarray])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_memory_may_be_in_any_order_and_read_only(view: Any, dtype: Any) -> None:
    expected = CRF(PHOTO).marginals(SCORES, IMAGE)
    assert np.array_equal(CRF(PHOTO).marginals(view(SCORES), view(IMAGE.astype(dtype))), expected)


def test_an_image_may_be_a_field_of_packed_records() -> None:
    records = np.zeros((6, 7), [("seen", "u1"), ("colour", "f4", (3,))])
    records["colour"] = IMAGE
    assert np.array_equal(CRF(PHOTO).marginals(SCORES, records["colour"]), CRF(PHOTO).marginals(SCORES, IMAGE))


def test_a_broadcast_number_is_accepted() -> None:
    scores, image = np.broadcast_to(np.float32(1), (3, 6, 7)), np.broadcast_to(np.uint8(9), (6, 7, 3))
    assert np.allclose(CRF(PHOTO).marginals(scores, image), 1 / 3, rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1_000_000), (1_000_000, 1)])
def test_an_image_may_be_one_row_of_a_million_pixels(shape: tuple[int, int]) -> None:
    scores = np.random.default_rng(88).standard_normal((2, *shape)).astype(np.float32)
    q = CRF([Spatial(4, weight=3, normalization="after")], iterations=1).marginals(scores)
    taps = np.exp(-0.5 * (np.arange(-24, 25) / 4) ** 2)
    smooth = [np.convolve(each.ravel(), taps / taps.sum(), "same").reshape(shape) for each in softmax(scores)]
    error = np.abs(q - softmax(scores + 3 * np.stack(smooth)))
    assert error.mean() < 0.01 and error.max() < 0.1  # the lattice approximates; measured: 0.007, 0.07


@pytest.mark.parametrize("width", [1e6, 1e10, 1e15])
def test_widths_far_larger_than_the_image_connect_all_pixels(width: float) -> None:
    crf = CRF([Spatial(width, weight=3, normalization="after")], iterations=1)
    q = crf.marginals(SCORES)
    expected = softmax(SCORES + 3 * softmax(SCORES).mean((1, 2), keepdims=True))
    assert np.allclose(q, expected, rtol=0, atol=1e-5)  # all points are in one simplex; float32 sums of 42


@pytest.mark.parametrize("width", [1e-3, 1e-6])
def test_widths_far_smaller_than_a_pixel_leave_self_interaction_only(width: float) -> None:
    q = CRF([Spatial(width, weight=3, normalization="after")], iterations=1).marginals(SCORES)
    assert np.allclose(q, softmax(SCORES + 3 * softmax(SCORES)), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kernel", [Spatial(1e-12), Bilateral(1e-9, 1e-9)])
def test_widths_too_small_for_the_keys_of_a_lattice_are_an_error(kernel: Any) -> None:
    with pytest.raises(InputError, match="widths are too small for the spread of these features"):
        CRF([kernel]).marginals(SCORES, IMAGE)


@pytest.mark.parametrize("method", ["lattice", "exact"])
@pytest.mark.parametrize(
    ("kernel", "image"),
    [
        (Spatial(1e-40), IMAGE),
        (Spatial(1e-300), IMAGE),
        (Bilateral(60, 1e-45), IMAGE),
        (Bilateral(60, 10), 1e300 * IMAGE),
        (Spatial(covariance=1e-90 * np.eye(2)), IMAGE),
    ],
)
def test_features_beyond_float32_raise(kernel: Any, image: Any, method: Any) -> None:
    with pytest.raises(InputError, match=rf"the {kernel.name} kernel divides .* beyond the range of float32.* widths"):
        CRF([kernel], method=method).marginals(SCORES, image)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("method", ["lattice", "exact"])
@pytest.mark.parametrize("covariance", [None, np.eye(5)])
def test_an_image_with_nan_is_named(covariance: Any, method: Any, value: float) -> None:
    image = IMAGE.copy()
    image[2, 3, 1] = image[4, 0, 0] = value
    crf = CRF([Spatial(2), Bilateral(4, 60, covariance=covariance)], method=method)
    with pytest.raises(InputError, match=r"the image holds NaN or infinity at 2 of 42 pixels, first at \(2, 3\)"):
        crf.marginals(SCORES, image)


def test_a_feature_with_nan_is_named() -> None:
    depth = np.zeros((6, 7, 1))
    depth[5, 6] = np.nan
    with pytest.raises(InputError, match=r"feature 'depth' holds NaN or infinity at 1 of 42"):
        CRF([Custom("depth"), Bilateral(4, 60)]).marginals(SCORES, IMAGE, features={"depth": depth})


@pytest.mark.parametrize("method", ["lattice", "exact"])
@pytest.mark.parametrize("channels", [15, 16])
def test_channels_that_leave_no_room_for_positions_are_an_error(channels: int, method: Any) -> None:
    image = np.zeros((6, 7, channels))
    message = rf"the bilateral kernel compares {channels + 2} dimensions \(2 of position, {channels} of channel\)"
    with pytest.raises(InputError, match=message):
        CRF([Bilateral(4, 60)], method=method).marginals(SCORES, image)
    with pytest.raises(InputError, match="the image has 17 channels, expected 1 to 16"):
        CRF([Bilateral(4, 60)], method=method).marginals(SCORES, np.zeros((6, 7, 17)))


@pytest.mark.parametrize("method", ["lattice", "exact"])
def test_infinities_of_either_sign_are_an_error_without_a_warning(method: Any) -> None:
    scores = SCORES.astype(np.float64)
    scores[0, 1, 1], scores[1, 2, 2] = np.inf, -np.inf
    with pytest.raises(InputError, match=r"NaN or infinity at 2 of 126 places, first at \(0, 1, 1\)"):
        CRF([Spatial(2)], method=method).marginals(scores)


def test_scores_beyond_single_precision_are_an_error_without_a_warning() -> None:
    with pytest.raises(InputError, match="NaN or infinity"):
        CRF([Spatial(2)]).marginals(1e300 * SCORES.astype(np.float64))
    largest = np.where(SCORES > 0, np.float32(3e38), np.float32(-3e38))
    assert np.isfinite(CRF([Spatial(2)]).solve(largest).marginals).all()


def test_the_cache_distinguishes_kernels_and_options() -> None:
    crf = CRF([Spatial(2, weight=2)])
    crf.marginals(SCORES)
    crf.kernels = (Spatial(5, weight=3),)
    assert np.array_equal(crf.marginals(SCORES), CRF([Spatial(5, weight=3)]).marginals(SCORES))
    crf.options = crf.options.replace(exclude_self=True)
    excluded = CRF([Spatial(5, weight=3)], exclude_self=True)
    assert np.array_equal(crf.marginals(SCORES), excluded.marginals(SCORES))
