"""utils gives the numbers of pydensecrf, and clear errors."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from densefield import InputError, InputTypeError
from densefield.pydensecrf import utils as ours


@pytest.fixture(scope="module")
def theirs():
    return pytest.importorskip(
        "pydensecrf.utils", reason="pydensecrf is not installed: pip install 'densefield[peers]'"
    )


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(found, expected)  # bitwise, since the last bit may decide the simplex of a pixel
    assert found.dtype == expected.dtype and found.flags.c_contiguous


RANDOM = np.random.default_rng(9091)
IMAGE = RANDOM.integers(0, 256, (11, 14, 3), dtype=np.uint8)
PROBABILITIES = RANDOM.dirichlet(np.ones(5), (7, 6)).transpose(2, 0, 1)  # (5, 7, 6)
LABELS = RANDOM.integers(0, 5, (7, 6))


@pytest.mark.parametrize("zero_unsure", [True, False])
@pytest.mark.parametrize("gt_prob", [0.1, 0.5, 0.7, 0.999])
@pytest.mark.parametrize("n_labels", [5, 21])
def test_unary_from_labels(theirs, n_labels, gt_prob, zero_unsure):
    arguments = (LABELS, n_labels, gt_prob, zero_unsure)
    assert_same(ours.unary_from_labels(*arguments), theirs.unary_from_labels(*arguments))


@pytest.mark.parametrize("gt_prob", [np.float32(0.7), np.float16(0.3), np.float64(0.9)], ids=repr)
@pytest.mark.parametrize("n_labels", [5, np.int64(7), np.uint8(9)], ids=repr)
def test_unary_from_labels_is_rounded_in_the_precision_of_its_arguments(theirs, n_labels, gt_prob):
    arguments = (LABELS, n_labels, gt_prob)
    assert_same(ours.unary_from_labels(*arguments), theirs.unary_from_labels(*arguments))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize(
    "options",
    [{}, {"scale": 0.5}, {"scale": 1}, {"scale": 0.7, "clip": None}, {"clip": 0.3}, {"clip": None}],
    ids=repr,
)
def test_unary_from_softmax(theirs, options, dtype):
    for p in (PROBABILITIES.astype(dtype), np.asfortranarray(PROBABILITIES[:, 0].astype(dtype))):
        assert_same(ours.unary_from_softmax(p, **options), theirs.unary_from_softmax(p, **options))


def test_deprecated_names_give_the_same_numbers_and_a_log_entry(theirs, caplog):
    for name, arguments in [
        ("compute_unary", (LABELS, 5)),
        ("compute_unary", (LABELS, 5, 0.8)),
        ("softmax_to_unary", (PROBABILITIES,)),
        ("softmax_to_unary", (PROBABILITIES, 0.6)),
        ("softmax_to_unary", (PROBABILITIES.astype(np.float32),)),  # a scale of 1 would convert them to float64
    ]:
        caplog.clear()
        assert_same(getattr(ours, name)(*arguments), getattr(theirs, name)(*arguments))
        assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2  # one per call
        assert name in caplog.records[0].getMessage()


def test_without_clipping_a_probability_of_0_is_an_infinite_energy():
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        energies = ours.unary_from_softmax(np.array([[1.0], [0.0]]), clip=None)
    assert energies.tolist() == [[0.0], [np.inf]]


def test_unsigned_labels_may_contain_unsure():
    signed = ours.unary_from_labels(LABELS, 5, 0.7)
    np.testing.assert_array_equal(ours.unary_from_labels(LABELS.astype(np.uint8), 5, 0.7), signed)


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda: ours.unary_from_labels(LABELS.astype(float), 5, 0.7), InputTypeError, "astype"),
        (lambda: ours.unary_from_labels(LABELS, 3, 0.7), InputError, "1 to 3, and 0 where unsure"),
        (lambda: ours.unary_from_labels(LABELS, 4, 0.7, zero_unsure=False), InputError, "0 to 3"),
        (lambda: ours.unary_from_labels(LABELS - 1, 5, 0.7), InputError, "range from -1"),
        (lambda: ours.unary_from_labels(LABELS, 1, 0.7), InputError, "2 or more"),
        (lambda: ours.unary_from_labels(LABELS, 5.0, 0.7), InputTypeError, "n_labels"),
        (lambda: ours.unary_from_labels(LABELS, 5, None), InputTypeError, "gt_prob"),
        (lambda: ours.unary_from_labels(LABELS, 5, 1.0), InputError, "gt_prob"),
        (lambda: ours.unary_from_labels(LABELS, 5, float("nan")), InputError, "gt_prob"),
        (lambda: ours.unary_from_softmax(np.array("a")), InputTypeError, "probabilities"),
        (lambda: ours.unary_from_softmax(np.array(1.0)), InputError, "labels"),
        (lambda: ours.unary_from_softmax(PROBABILITIES, scale=0), InputError, "scale"),
        (lambda: ours.unary_from_softmax(PROBABILITIES, scale=1.5), InputError, "scale"),
    ],
)
def test_invalid_input_is_rejected(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong()
