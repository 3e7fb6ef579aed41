"""Files of Label Studio: a JSON export and its images in, tasks with predictions and masks out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from densefield.errors import InputError
from densefield.images.reading import read_image
from densefield.images.writing import encoded_labels
from densefield.integrations.label_studio import Mode, Regions, dense_prediction, drawn_labels
from densefield.integrations.label_studio_regions import drawn_side, is_region, only_label, shortened
from densefield.io.files import write_atomically
from densefield.io.folders import path_inside
from densefield.io.messages import cause, printable

UPLOAD_PREFIX = re.compile("[0-9a-f]{8}-")  # before the names of uploaded files


def refine_label_studio_export(
    export: Path,
    images: Path,
    output: Path,
    *,
    masks: Path | None = None,
    mode: Mode = "scribbles",
    labels: Sequence[str] | None = None,
    background: str | None = None,
    from_name: str | None = None,
) -> int:
    """Writes tasks with predictions as JSON, for import into Label Studio, from a JSON export; returns their number.

    Tasks without annotations, or whose annotations are cancelled, are left out. Of several annotations, the last
    counts. Nothing is written if a task cannot be used.

    Parameters
    ----------
    export
        The file of Label Studio's export as JSON (not JSON-MIN).
    images
        The folder of the images: files of the names at the end of the tasks' addresses, with or without the prefix that
        an upload adds.
    output
        The file to write.
    masks
        A folder for a PNG of each task too, named like its image: indices into `labels` from 1, and 0 for no label.
    mode, labels, background, from_name
        Those of label_studio_prediction(). `labels` are by default all that occur in the export.
    """
    tasks = _tasks(export)
    annotated = []
    for place, task in enumerate(tasks, start=1):
        name = f"task {f'number {place}' if task.get('id') is None else printable(str(task['id']))} of {export}"
        with _naming(name):
            regions = _regions(task)
            if regions is not None:
                annotated.append((name, task, regions))
    if not annotated:
        raise InputError(f"{export} has {len(tasks)} tasks, but none with an annotation: annotate and export again.")
    if labels is None:
        found = set()
        for name, _, regions in annotated:
            with _naming(name):
                found |= {only_label(region) for region in regions if is_region(region)}
        labels = sorted(found)
    results, pictures = [], {}  # pictures are encoded: those of an export may exceed the memory
    for name, task, regions in annotated:
        with _naming(name):
            path = _image_path(task, images)
            image = read_image(path, _size(regions))
            drawn = drawn_labels(regions, (image.shape[0], image.shape[1]), labels)
            prediction, dense = dense_prediction(image, drawn, mode, background, from_name)
        results.append({"id": task.get("id"), "data": task["data"], "predictions": [prediction]})
        if masks is not None:
            target = masks / f"{path.stem}.png"
            if target in pictures:
                raise InputError(f"two tasks of {export} have the image {path.name}, but masks are named like images.")
            pictures[target] = encoded_labels(dense)
    for target, content in pictures.items():
        write_atomically(target, content)
    write_atomically(output, json.dumps(results).encode())
    return len(results)


def _tasks(export: Path) -> list[dict[str, Any]]:
    try:
        tasks = json.loads(export.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {export}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{export} cannot be read as JSON: {cause(error)}.") from error
    whole = isinstance(tasks, list) and all(isinstance(task, dict) and "data" in task for task in tasks)
    if not whole or any("annotations" not in task for task in tasks):
        raise InputError(f"{export} is not a list of tasks with data and annotations: export as JSON, not JSON-MIN.")
    return tasks  # type: ignore[no-any-return]


@contextmanager
def _naming(task: str) -> Iterator[None]:
    """Errors begin with the name of a task."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{task}: {error}") from error


def _regions(task: dict[str, Any]) -> Regions | None:
    """The regions of the last annotation of a task that is not cancelled; raises unless the task is well-formed."""
    data, annotations = task["data"], task["annotations"]
    if not isinstance(data, dict):
        raise InputError(f"the data are {shortened(data)}, expected an object with the address of the image.")
    if not isinstance(annotations, list):
        raise InputError(f"the annotations are {shortened(annotations)}, expected a list of objects: export again.")
    for each in annotations:
        if not isinstance(each, dict):
            raise InputError(f"an annotation is {shortened(each)}, expected an object: export again.")
        if not isinstance(each.get("result"), list | None):
            came = shortened(each["result"])
            raise InputError(f"the result of an annotation is {came}, expected a list of objects: export again.")
    valid = [each for each in annotations if not each.get("was_cancelled") and each.get("result")]
    return valid[-1]["result"] if valid else None


def _size(regions: Regions) -> tuple[int, int] | None:
    """Rows and columns of the image that regions were drawn on, if they say so."""
    for region in filter(is_region, regions):
        rows, columns = drawn_side(region, "original_height"), drawn_side(region, "original_width")
        if rows is not None and columns is not None:
            return rows, columns
    return None


def _image_path(task: dict[str, Any], images: Path) -> Path:
    """The file of a task's image."""
    for value in task["data"].values():
        if not isinstance(value, str):
            continue
        for candidate in _file_names(value):
            if candidate and ".." not in candidate.split("/"):
                path = path_inside(images, candidate)
                if _is_file(path):
                    return path
    raise InputError(
        f"there is no image in {images} for the data {shortened(task['data'])}: put it there under its name."
    )


def _file_names(address: str) -> Sequence[str]:
    """The names that the file at an address may have; none if it is no address."""
    try:
        parts = urlsplit(address)
        address.encode()
    except ValueError:  # a text, or no text that a name of a file can be
        return ()
    name = parse_qs(parts.query).get("d", [parts.path])[0].replace("\\", "/").lstrip("/")
    last = name.rsplit("/", 1)[-1]
    return name, last, UPLOAD_PREFIX.sub("", last, count=1)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a text that is too long for a name
        return False
