"""The buffers returned by inference behave like pydensecrf's in NumPy."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from densefield import InputError, InputTypeError
from densefield.pydensecrf.eigen import MatrixXf, VectorXf, matrixXf, vectorXf

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_numpy_treats_a_buffer_as_an_array():
    q = matrixXf(VALUES)
    for array in (np.array(q), np.asarray(q), np.argmax(q, axis=0), np.exp(q), np.sum(q, axis=0), np.reshape(q, -1)):
        assert type(array) is np.ndarray
    assert type(q * 2) is np.ndarray
    assert np.array(q).dtype == np.float32 and np.array(q, dtype=np.float64).dtype == np.float64
    assert np.argmax(q, axis=0).tolist() == [1, 1, 1]
    assert isinstance(np.max(q), np.float32) and np.max(q) == 5


def test_asarray_shares_memory_and_array_does_not():
    q = matrixXf(VALUES)
    np.asarray(q)[0, 0] = 9
    np.array(q)[0, 1] = 9
    assert np.asarray(q).tolist() == [[9, 1, 2], [3, 4, 5]]


def test_a_buffer_has_memory_and_a_shape():
    q = matrixXf(VALUES)
    memory = memoryview(q)
    assert (memory.shape, memory.format, memory.readonly, memory.tolist()) == ((2, 3), "f", False, VALUES.tolist())
    assert q.shape == np.shape(q) == (2, 3)
    assert bytes(q) == VALUES.tobytes()


def test_a_buffer_is_a_copy():
    values = VALUES.copy()
    q, v = matrixXf(values), vectorXf(values[0])
    values[...] = 0
    assert np.asarray(q).tolist() == VALUES.tolist() and np.asarray(v).tolist() == VALUES[0].tolist()


def test_a_buffer_without_data_is_empty():
    assert (MatrixXf().shape, VectorXf().shape) == ((0, 0), (0,))


def test_a_buffer_can_be_copied_and_pickled():
    q = matrixXf(VALUES)
    for other in (copy.copy(q), copy.deepcopy(q), pickle.loads(pickle.dumps(q))):
        assert isinstance(other, MatrixXf) and np.array_equal(other, VALUES)


@pytest.mark.parametrize(
    "wrong, error",
    [
        (lambda: matrixXf(VALUES.astype(np.float64)), InputError),
        (lambda: matrixXf(VALUES[0]), InputError),
        (lambda: vectorXf(VALUES), InputError),
        (lambda: matrixXf(VALUES.tolist()), InputTypeError),
        (lambda: vectorXf(None), InputTypeError),
    ],
)
def test_other_types_are_rejected(wrong, error):
    with pytest.raises(error, match="arr"):
        wrong()
