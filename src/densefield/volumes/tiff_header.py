"""The header of a TIFF file: enough to choose its reader without a library."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

PLACE = {33550, 33922, 34264, 34735}  # tags of GeoTIFF: pixel scale, tie points, transformation, keys
BITS, SAMPLES, FORMAT = 258, 277, 339
SHORT, LONG, LONG8 = 3, 4, 16  # types of numbers
UNSIGNED = 1  # value of FORMAT


@dataclass(frozen=True)
class TiffHeader:
    """What the first page of a TIFF file says, and whether there is a second one.

    Parameters
    ----------
    georeferenced
        It has the tags of GeoTIFF.
    samples
        Number of channels.
    bits
        Bits of a number.
    unsigned
        Numbers are unsigned integers.
    several_pages
        There are more pages.
    big
        The file has 64-bit offsets.
    """

    georeferenced: bool
    samples: int
    bits: int
    unsigned: bool
    several_pages: bool
    big: bool

    @property
    def is_photo(self) -> bool:
        """Whether the file is an ordinary picture: one page, grey or RGB, 8 or 16 bits, without a place."""
        plain = not (self.georeferenced or self.several_pages or self.big) and self.unsigned
        return plain and (self.bits <= 8 or (self.bits == 16 and self.samples == 1)) and self.samples in (1, 2, 3, 4)


def read_tiff_header(path: Path) -> TiffHeader | None:
    """The header of a file; None if it is not TIFF, or damaged."""
    try:
        with path.open("rb") as file:
            return _read(file)
    except (OSError, struct.error, OverflowError):
        return None


def _read(file: BinaryIO) -> TiffHeader | None:
    start = file.read(16)
    order = {b"II": "<", b"MM": ">"}.get(start[:2])
    if order is None or len(start) < 8:
        return None
    (version,) = struct.unpack(f"{order}H", start[2:4])
    if version not in (42, 43):
        return None
    big = version == 43
    (offset,) = struct.unpack(f"{order}Q", start[8:16]) if big else struct.unpack(f"{order}I", start[4:8])
    file.seek(offset)
    count_type, size = ("Q", 20) if big else ("H", 12)
    (count,) = struct.unpack(f"{order}{count_type}", file.read(struct.calcsize(count_type)))
    if count > 4096:
        return None
    tags: dict[int, int] = {}
    for _ in range(count):
        entry = file.read(size)
        tag, kind = struct.unpack(f"{order}HH", entry[:4])
        (number,) = struct.unpack(f"{order}{'Q' if big else 'I'}", entry[4 : 12 if big else 8])
        value = entry[12 if big else 8 :]
        if kind == SHORT and number > len(value) // 2:  # elsewhere in the file
            (place,) = struct.unpack(f"{order}{'Q' if big else 'I'}", value)
            back = file.tell()
            file.seek(place)
            value = file.read(2)
            file.seek(back)
        formats = {SHORT: "H", LONG: "I", LONG8: "Q"}
        form = formats.get(kind, "")
        tags[tag] = struct.unpack(f"{order}{form}", value[: struct.calcsize(form)])[0] if form else 0
    (following,) = struct.unpack(f"{order}{'Q' if big else 'I'}", file.read(8 if big else 4))
    return TiffHeader(
        georeferenced=bool(PLACE & tags.keys()),
        samples=tags.get(SAMPLES, 1),
        bits=tags.get(BITS, 1),
        unsigned=tags.get(FORMAT, UNSIGNED) == UNSIGNED,
        several_pages=following != 0,
        big=big,
    )
