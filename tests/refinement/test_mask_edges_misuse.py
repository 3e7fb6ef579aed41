"""Native functions of masks raise for wrong arguments instead of accessing arrays out of bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from densefield import _core
from tests.support.misuse import WRONG_TYPE

ROWS, COLUMNS, LABELS, PAIRS, BINS, DIRECTIONS = 6, 8, 3, 2, 4, 4
PIXELS = ROWS * COLUMNS
MASK = (np.arange(PIXELS).reshape(1, ROWS, COLUMNS) // 17).astype(np.int32)
IMAGE = np.random.default_rng(7157).integers(0, 256, (PIXELS, 3)).astype(np.uint8)
USE = np.full(PIXELS, 2, np.uint8)
PAIR_TABLE = np.array([[-1, 0, -1], [0, -1, 1], [-1, 1, -1]], np.int32)
POINTS = np.arange(0, PIXELS, 3, dtype=np.int32)


def floats(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def ints(*shape: int) -> Any:
    return np.zeros(shape, np.int64)


def edges(**changes: Any) -> Any:
    arguments: dict[str, Any] = {"labels": MASK, "spacing": [1.0, 1.0, 1.0], "num_labels": LABELS, "threads": 2}
    return _core.MaskEdges(**{**arguments, **changes})


CALLS: dict[str, dict[str, Any]] = {
    "distances": {"squared": floats(PIXELS), "nearest": np.zeros(PIXELS, np.int32)},
    "edge_lengths": {"use": USE, "out": ints(LABELS, LABELS)},
    "profile": {
        "image": IMAGE,
        "use": USE,
        "pairs": PAIR_TABLE,
        "bin_width": 1.0,
        "strengths": ints(PAIRS, DIRECTIONS, 2 * BINS),
        "counts": ints(PAIRS, DIRECTIONS, 2 * BINS),
        "threads": 2,
    },
    "margins": {"pairs": PAIR_TABLE, "displacements": floats(PAIRS, 3), "out": floats(PIXELS), "threads": 2},
    "band": {"margins": floats(PIXELS), "use": USE, "limit": 3.0, "order": None},
    "scores": {
        "use": USE,
        "margins": floats(PIXELS),
        "strength": 5.0,
        "width": 2.0,
        "points": POINTS,
        "out": floats(LABELS, len(POINTS)),
        "threads": 2,
    },
    "assemble": {
        "margins": floats(PIXELS),
        "points": POINTS,
        "marginals": floats(LABELS, len(POINTS)),
        "certain": 0.9,
        "out": floats(LABELS, PIXELS),
        "threads": 2,
    },
}


def call(name: str, **changes: Any) -> Any:
    return getattr(edges(), name)(**{**CALLS[name], **changes})


@pytest.mark.parametrize("name", CALLS)
def test_valid_arguments_are_accepted(name):
    result = call(name)
    assert result is None or np.array_equal(np.sort(result), np.arange(PIXELS))


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"labels": np.where(MASK == 2, 3, MASK)}, ValueError, "labels must be 0 to num_labels - 1"),
        ({"labels": MASK - 1}, ValueError, "labels must be 0 to num_labels - 1"),
        ({"labels": MASK.astype(np.int64)}, *WRONG_TYPE),
        ({"labels": MASK[0]}, *WRONG_TYPE),
        ({"labels": MASK[:, ::2]}, *WRONG_TYPE),
        ({"labels": np.zeros((1, 0, 5), np.int32)}, ValueError, "1 to 2.31 pixels"),
        ({"labels": None}, *WRONG_TYPE),
        ({"spacing": [1.0, 1.0]}, ValueError, "spacing must be three numbers above 0"),
        ({"spacing": [1.0, 0.0, 1.0]}, ValueError, "spacing must be three numbers above 0"),
        ({"spacing": [1.0, 1.0, np.nan]}, ValueError, "spacing must be three numbers above 0"),
        ({"spacing": [1.0, 1.0, np.inf]}, ValueError, "spacing must be three numbers above 0"),
        ({"spacing": [1.0, -2.0, 1.0]}, ValueError, "spacing must be three numbers above 0"),
        ({"num_labels": 0}, ValueError, "num_labels must be 1 to 65536"),
        ({"num_labels": -3}, ValueError, "num_labels must be 1 to 65536"),
        ({"num_labels": 65537}, ValueError, "num_labels must be 1 to 65536"),
        ({"num_labels": 2}, ValueError, "labels must be 0 to num_labels - 1"),
        ({"threads": 0}, ValueError, "threads"),
        ({"threads": -1}, ValueError, "threads"),
    ],
)
def test_invalid_masks_are_rejected(changes, error, message):
    with pytest.raises(error, match=message):
        edges(**changes)


def wrong_shapes() -> list[Any]:
    """Each array of each function with one row less, one axis less, another dtype, and with gaps."""
    cases = []
    for name, arguments in CALLS.items():
        for key, value in arguments.items():
            if not isinstance(value, np.ndarray) or key == "points":
                continue
            shorter, number = value[:-1].copy(), np.float64 if value.dtype != np.float64 else np.float32
            gaps = np.repeat(value, 2, axis=-1)[..., ::2]
            cases += [
                pytest.param(name, key, shorter, ValueError, id=f"{name}-{key}-shorter"),
                pytest.param(name, key, value[0], TypeError, id=f"{name}-{key}-axis"),
                pytest.param(name, key, value.astype(number), (TypeError, ValueError), id=f"{name}-{key}-dtype"),
                pytest.param(name, key, gaps, TypeError, id=f"{name}-{key}-gaps"),
                pytest.param(name, key, value[:0].copy(), ValueError, id=f"{name}-{key}-empty"),
            ]
    return cases


@pytest.mark.parametrize("name, key, value, error", wrong_shapes())
def test_arrays_of_the_wrong_kind_are_rejected(name, key, value, error):
    with pytest.raises(error):
        call(name, **{key: value})


@pytest.mark.parametrize(
    "name, changes, error, message",
    [
        ("profile", {"pairs": PAIR_TABLE + 1}, ValueError, "pairs must be -1 or numbers of pairs"),
        ("profile", {"pairs": PAIR_TABLE - 1}, ValueError, "pairs must be -1 or numbers of pairs"),
        ("profile", {"bin_width": 0.0}, ValueError, "bin_width must be above 0"),
        ("profile", {"bin_width": np.nan}, ValueError, "bin_width must be above 0"),
        ("profile", {"bin_width": np.inf}, ValueError, "bin_width must be above 0"),
        (
            "profile",
            {"strengths": ints(PAIRS, DIRECTIONS, 7), "counts": ints(PAIRS, DIRECTIONS, 7)},
            ValueError,
            "strengths must be",
        ),
        (
            "profile",
            {"strengths": ints(PAIRS, 0, 8), "counts": ints(PAIRS, 0, 8)},
            ValueError,
            "strengths must be",
        ),
        ("profile", {"strengths": ints(PAIRS, DIRECTIONS, 10)}, ValueError, "the same shape"),
        ("profile", {"image": np.zeros((PIXELS, 0), np.uint8)}, ValueError, "the image must have a channel"),
        ("profile", {"image": IMAGE.astype(np.uint16)}, ValueError, "the image must be uint8 or float32"),
        ("margins", {"pairs": PAIR_TABLE + 5}, ValueError, "pairs must be -1 or numbers of pairs"),
        ("margins", {"displacements": floats(PAIRS, 2)}, ValueError, r"displacements must be \(pairs, 3\)"),
        ("margins", {"displacements": floats(PAIRS - 1, 3)}, ValueError, "pairs must be -1 or numbers of pairs"),
        ("scores", {"width": 0.0}, ValueError, "width must be above 0"),
        ("scores", {"width": np.nan}, ValueError, "width must be above 0"),
        ("scores", {"points": POINTS + PIXELS}, ValueError, "points must be pixels of the mask"),
        ("scores", {"points": POINTS - 1}, ValueError, "points must be pixels of the mask"),
        ("scores", {"points": POINTS.astype(np.int64)}, *WRONG_TYPE),
        ("scores", {"points": POINTS[:-1]}, ValueError, r"out must be \(labels, points\)"),
        ("assemble", {"points": POINTS + PIXELS}, ValueError, "points must be pixels of the mask"),
        ("assemble", {"points": POINTS[:-1]}, ValueError, r"marginals must be \(labels, points\)"),
        ("band", {"order": 3}, TypeError, "incompatible function arguments"),
        ("band", {"order": _core.PixelOrder(5, 7)}, ValueError, "the pixel order has another number of points"),
        ("margins", {"threads": 0}, ValueError, "threads"),
        ("scores", {"threads": "two"}, *WRONG_TYPE),
    ],
)
def test_invalid_arguments_are_rejected(name, changes, error, message):
    with pytest.raises(error, match=message):
        call(name, **changes)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, -3e38])
def test_any_values_of_the_image_are_accepted(value):
    image = IMAGE.astype(np.float32)
    image[::5] = value
    profile = ints(2, PAIRS, DIRECTIONS, 2 * BINS)
    call("profile", image=image, strengths=profile[0], counts=profile[1])
    assert (profile >= 0).all() and profile[0].max() < 1e9 * 256 * PIXELS


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_any_margins_are_accepted(value):
    margins = floats(PIXELS)
    margins[::4] = value
    scores, out = floats(LABELS, len(POINTS)), floats(LABELS, PIXELS)
    points = call("band", margins=margins)
    assert np.array_equal(np.sort(points), np.setdiff1d(np.arange(PIXELS), np.arange(0, PIXELS, 4)))
    call("scores", margins=margins, out=scores)
    assert np.isfinite(scores[:, POINTS % 4 != 0]).all()
    call("assemble", margins=margins, out=out)
    assert np.isfinite(out).all()


def test_thousands_of_labels_are_accepted():
    mask = np.arange(3000, dtype=np.int32).reshape(1, 50, 60)
    many = _core.MaskEdges(mask, [1.0] * 3, 3000, 2)
    squared, nearest = np.empty(3000, np.float32), np.empty(3000, np.int32)
    many.distances(squared, nearest)
    assert (squared == 1).all() and (nearest != np.arange(3000)).all()
    out = np.empty(3000, np.float32)
    many.margins(np.full((3000, 3000), -1, np.int32), np.zeros((1, 3), np.float32), out, 2)
    assert (out == 0.5).all()


@pytest.mark.parametrize("bins, width", [(24, 1.2335054), (3, 1.2335054), (10, 2.8464618)])
def test_distances_just_below_the_last_bin_stay_in_it(bins, width):
    reach = np.float32(bins) * np.float32(width)
    pixel = 2 * np.nextafter(reach, np.float32(0))  # edges are half a pixel away
    mask = np.zeros((1, 5, 6), np.int32)
    mask[..., 4:] = 1  # the smaller label is on the right: outward is direction 2 of 4
    image = np.arange(30, dtype=np.float32).reshape(-1, 1) % 6 * 1000 * pixel
    strengths, counts = ints(1, 4, 2 * bins), ints(1, 4, 2 * bins)
    pairs = np.array([[-1, 0], [0, -1]], np.int32)
    _core.MaskEdges(mask, [1.0, float(pixel), float(pixel)], 2, 1).profile(
        image, np.full(30, 2, np.uint8), pairs, width, strengths, counts, 1
    )
    assert counts.sum() == 6 and np.array_equal(np.flatnonzero(counts[0].sum(axis=1)), [2])
    assert counts[0, 2, 0] == counts[0, 2, -1] == 3


@pytest.mark.parametrize("spacing", [1e-30, 1e-20, 1e18, 9e29])
def test_extreme_spacings_do_not_crash(spacing):
    extreme = edges(spacing=[spacing] * 3)
    for name, arguments in CALLS.items():
        own = {key: np.copy(each) if isinstance(each, np.ndarray) else each for key, each in arguments.items()}
        getattr(extreme, name)(**own)
