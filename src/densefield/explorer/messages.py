"""What goes over the wire: JSON from the page, and bytes of labels with a JSON header to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from starlette.requests import Request
from starlette.responses import Response

from densefield.errors import InputError
from densefield.explorer.gallery import Picture
from densefield.explorer.inference import Result, is_large
from densefield.labels import VOID

MOST_BYTES = 32 << 20  # of a body: scribbles of the largest images, compressed
MOST_DIGITS = 18  # of an integer
QUALITY = 95  # of the photo that the page shows


class TooLargeError(InputError):
    """A body is larger than the limit."""


@dataclass(frozen=True)
class Asked:
    """A request of the page.

    Parameters
    ----------
    client
        The page.
    number
        The number of the request; a newer one of the same page replaces it.
    settings
        What to compute, unchecked.
    body
        All fields.
    """

    client: str
    number: int
    settings: Any
    body: Mapping[str, Any]

    def place(self, name: str, count: int) -> int:
        """The field `name` as an integer from 0 to below `count`."""
        value = self.body.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
            raise InputError(f"{name} is {str(value)[:40]}, expected an integer from 0 to {count - 1}.")
        return value


async def asked(request: Request) -> Asked:
    """The request's body, limited in size and checked."""
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length[:20]) > MOST_BYTES:  # before the body is read
        raise TooLargeError(f"The body is larger than {MOST_BYTES} bytes.")
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > MOST_BYTES:
            raise TooLargeError(f"The body is larger than {MOST_BYTES} bytes.")
    try:
        body = json.loads(bytes(content), parse_constant=_no_constant, parse_int=_integer)
    except (ValueError, RecursionError) as error:
        raise InputError(f"The body is not JSON: {str(error)[:100]}.") from error
    if not isinstance(body, dict):
        raise InputError("The body is not an object, expected one with client, number and settings.")
    client, number = body.get("client"), body.get("number")
    if not isinstance(client, str) or not 0 < len(client) <= 64:
        raise InputError("client is missing, expected a text of 1 to 64 letters.")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 53:
        raise InputError("number is missing, expected an integer from 0.")
    return Asked(client, number, body.get("settings"), body)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits, expected {MOST_DIGITS} or fewer")
    return int(digits)


def packed(header: Mapping[str, Any], *planes: npt.NDArray[np.uint8]) -> Response:
    """The length of the header, the header as JSON, and planes of one byte per pixel.

    Bytes are faster for page and server than any picture: at 375×500 PNG takes longer to write than inference takes.
    """
    text = json.dumps(header).encode()
    content = b"".join([len(text).to_bytes(4, "little"), text, *(plane.tobytes() for plane in planes)])
    return Response(content, media_type="application/octet-stream")


def result_message(result: Result, facts: Mapping[str, Any], *planes: npt.NDArray[np.uint8]) -> Response:
    """The labels of a result: rows in the list of label numbers."""
    header = {"numbers": result.numbers.tolist(), **result.facts, **facts}
    return packed(header, result.rows.astype(np.uint8), *planes)


def labels_message(labels: npt.NDArray[np.integer]) -> Response:
    """Labels (H, W), with -1 for unknown: places in the list of label numbers, and 255 for unknown."""
    known = labels >= 0
    numbers = np.unique(labels[known])
    places = np.where(known, np.searchsorted(numbers, labels), VOID).astype(np.uint8)
    return packed({"numbers": numbers.tolist()}, places)


def describe(picture: Picture) -> dict[str, Any]:
    """What the page has to know about an image."""
    mask, (rows, columns) = picture.mask, picture.size
    numbers: list[int] = []
    if mask is not None:
        present = mask.labels()
        numbers = list(range(len(mask.values))) if mask.values.ndim == 3 else np.unique(present[present >= 0]).tolist()
    return {
        "name": picture.entry.image.name,
        "saved_as": f"{picture.entry.name}.png",
        "rows": rows,
        "columns": columns,
        "mask": None if mask is None else mask.form,
        "numbers": numbers,
        "truth": picture.truth is not None,
        "resized": picture.resized,
        "large": is_large(picture.size),
    }


def jpeg(picture: Picture) -> bytes:
    """The photo as JPEG, for display only."""
    buffer = BytesIO()
    pixels = np.rint(picture.pixels).clip(0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(buffer, "JPEG", quality=QUALITY, subsampling=0)
    return buffer.getvalue()
