"""Masks of labels from users: values, unknown and ignored pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield import InputError, InputTypeError
from densefield.crf.label_mask import LabelMask, expanded, label_mask

DTYPES = [np.uint8, np.int8, np.uint16, np.int16, np.int32, np.uint32, np.int64, np.uint64]


def given(values: Any, dtype: Any = np.int64) -> np.ndarray:
    return np.array(values).astype(dtype)


def labels_of(mask: LabelMask) -> np.ndarray:
    """The label of each pixel, -1 where it is unknown or ignored."""
    labels = mask.labels[mask.rows]
    return labels if mask.known is None else np.where(mask.known, labels, -1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_labels_of_any_integer_type_are_numbered_in_order(dtype):
    mask = label_mask(given([[5, 0, 9], [9, 9, 5]], dtype))
    assert mask.rows.dtype == np.int32 and mask.rows.tolist() == [[1, 0, 2], [2, 2, 1]]
    assert mask.labels.tolist() == [0, 5, 9] and mask.num_classes == 10
    assert mask.known is None and mask.ignore is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_highest_value_of_a_type_may_be_a_label(dtype):
    highest = min(int(np.iinfo(dtype).max), 65535)
    mask = label_mask(given([[0, 3, highest]], dtype), void=None)
    assert mask.labels.tolist() == [0, 3, highest] and mask.rows.tolist() == [[0, 1, 2]]
    assert mask.num_classes == highest + 1 and mask.known is None


@pytest.mark.parametrize("void", [-1, -5, -100, -32768, 3, 255, 60_000])
def test_any_integer_may_mean_unknown(void):
    mask = label_mask(given([[0, void, 1], [2, void, 0]], np.int32), void=void)
    assert labels_of(mask).tolist() == [[0, -1, 1], [2, -1, 0]]
    assert mask.rows.tolist() == [[0, 0, 1], [2, 0, 0]] and mask.num_classes == 3
    narrow = np.int8 if -128 <= void < 0 else np.uint8 if 0 <= void < 256 else np.int32
    again = label_mask(given([[0, void, 1], [2, void, 0]], narrow), void=void)
    assert labels_of(again).tolist() == labels_of(mask).tolist()


def test_a_void_value_that_does_not_occur_has_no_effect():
    for void in (-100, 7, 255, 10**12, None):
        mask = label_mask(given([[0, 1, 2]]), void=void)
        assert mask.known is None and mask.rows.tolist() == [[0, 1, 2]] and mask.num_classes == 3


def test_255_is_unknown_unless_there_are_more_classes():
    values = given([[0, 3, 255]], np.uint8)
    assert labels_of(label_mask(values)).tolist() == [[0, 3, -1]]
    assert labels_of(label_mask(values, num_classes=21)).tolist() == [[0, 3, -1]]
    assert labels_of(label_mask(values.astype(int), num_classes=300)).tolist() == [[0, 3, 255]]
    assert labels_of(label_mask(given([[255, 256, 0]]))).tolist() == [[255, 256, 0]]


def test_a_mask_of_unknown_pixels_has_all_labels():
    mask = label_mask(given([[255, 255]]), num_classes=4, void=255)
    assert mask.labels.tolist() == [0, 1, 2, 3] and mask.known is not None and not mask.known.any()
    assert not mask.rows.any()


@pytest.mark.parametrize("value", [127, 128, 254, 255, 65535])
def test_0_and_a_grey_value_are_a_binary_mask(value):
    mask = label_mask(given([[0, value, 0]]))
    assert mask.rows.tolist() == [[0, 1, 0]] and mask.labels.tolist() == [0, 1] and mask.num_classes == 2
    only = label_mask(given([[value, value]]))
    assert only.labels.tolist() == [1] and only.rows.tolist() == [[0, 0]] and only.num_classes == 2
    holes = label_mask(given([[0, value, -3]]), void=-3)
    assert labels_of(holes).tolist() == [[0, 1, -1]]


def test_boolean_masks_have_two_classes():
    assert label_mask(np.array([[True, False]])).rows.tolist() == [[1, 0]]
    assert label_mask(np.zeros((2, 2), bool)).num_classes == 2


def test_ignored_pixels_may_hold_any_values():
    values = given([[0, 10**9, 1], [-77, 255, 4]])
    ignore = np.array([[False, True, False], [True, True, False]])
    mask = label_mask(values, ignore=ignore)
    assert mask.labels.tolist() == [0, 1, 4] and mask.num_classes == 5
    assert mask.known is not None and np.array_equal(mask.known, ~ignore) and mask.ignore is ignore
    assert labels_of(mask).tolist() == [[0, -1, 1], [-1, -1, 4]]
    assert values[0, 1] == 10**9  # the array of the caller is not changed


def test_labels_at_ignored_pixels_only_take_no_part():
    ignore = np.array([[True, False, False]])
    assert label_mask(given([[7, 1, 2]]), ignore=ignore).labels.tolist() == [1, 2]
    assert label_mask(given([[0, 1, 2]]), ignore=ignore).labels.tolist() == [1, 2]
    everything = label_mask(given([[7, 1, 2]]), ignore=np.ones((1, 3), bool))
    assert everything.known is not None and not everything.known.any()


def test_unknown_and_ignored_pixels_are_told_apart():
    mask = label_mask(given([[0, 255, 1, 2]]), ignore=np.array([[False, False, False, True]]))
    assert mask.known is not None and mask.known.tolist() == [[True, False, True, False]]
    assert mask.ignore is not None and mask.ignore.tolist() == [[False, False, False, True]]


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0,), (2, 0, 5)])
def test_empty_masks_are_accepted(shape):
    mask = label_mask(np.zeros(shape, np.uint8))
    assert mask.rows.shape == shape and mask.num_classes == 2


@pytest.mark.parametrize("shape", [(12,), (3, 4), (2, 3, 2)])
def test_any_number_of_axes_is_accepted(shape):
    values = np.random.default_rng(3877).integers(0, 6, shape)
    assert np.array_equal(labels_of(label_mask(values)), values)


@pytest.mark.parametrize("seed", [701, 709, 719, 727])
def test_rows_and_labels_give_the_mask_back(seed):
    random = np.random.default_rng(seed)
    values = random.choice(random.integers(0, 250, 9), (17, 23)).astype(random.choice([np.uint8, np.uint16, np.int64]))
    for each in (values, values[::-1, ::2], np.asfortranarray(values)):
        mask = label_mask(each, num_classes=251)
        assert np.array_equal(labels_of(mask), each)
        assert np.array_equal(mask.labels, np.unique(each)) and mask.num_classes == 251


@pytest.mark.parametrize(
    "values, options, error, message",
    [
        (given([[0.0, 1.0]], float), {}, InputTypeError, "labels have dtype float64"),
        (given([[0, -1]]), {}, InputError, "labels range from -1 to 0, expected 0 to 1, or 255 where unknown"),
        (given([[0, -1]], np.int8), {"void": -2}, InputError, "labels range from -1 to 0"),
        (given([[0, 5]]), {"num_classes": 3}, InputError, "labels range from 0 to 5, expected 0 to 2"),
        (given([[0, 65536]]), {}, InputError, "labels go up to 65536, expected less than 65536"),
        (given([[0, 2**63]], np.uint64), {}, InputError, "labels go up to 9223372036854775808"),
        (np.zeros((4, 4, 3), np.uint8), {}, InputError, "a picture in colours"),
        (given([[0, 1]]), {"num_classes": 1}, InputError, "num_classes is 1"),
        (given([[0, 1]]), {"num_classes": 2.0}, InputError, "num_classes is 2.0"),
        (given([[0, 1]]), {"num_classes": 65537}, InputError, "num_classes is 65537"),
        (given([[0, 1]]), {"void": "none"}, InputError, "void is 'none'"),
        (given([[0, 1]]), {"void": True}, InputError, "void is True"),
    ],
)
def test_invalid_masks_are_rejected(values, options, error, message):
    with pytest.raises(error, match=message):
        label_mask(values, **options)


def test_expanded_marginals_have_a_row_per_class():
    q = np.random.default_rng(15_013).uniform(size=(2, 3, 4)).astype(np.float32)
    full = expanded(q, np.array([1, 4]), 6)
    assert full.shape == (6, 3, 4) and full.dtype == np.float32
    assert np.array_equal(full[[1, 4]], q) and not full[[0, 2, 3, 5]].any()
    assert expanded(q, np.array([0, 1]), 2) is q


def test_a_result_beyond_memory_is_an_error_with_a_cure():
    q = np.broadcast_to(np.float32(0.5), (2, 1 << 20, 1 << 20))
    with pytest.raises(InputError, match=r"65536 labels at \d+ pixels, more than fits into memory.*return_inverse"):
        expanded(q, np.array([0, 65535]), 65536)
