"""A small copy of an image, its true labels and its results, from which the report draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from torch import Tensor

from densefield.errors import InputError
from densefield.io.files import write_atomically
from densefield.io.untrusted import read_array
from densefield.labels import VOID
from densefield.runs.scored_images import ScoredImage

SIDE = 480  # pixels: the longest side of a view
QUALITY = 75  # of its JPEG
LEVELS = 16  # of confidence: level k is k/16 … (k + 1)/16

Map = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class View:
    """An image as JPEG, with maps of its true labels and of the results of each method."""

    photo: bytes  # JPEG of W×H pixels
    truth: Map  # (H, W), 255 is void
    labels: dict[str, Map]  # of each method, (H, W)
    confidence: dict[str, Map]  # of each method, (⌈H/2⌉, ⌈W/2⌉): the largest marginal in LEVELS levels
    seconds: float | None  # spent in the CRF

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        height, width = self.truth.shape
        return width, height


def make_view(scored: ScoredImage, log_q: Mapping[str, Tensor], seconds: float | None) -> View:
    """The view of a scored image from the log marginals (L, H, W) of each method, shrunk to SIDE if it is larger."""
    photo = Image.fromarray(np.ascontiguousarray(scored.image.movedim(0, -1).numpy()))
    size = size_within(photo.size, SIDE)
    labels, confidence = {}, {}
    for method, each in log_q.items():
        top, best = each.max(dim=0)
        labels[method] = shrink_labels(best.cpu().numpy().astype(np.uint8), size)
        half = (-(-size[0] // 2), -(-size[1] // 2))
        mean = np.asarray(Image.fromarray(top.exp().cpu().numpy()).resize(half, Image.Resampling.BOX))
        confidence[method] = np.clip(mean * LEVELS, 0, LEVELS - 1).astype(np.uint8)
    truth = shrink_labels(scored.labels.cpu().numpy().astype(np.uint8), size)
    return View(to_jpeg(photo, size), truth, labels, confidence, seconds)


def size_within(size: tuple[int, int], side: int) -> tuple[int, int]:
    """The size of an image whose longest side is shrunk to `side`; smaller images keep theirs.

    >>> size_within((500, 375), 480), size_within((96, 80), 480)
    ((480, 360), (96, 80))
    """
    factor = min(1.0, side / max(size))
    return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))


def shrink_labels(labels: Map, size: tuple[int, int]) -> Map:
    """The labels of the nearest pixels, for a new width and height."""
    return np.asarray(Image.fromarray(labels).resize(size, Image.Resampling.NEAREST))


def to_jpeg(photo: Image.Image, size: tuple[int, int]) -> bytes:
    """A photo of this width and height as JPEG."""
    buffer = BytesIO()
    photo.resize(size, Image.Resampling.LANCZOS).save(buffer, "JPEG", quality=QUALITY, optimize=True)
    return buffer.getvalue()


def write_view(path: Path, view: View) -> None:
    """Writes a view as .npz."""
    arrays: dict[str, Any] = {"photo": np.frombuffer(view.photo, np.uint8), "truth": view.truth}
    for method, labels in view.labels.items():
        arrays |= {f"{method}.labels": labels, f"{method}.confidence": view.confidence[method]}
    if view.seconds is not None:
        arrays["crf.seconds"] = np.array(view.seconds)
    buffer = BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_atomically(path, buffer.getvalue())


def read_view(path: Path, methods: Sequence[str], num_classes: int) -> View | None:
    """The view in a file with the results of these methods; None if there is no file.

    The file may come from anybody: all parts of it are checked.
    """
    if not path.exists():
        return None
    content = _read(path, "photo").tobytes()
    truth = _read_map(path, "truth", num_classes)
    try:  # the header alone, without decoding
        with Image.open(BytesIO(content), formats=["JPEG"]) as photo:
            size = photo.size
    except Exception as error:
        raise InputError(f"{path}: the photo is not a JPEG: {error}.") from error
    if truth.shape[::-1] != size:
        raise InputError(f"{path}: the photo has {size[0]}×{size[1]} pixels, the labels have {truth.shape[::-1]}.")
    labels = {method: _read_map(path, f"{method}.labels", num_classes, truth.shape) for method in methods}
    half = (-(-size[1] // 2), -(-size[0] // 2))
    confidence = {method: _read_map(path, f"{method}.confidence", LEVELS, half) for method in methods}
    return View(content, truth, labels, confidence, read_crf_seconds(path) if "crf" in methods else None)


def read_crf_seconds(path: Path) -> float | None:
    """The seconds that the CRF took, as stored in a view; None if they are not."""
    try:
        seconds = _read(path, "crf.seconds")
    except InputError:
        return None
    return float(seconds) if seconds.shape == () and seconds.dtype.kind == "f" and seconds >= 0 else None


def _read(path: Path, name: str) -> npt.NDArray[Any]:
    def choose(names: list[str]) -> str:
        if name not in names:
            raise InputError(f"{path} has no array {name}.")
        return name

    return read_array(path, choose)[1]


def _read_map(path: Path, name: str, count: int, shape: tuple[int, ...] | None = None) -> Map:
    """A map of numbers below `count`; true labels may also be void."""
    values = _read(path, name)
    if values.dtype != np.uint8 or values.ndim != 2 or values.size == 0 or shape not in (None, values.shape):
        raise InputError(f"{path}: {name} is {values.dtype} of shape {values.shape}, expected uint8 of {shape}.")
    wrong = values >= count
    if shape is None:
        wrong &= values != VOID
    if wrong.any():
        raise InputError(f"{path}: {name} has the value {values[wrong][0]}, expected less than {count}.")
    return values
