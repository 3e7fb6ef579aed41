"""The run-length encoding of Label Studio, against its own package where that is installed."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import InputError
from densefield.integrations.label_studio_rle import decode_brush, encode_brush

MASKS = [(0.5, (1, 1)), (0.5, (7, 9)), (0.02, (61, 83)), (0.98, (61, 83)), (0.0, (300, 200)), (1.0, (300, 200))]


def random_mask(share: float, shape: tuple[int, int]) -> np.ndarray:
    return np.random.default_rng(9041).random(shape) < share


def bit_string(text: str) -> list[int]:
    bits = text.replace(" ", "")
    return [int(bits[start : start + 8].ljust(8, "0"), 2) for start in range(0, len(bits), 8)]


@pytest.mark.parametrize("share, shape", MASKS)
def test_what_is_encoded_is_decoded(share, shape):
    mask = random_mask(share, shape)
    assert np.array_equal(decode_brush(encode_brush(mask), *shape), mask)


def test_single_values_and_other_sizes_of_lengths_are_decoded():
    # 3 pixels: a run of 4 zeros, and 8 values one by one: a faint pixel and a painted one. Lengths have 2 to 7 bits.
    header = f"{12:032b} 00111 0001 0100 0101 0110"
    colours = [10, 20, 30, 127, 10, 20, 30, 128]
    blocks = f"1 00 11 {0:08b} 0 01 {7:05b}" + "".join(f"{value:08b}" for value in colours)
    assert decode_brush(bit_string(header + blocks), 1, 3).tolist() == [[False, False, True]]


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda rle: rle[:-3], "ends before its last pixel"),
        (lambda rle: rle[:4], "has 4 bytes"),
        (lambda rle: [300, *rle[1:]], "not a list of bytes"),
        (lambda rle: ["a"], "not a list of bytes"),
        (lambda rle: [0, 0, 0, 250, *rle[4:]], "holds 250 values of 8 bits, expected 7 × 9 pixels"),
    ],
)
def test_damaged_encodings_are_errors(change, message):
    with pytest.raises(InputError, match=message):
        decode_brush(change(encode_brush(random_mask(0.5, (7, 9)))), 7, 9)


def test_too_many_values_are_an_error():
    rle = bit_string(f"{4:032b} 00111 0010 0011 0111 1111 1 00 111 {0:08b}")
    with pytest.raises(InputError, match="more than its 4 values"):
        decode_brush(rle, 1, 1)


@pytest.fixture(scope="module")
def brush():
    return pytest.importorskip(
        "label_studio_sdk.converter.brush", reason="needs label-studio-sdk: see CONTRIBUTING.md", exc_type=ImportError
    )


@pytest.mark.parametrize("share, shape", MASKS)
def test_label_studio_reads_our_encoding_and_we_read_its(brush, share, shape):
    mask = random_mask(share, shape)
    theirs = brush.decode_rle(encode_brush(mask)).reshape(*shape, 4)
    assert np.array_equal(theirs[..., 3], mask * 255)
    assert np.array_equal(decode_brush(brush.encode_rle(np.repeat(mask.reshape(-1) * 255, 4)), *shape), mask)
