"""The images of evaluations, packed for the browser: photo, true labels, and the results of every method."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from densefield.errors import InputError
from densefield.evaluation.cases import CASES
from densefield.evaluation.views import LEVELS, View, read_view, shrink_labels, size_within, to_jpeg
from densefield.io.folders import path_inside
from densefield.io.messages import cause
from densefield.labels import VOID
from densefield.metrics.metrics import iou, mean_iou, pixel_accuracy
from densefield.report.class_colours import class_colours
from densefield.report.collecting import Evaluated, Findings

SIDES = (480, 400, 320, 240, 160)  # longest side of a picture: the largest with which the page is within the limit
MAX_BYTES = 24_000_000  # of all pictures of the page
LEVEL = 7  # of zlib: 9 takes five times as long, and saves a tenth of the maps


@dataclass(frozen=True)
class Gallery:
    """What the browser draws: a table of the images as JSON, and a JSON text for each with its pictures."""

    index: dict[str, Any]
    pictures: list[str]
    side: int  # the longest side of the pictures
    notes: list[str]


@dataclass
class _Entry:
    """An image with the views of all evaluations that have it with the same true labels."""

    id: str
    view: View  # of the first evaluation, for photo and truth
    labels: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict)  # by number of the method
    confidence: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict)
    numbers: dict[int, dict[str, Any]] = field(default_factory=dict)


def make_gallery(found: Findings) -> Gallery | None:
    """The images of all evaluations that stored views; None if none did."""
    entries: dict[tuple[str, bytes], _Entry] = {}
    missing: dict[str, int] = {}
    for name, folder, result in found.evaluations:
        of_name = {method.method: number for number, method in enumerate(found.methods) if method.name == name}
        measured = {method: _numbers(found.methods[number]) for method, number in of_name.items()}
        for place, id in enumerate(result["images"]):
            view = read_view(path_inside(folder / CASES, f"{id}.npz"), list(of_name), len(found.classes))
            if view is None:
                missing[name] = missing.get(name, 0) + 1
                continue
            entry = entries.setdefault((id, view.truth.tobytes()), _Entry(id, view))
            for method, number in of_name.items():
                entry.labels[number], entry.confidence[number] = view.labels[method], view.confidence[method]
                entry.numbers[number] = measured[method][place]
    notes = [
        f"{name}: {count} images have no pictures. Evaluations of earlier versions did not store them; "
        "`densefield eval` into a new folder does."
        for name, count in missing.items()
    ]
    if not entries:
        return None
    kept = list(entries.values())
    pictures, side = _packed(kept)
    if sum(map(len, pictures)) > MAX_BYTES:
        count = max(1, int(len(kept) * MAX_BYTES / sum(map(len, pictures))))
        places = [number * len(kept) // count for number in range(count)]
        notes.append(f"The page has {count} of {len(kept)} images, evenly chosen, to stay small.")
        kept, pictures = [kept[place] for place in places], [pictures[place] for place in places]
    return Gallery(_index(found, kept), pictures, side, notes)


def _numbers(method: Evaluated) -> list[dict[str, Any]]:
    """Of each image: mean IoU, accuracy, and the IoU of each label that is true or predicted."""
    images = method.result.per_image
    ious, means, accuracies = iou(images), mean_iou(images), pixel_accuracy(images)
    return [
        {
            "mean": _rounded(means[number]),
            "accuracy": _rounded(accuracies[number]),
            "iou": {str(label): _rounded(row[label]) for label in np.flatnonzero(~np.isnan(row))},
        }
        for number, row in enumerate(ious)
    ]


def _rounded(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)


def _index(found: Findings, entries: Sequence[_Entry]) -> dict[str, Any]:
    names = [name for name, _, _ in found.evaluations]
    crfs = [number for number, method in enumerate(found.methods) if method.method == "crf"]
    after = crfs[-1] if crfs else len(found.methods) - 1
    alone = [n for n, each in enumerate(found.methods) if each.name == found.methods[after].name and n != after]
    return {
        "classes": list(found.class_titles),
        "colours": class_colours(len(found.classes)),
        "background": _background(found),
        "void": VOID,
        "levels": LEVELS,
        "methods": [{"title": each.title, "run": names.index(each.name)} for each in found.methods],
        "before": alone[0] if alone else 0,
        "after": after,
        "images": [
            {
                "id": entry.id,
                "labels": [int(label) for label in np.unique(entry.view.truth) if label != VOID],
                "results": entry.numbers,
            }
            for entry in entries
        ],
    }


def _background(found: Findings) -> list[int]:
    """The labels that are not painted: those with such a name, or 0 if the classes are called by their numbers."""
    if found.are_numbered:
        return [0]
    return [label for label, name in enumerate(found.classes) if name.lower() in ("background", "ground")]


def _packed(entries: Sequence[_Entry]) -> tuple[list[str], int]:
    """The JSON of each image's pictures, and the largest side with which all are within the limit."""
    for side in SIDES:
        pictures, total = [], 0
        for entry in entries:
            pictures.append(_picture(entry, side))
            total += len(pictures[-1])
            if total > MAX_BYTES and side != SIDES[-1]:
                break
        else:
            break
    return pictures, side


def _picture(entry: _Entry, side: int) -> str:
    view = entry.view
    size = size_within(view.size, side)
    half = (-(-size[0] // 2), -(-size[1] // 2))
    labels: Mapping[int, str] = {number: _deflated(each, size) for number, each in entry.labels.items()}
    confidence = {number: _deflated(each, half) for number, each in entry.confidence.items()}
    return json.dumps(
        {
            "width": size[0],
            "height": size[1],
            "photo": _base64(view.photo if size == view.size else _shrunk_photo(entry.id, view.photo, size)),
            "truth": _deflated(view.truth, size),
            "labels": labels,
            "confidence": confidence,
        },
        separators=(",", ":"),
    )


def _shrunk_photo(id: str, content: bytes, size: tuple[int, int]) -> bytes:
    try:
        with Image.open(BytesIO(content), formats=["JPEG"]) as photo:
            return to_jpeg(photo.convert("RGB"), size)
    except Exception as error:  # a damaged file may raise anything
        raise InputError(f"{Path(CASES, id)}.npz: the photo cannot be read: {cause(error)}.") from error


def _deflated(values: npt.NDArray[np.uint8], size: tuple[int, int]) -> str:
    """A map of this width and height, deflated, as the browser's DecompressionStream reads it."""
    shrunk = values if values.shape[::-1] == size else shrink_labels(values, size)
    return _base64(zlib.compress(shrunk.tobytes(), LEVEL))


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
