"""create_pairwise_gaussian and create_pairwise_bilateral give bitwise the features of pydensecrf."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from densefield import InputError, InputTypeError
from densefield.errors import InputWarning
from densefield.pydensecrf import utils as ours

RANDOM = np.random.default_rng(9091)
IMAGE = RANDOM.integers(0, 256, (11, 14, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def theirs():
    return pytest.importorskip(
        "pydensecrf.utils", reason="pydensecrf is not installed: pip install 'densefield[peers]'"
    )


def result_of(function, *arguments):
    """The array or the error, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*arguments)
        except Exception as error:
            return error


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(found, expected)  # bitwise, since the last bit may decide the simplex of a pixel
    assert found.dtype == expected.dtype and found.flags.c_contiguous


# Widths as in scripts. Types matter: NumPy divides float32 by float64 scalars in float64.
KINDS = {
    "tuple": tuple,
    "list": list,
    "float64": lambda widths: np.array(widths, np.float64),
    "float32": lambda widths: np.array(widths, np.float32),
    "integers": lambda widths: np.array(widths).astype(int) + 1,
    "scalars": lambda widths: [np.float64(width) for width in widths],
    "columns": lambda widths: np.array(widths, np.float64).reshape(-1, 1),
    "infinite": lambda widths: (*widths[:-1], float("inf")),
    "negative": lambda widths: [-width for width in widths],
}
WIDTHS = (3.3, 0.7, 21.0, 0.013)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(9,), (20, 30), [20, 30], np.array([4, 5, 6]), (2, 0), (3, 4, 5, 2)], ids=str)
def test_positions_equal_those_of_pydensecrf(theirs, shape, kind):
    sdims = KINDS[kind](WIDTHS[: len(shape)])
    assert_same(ours.create_pairwise_gaussian(sdims, shape), theirs.create_pairwise_gaussian(sdims, shape))


IMAGES = {
    "line": IMAGE[0, :, 0],
    "grey": IMAGE[..., 0] / 255,
    "colours last": IMAGE,
    "colours first": np.moveaxis(IMAGE, 2, 0),
    "two floats": RANDOM.normal(size=(6, 7, 2)),
    "half": RANDOM.normal(size=(6, 7, 4)).astype(np.float16),
    "mask": IMAGE > 100,
    "volume": RANDOM.normal(size=(3, 4, 5, 2)).astype(np.float32),
    "empty": np.zeros((0, 4, 3), np.uint8),
}
CHANNEL_WIDTHS = [13, 0.05, np.float64(0.05), np.float32(7), True, (), (0.05,), (0.05, 0.05), (1, 2, 3), (1, 2, 3, 4)]


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("chdim", [-4, -3, -2, -1, 0, 1, 2, 3, 4, np.int64(2), True])
def test_valid_calls_give_the_numbers_of_pydensecrf_and_others_raise(theirs, name, chdim):
    runs = 0
    counts = [KINDS[kind](WIDTHS[:count]) for count in (1, 2, 3, 4) for kind in ("tuple", "float64", "columns")]
    for sdims, schan in itertools.product([*counts, ()], CHANNEL_WIDTHS):
        arguments = (sdims, schan, IMAGES[name], chdim)
        expected = result_of(theirs.create_pairwise_bilateral, *arguments)
        found = result_of(ours.create_pairwise_bilateral, *arguments)
        if isinstance(expected, Exception):
            assert isinstance(found, (InputError, InputTypeError)), (arguments, expected, found)
        else:
            assert_same(found, expected)
            runs += 1
    assert runs or abs(int(chdim)) >= IMAGES[name].ndim  # the case was compared, not only rejected


def test_a_width_may_differ_from_pixel_to_pixel(theirs):
    widths = [RANDOM.uniform(1, 9, (11, 14)), RANDOM.uniform(1, 9, 14).astype(np.float32)]
    arguments = (widths, 7, IMAGE, 2)
    assert_same(ours.create_pairwise_bilateral(*arguments), theirs.create_pairwise_bilateral(*arguments))


@pytest.mark.parametrize(
    "arguments, words",
    [
        (((2, 3), 7, IMAGE), "sdims has 2 widths for the 3 axes.*use chdim=2"),
        (((2,), 7, IMAGE, 2), "sdims has 1 widths for the 2 axes"),
        (((2, 3), (7, 8), IMAGE, 2), "schan has 2 widths for the 3 channels"),
        (((2, 3), (7,), IMAGE, 2), "schan has 1 widths for the 3 channels.*One number is the width of all"),
        (((25, 25), (0.05, 0.05), IMAGE, 0), "schan has 2 widths for the 11 channels"),
    ],
)
def test_unscaled_features_give_a_warning(arguments, words):
    with pytest.warns(InputWarning, match=words):
        features = ours.create_pairwise_bilateral(*arguments)
    assert np.isfinite(features).all()


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        # pydensecrf makes features of too many points.
        (lambda: ours.create_pairwise_gaussian((2,), (3, 4)), InputError, "one width for each of the 2 axes"),
        (lambda: ours.create_pairwise_gaussian((2, 3, 4), (3, 4)), InputError, "one for each of the 2 axes"),
        (lambda: ours.create_pairwise_gaussian((2, 0), (3, 4)), InputError, "other than 0"),
        (lambda: ours.create_pairwise_gaussian((2, float("nan")), (3, 4)), InputError, "other than 0 and NaN"),
        (lambda: ours.create_pairwise_gaussian("23", (3, 4)), InputTypeError, "sdims is '23'"),
        (lambda: ours.create_pairwise_gaussian(None, (3, 4)), InputTypeError, "sdims is None"),
        (lambda: ours.create_pairwise_gaussian(([1, [2]], 3), (3, 4)), InputError, "sdims"),
        (lambda: ours.create_pairwise_gaussian((np.ones(5), 3), (3, 4)), InputError, r"shape \(5,\).*fits \(3, 4\)"),
        (lambda: ours.create_pairwise_gaussian((2, 2), (3.0, 4)), InputTypeError, "shape"),
        (lambda: ours.create_pairwise_gaussian((2, 2), (3, -4)), InputError, "shape"),
        (lambda: ours.create_pairwise_gaussian((), ()), InputError, "shape"),
        (lambda: ours.create_pairwise_gaussian((2, 2), 5), InputTypeError, "shape"),
        (lambda: ours.create_pairwise_bilateral((2, 3), (7, 8, 9, 10), IMAGE, 2), InputError, "each of the 3 channels"),
        (lambda: ours.create_pairwise_bilateral((2, 3), 0, IMAGE, 2), InputError, "schan"),
        (lambda: ours.create_pairwise_bilateral((2, 3), 7, IMAGE, 5), InputError, "chdim"),
        (lambda: ours.create_pairwise_bilateral((2, 3), 7, IMAGE, None), InputError, "chdim"),
        (lambda: ours.create_pairwise_bilateral((2, 3), 7, IMAGE.astype(str), 2), InputTypeError, "img"),
    ],
)
def test_invalid_input_is_rejected(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong()
