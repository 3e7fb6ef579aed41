"""The settings of the page: checked values of one JSON object."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from densefield.crf.crf_tables import crf_from_tables
from densefield.crf.kernels import Custom
from densefield.crf.model import CRF
from densefield.errors import InputError
from densefield.labels import VOID

Model = Literal["learnt", "kernels"]
Source = Literal["mask", "scribbles", "both"]

MOST_ITERATIONS = 500  # that the page can ask for
MOST_KERNELS = 8
DATA_RANGE = 255.0  # images are read as 0…255


@dataclass(frozen=True)
class Settings:
    """What the page asks to compute.

    Parameters
    ----------
    model
        "learnt" for the default of `densefield.refine`, "kernels" for a CRF with kernels.
    crf
        The CRF of the model "kernels".
    iterations
        Number of iterations, of either model.
    roughness
        That of `refine`, for the model "learnt" and masks of labels; None estimates it.
    confidence
        Probability that a label of the mask is correct, for the model "kernels".
    temperature
        Divisor of logits and of logarithms of probabilities.
    source
        What labels come from: the mask, the scribbles, or scribbles over the mask.
    scribble_confidence
        Probability that a painted label is correct.
    scribbles
        The painted labels as the page packs them: base64 of zlib of one byte per pixel, 255 where nothing is painted.
    """

    model: Model = "learnt"
    crf: CRF | None = None
    iterations: int = 5
    roughness: float | None = None
    confidence: float = 0.7
    temperature: float = 1.0
    source: Source = "mask"
    scribble_confidence: float = 0.9999
    scribbles: str = ""

    def painted(self, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
        """The painted labels (H, W), 255 where nothing is painted."""
        return unpacked_scribbles(self.scribbles, size)


def settings_from_json(given: object, threads: int | None = None) -> Settings:
    """Checks the object that the page sent; errors name the value.

    >>> settings_from_json({"model": "learnt", "roughness": 3}).roughness
    3.0
    >>> settings_from_json({"model": "learned"})
    Traceback (most recent call last):
        ...
    densefield.errors.InputError: model is 'learned', expected one of learnt, kernels.
    """
    if not isinstance(given, Mapping):
        raise InputError(f"the settings are {_short(given)}, expected an object.")
    known = set(Settings.__dataclass_fields__)
    for name in given:
        if name not in known:
            raise InputError(f"the settings have an unknown key {_short(name)}, expected {', '.join(sorted(known))}.")
    model = _choice(given, "model", get_args(Model), "learnt")
    source = _choice(given, "source", get_args(Source), "mask")
    roughness = given.get("roughness")
    scribbles = given.get("scribbles", "")
    if not isinstance(scribbles, str):
        raise InputError(f"scribbles are {_short(scribbles)}, expected a text.")
    iterations = int(_number(given, "iterations", 5, 0, MOST_ITERATIONS, whole=True))
    return Settings(
        model=model,
        crf=_crf(given.get("crf"), iterations, threads) if model == "kernels" else None,
        iterations=iterations,
        roughness=None if roughness is None else _number(given, "roughness", 1, 0.01, 1e5),
        confidence=_number(given, "confidence", 0.7, 0.001, 0.999999),
        temperature=_number(given, "temperature", 1, 0.001, 1e6),
        source=source,
        scribble_confidence=_number(given, "scribble_confidence", 0.9999, 0.001, 0.999999),
        scribbles=scribbles,
    )


def canonical(given: object) -> str:
    """The same text for equal settings."""
    return json.dumps(given, sort_keys=True)


def _crf(tables: object, iterations: int, threads: int | None) -> CRF:
    if not isinstance(tables, Mapping):
        raise InputError(f"crf is {_short(tables)}, expected an object with a list of kernels.")
    kernels = tables.get("kernels")
    if isinstance(kernels, list) and len(kernels) > MOST_KERNELS:
        raise InputError(f"there are {len(kernels)} kernels, expected {MOST_KERNELS} or fewer.")
    crf = crf_from_tables({**tables, "iterations": iterations}, data_range=DATA_RANGE, threads=threads)
    for kernel in crf.kernels:
        if isinstance(kernel, Custom):
            raise InputError(
                f"a kernel compares {kernel.feature!r}, but the explorer has positions and colours alone: expected "
                "kernels of the kinds spatial and bilateral."
            )
    return crf


def _choice(given: Mapping[str, Any], name: str, choices: tuple[Any, ...], default: str) -> Any:
    value = given.get(name, default)
    if value not in choices:
        raise InputError(f"{name} is {_short(value)}, expected one of {', '.join(choices)}.")
    return value


def _number(given: Mapping[str, Any], name: str, default: float, low: float, high: float, whole: bool = False) -> float:
    value = given.get(name, default)
    kind = "an integer" if whole else "a number"
    right = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not right or not low <= value <= high:  # false for NaN too
        raise InputError(f"{name} is {_short(value)}, expected {kind} from {low:g} to {high:g}.")
    return float(value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


@lru_cache(maxsize=4)
def unpacked_scribbles(packed: str, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """The painted labels (H, W) of base64 text; "" is an empty layer.

    >>> text = base64.b64encode(zlib.compress(bytes([255, 1]))).decode()
    >>> unpacked_scribbles(text, (1, 2)).tolist()
    [[255, 1]]
    """
    rows, columns = size
    if not packed:
        return np.full(size, VOID, np.uint8)
    try:
        inflate = zlib.decompressobj()
        content = inflate.decompress(base64.b64decode(packed, validate=True), rows * columns + 1)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise InputError(f"the scribbles cannot be read: {error}.") from error
    if len(content) != rows * columns or not inflate.eof:
        raise InputError(f"the scribbles are not one byte for each of {rows * columns} pixels.")
    return np.frombuffer(content, np.uint8).reshape(size)
