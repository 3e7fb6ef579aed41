"""The run-length encoding of Label Studio's brush regions.

The bytes are a stream of bits: the number of values (32 bits), the size of a value minus one (5), and four sizes of
lengths minus one (4 each). Blocks follow: one bit, the number of one of the four sizes (2), a length minus one of that
size, and either one value that is repeated (first bit 1), or as many values (first bit 0). The values are the pixels,
four channels each: red, green, blue and alpha. Alpha is the mask.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from densefield.errors import InputError

CHANNELS = 4
VALUE_BITS = 8
LENGTH_BITS = (3, 4, 8, 16)
HEADER_BITS = 32 + 5 + 4 * 4
PAINTED = 128  # least alpha of a painted pixel


def decode_brush(rle: Sequence[int], height: int, width: int) -> npt.NDArray[np.bool_]:
    """The mask (H, W) of a brush region; raises unless it has this size.

    Parameters
    ----------
    rle
        The bytes, the region's ``value["rle"]``.
    height, width
        The region's ``original_height`` and ``original_width``.

    >>> mask = np.array([[False, True, True], [False, False, True]])
    >>> bool((decode_brush(encode_brush(mask), 2, 3) == mask).all())
    True
    """
    try:
        if not isinstance(rle, Sequence):  # bytes() of an integer are as many zeros
            raise TypeError
        data = bytes(rle)
    except (TypeError, ValueError):
        raise InputError("the rle of a brush region is not a list of bytes 0…255: export it again.") from None
    if len(data) * 8 < HEADER_BITS:
        raise InputError(f"the rle of a brush region has {len(data)} bytes, expected {HEADER_BITS // 8 + 1} or more.")

    def read(place: int, count: int) -> int:
        end = place + count
        if end > len(data) * 8:
            raise InputError("the rle of a brush region ends before its last pixel: export it again.")
        part = int.from_bytes(data[place // 8 : (end + 7) // 8], "big")
        return part >> (-end % 8) & ((1 << count) - 1)

    number, value_bits = read(0, 32), read(32, 5) + 1
    if number != height * width * CHANNELS or value_bits != VALUE_BITS:
        raise InputError(
            f"the rle of a brush region holds {number} values of {value_bits} bits, expected {height} × {width} pixels "
            f"of {CHANNELS} values of {VALUE_BITS} bits: its original_width or original_height is wrong."
        )
    length_bits = [read(37 + 4 * each, 4) + 1 for each in range(4)]
    bits = np.unpackbits(np.frombuffer(data, np.uint8))
    values = np.empty(number, np.uint8)
    done, place = 0, HEADER_BITS
    while done < number:
        repeated, size = read(place, 1), length_bits[read(place + 1, 2)]
        length = read(place + 3, size) + 1
        place += 3 + size
        if done + length > number:
            raise InputError(f"the rle of a brush region holds more than its {number} values: export it again.")
        if repeated:
            values[done : done + length] = read(place, VALUE_BITS)
            place += VALUE_BITS
        else:
            end = place + length * VALUE_BITS
            if end > len(bits):
                raise InputError("the rle of a brush region ends before its last pixel: export it again.")
            values[done : done + length] = np.packbits(bits[place:end])
            place = end
        done += length
    painted: npt.NDArray[np.bool_] = values.reshape(height, width, CHANNELS)[..., 3] >= PAINTED
    return painted


def encode_brush(mask: npt.NDArray[np.bool_]) -> list[int]:
    """The bytes of a brush region with this mask.

    Parameters
    ----------
    mask
        (H, W): True for painted pixels.

    >>> len(encode_brush(np.ones((300, 400), bool)))
    34
    """
    values = mask.reshape(-1)
    ends = np.append(np.flatnonzero(values[1:] != values[:-1]) + 1, values.size)
    lengths = np.diff(ends, prepend=0) * CHANNELS
    most = 1 << LENGTH_BITS[-1]
    pieces = -(-lengths // most)  # a long run has several blocks
    last = np.cumsum(pieces) - 1
    painted = np.repeat(values[ends - 1], pieces)
    blocks = np.full(len(painted), most)
    blocks[last] = lengths - (pieces - 1) * most
    number = np.searchsorted([1 << each for each in LENGTH_BITS], blocks)
    sizes = np.array(LENGTH_BITS)[number]
    widths = 3 + sizes + VALUE_BITS
    # One integer for each block: 1, the number of the size, the length, and the value.
    codes = (((4 + number) << sizes | (blocks - 1)) << VALUE_BITS) | np.where(painted, 255, 0)
    starts = np.cumsum(widths) - widths + HEADER_BITS
    bits = np.zeros(HEADER_BITS + int(widths.sum()), np.uint8)
    header = values.size * CHANNELS
    for each, count in ((VALUE_BITS - 1, 5), *((size - 1, 4) for size in LENGTH_BITS)):
        header = header << count | each
    bits[:HEADER_BITS] = [header >> shift & 1 for shift in range(HEADER_BITS - 1, -1, -1)]
    for place in range(int(widths.max())):
        part = place < widths
        bits[(starts + place)[part]] = codes[part] >> (widths[part] - 1 - place) & 1
    found: list[int] = np.packbits(bits).tolist()
    return found
