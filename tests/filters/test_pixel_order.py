"""Features of pixels, written over their widths and in pixel order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield.filters import PixelOrder
from densefield.filters.pixel_order import write_features


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, np.int16])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 5), (64, 64), (70, 130), (130, 70), (200, 64)])
def test_features_are_columns_over_widths_in_pixel_order(height: int, width: int, dtype: Any, ordered: bool) -> None:
    order = PixelOrder(height, width) if ordered else None
    columns = np.random.default_rng(height + width).integers(0, 256, (height * width, 3)).astype(dtype)
    features = np.full((height * width, 5), -1, np.float32)
    write_features(columns, [7.0, 11.0, 0.3], features, 1, order, threads=2)
    expected = columns.astype(np.float32) / np.array([7, 11, 0.3], np.float32)
    assert np.array_equal(features[:, 1:4], expected if order is None else expected[order.indices])
    assert (features[:, [0, 4]] == -1).all()


def test_columns_may_have_any_strides() -> None:
    planes = np.random.default_rng(3).random((2, 12), np.float32)
    records = np.zeros(12, [("flag", "u1"), ("features", "f4", (2,))])
    records["features"] = planes.T
    for columns in (planes.T, planes.T[::-1][::-1], records["features"]):
        features = np.empty((12, 2), np.float32)
        write_features(columns, [1.0, 1.0], features, 0, None, threads=1)
        assert np.array_equal(features, planes.T)
