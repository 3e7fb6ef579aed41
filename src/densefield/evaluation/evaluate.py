"""A network evaluated alone and with a CRF, image by image, on one process or many."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from densefield.crf.crf_file import crf_to_toml
from densefield.errors import InputError
from densefield.evaluation.cases import draw_cases
from densefield.io.files import read_json, write_atomically
from densefield.io.folders import path_inside
from densefield.io.messages import failure_line
from densefield.metrics.combining import combine_images, image_scores_to_bytes, read_image_scores
from densefield.metrics.image_scores import ImageScores
from densefield.metrics.result import SegmentationResult
from densefield.metrics.summary import summarise, summarise_comparison
from densefield.metrics.verdict import verdict
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.machine import describe_machine
from densefield.runs.opening import identity
from densefield.runs.processes import gathered, this_process
from densefield.runs.score_sources import ScoreSource
from densefield.tuning.measuring import count_image

Method = Literal["network", "crf"]
Progress = Callable[[int, int], None]

NOTES, RESULT, IMAGES = "evaluation.json", "result.json", "images"


def evaluate(
    source: ScoreSource,
    crf: DenseCRF | None,
    folder: Path,
    methods: Sequence[Method] = ("network", "crf"),
    *,
    about: Mapping[str, str] | None = None,
    cases: int = 4,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measures of the network alone, of the CRF on its scores, or of both with their paired difference.

    * ``source``: the scored images, such as those of `open_scores` or `SavedScores`.
    * ``crf``: the CRF; None for the network alone.
    * ``folder``: gets `images/ID.npz`, the counts of each image; `cases/`, pictures of the images that gain and lose
      most by the CRF; and `result.json`, which is also returned. Its `left_out` has a line for each image that could
      not be read or computed, by its id; only if none could, an InputError says why.
    * ``methods``: "network", "crf", or both.
    * ``about``: a description of the scores. Images that have counts in the folder are not counted again where it and
      the CRF are the same.
    * ``cases``: how many of the best and of the worst images are drawn.
    * ``progress``: called with the number of images done and of all.

    Under torchrun each process counts its share, and the first writes the result.
    """
    _check(source, crf, methods, about or {}, folder)
    started = time.monotonic()
    rank, processes = this_process()
    mine: dict[str, dict[str, ImageScores] | str] = {}
    numbers = range(rank, len(source), processes)
    for done, number in enumerate(numbers, start=1):
        name = source.ids[number]
        mine[name] = _counted(source, number, crf, methods, path_inside(folder / IMAGES, f"{name}.npz"))
        if progress is not None:
            progress(done, len(numbers))
    found = gathered(mine)
    # In their order, whichever process counted them.
    images = {name: counts for name in source.ids if not isinstance(counts := found[name], str)}
    left_out = {name: line for name in source.ids if isinstance(line := found[name], str)}
    if not images:
        reason = next(iter(left_out.values()), "there are none.")
        raise InputError(f"none of {len(source)} images could be evaluated: {reason}")
    results = {method: together(images, method, len(source.classes)) for method in methods}
    result: dict[str, Any] = {
        "kind": "evaluation",
        "about": dict(about or {}),
        "classes": list(source.classes),
        "images": list(images),
        "left_out": left_out,
        "crf": None if crf is None or "crf" not in methods else crf_to_toml(crf.to_numpy()),
        "methods": {method: summarise(each) for method, each in results.items()},
        "seconds": round(time.monotonic() - started, 1),
        "machine": describe_machine(),
    }
    if len(results) == 2 and len(images) > 1:
        result["comparison"] = summarise_comparison(results["crf"], results["network"])
        result["verdict"] = verdict(result["comparison"])
    if rank == 0:
        if len(results) == 2 and crf is not None:
            result["cases"] = draw_cases(source, crf, images, cases, folder)
        for name, counts in images.items():  # those of other machines
            if not (folder / IMAGES / f"{name}.npz").exists():
                write_atomically(folder / IMAGES / f"{name}.npz", image_scores_to_bytes(counts))
        write_atomically(folder / RESULT, json.dumps(result, indent=1).encode())
    return result


def together(images: Mapping[str, Mapping[str, ImageScores]], method: str, num_classes: int) -> SegmentationResult:
    """The result of one method over all images."""
    return combine_images({name: counts[method] for name, counts in images.items()}, num_classes)


def read_evaluation(folder: Path) -> tuple[dict[str, Any], dict[str, SegmentationResult]]:
    """What `evaluate` wrote: the result, and that of each method with the counts of its images."""
    path = folder / RESULT
    if not path.exists():
        raise InputError(f"there is no {path}: `densefield eval` writes it.")
    result = read_json(path)
    try:
        methods = list(result["methods"])
        images = {
            name: read_image_scores(path_inside(folder / IMAGES, f"{name}.npz"), methods) for name in result["images"]
        }
        missing = [name for name, counts in images.items() if counts is None]
        if missing:
            raise InputError(f"{folder / IMAGES} lacks the counts of {missing[0]}: run `densefield eval` again.")
        there = {name: counts for name, counts in images.items() if counts is not None}
        return result, {method: together(there, method, len(result["classes"])) for method in methods}
    except Exception as error:  # files of others may hold anything
        raise InputError(f"{failure_line(error, path)} Run `densefield eval` again.") from error


def _counted(
    source: ScoreSource, number: int, crf: DenseCRF | None, methods: Sequence[Method], path: Path
) -> dict[str, ImageScores] | str:
    """The counts of an image by each method, from its file where there is one; or why there are none."""
    known = _known(path, methods, len(source.classes))
    if known is not None:
        return known
    try:
        scored = source[number]
        counts: dict[str, ImageScores] = {
            method: count_image(scored, crf if method == "crf" else None) for method in methods
        }
    except Exception as error:  # one damaged file does not end a folder, whatever a decoder or torch raises
        return failure_line(error, source.ids[number])
    write_atomically(path, image_scores_to_bytes(counts))
    return counts


def _known(path: Path, methods: Sequence[Method], num_classes: int) -> dict[str, ImageScores] | None:
    """The counts that an interrupted evaluation left in a file; None where it is absent or damaged."""
    try:
        known = read_image_scores(path, methods)
        for counts in (known or {}).values():
            combine_images({path.stem: counts}, num_classes)  # which fails for counts that are not those of an image
    except Exception:
        return None
    return known


def _check(
    source: ScoreSource, crf: DenseCRF | None, methods: Sequence[str], about: Mapping[str, str], folder: Path
) -> None:
    """Raises where the folder has counts of something else; notes what it will have counts of."""
    if not methods or len(set(methods)) < len(methods) or not set(methods) <= {"network", "crf"}:
        raise InputError(f"methods are {list(methods)}, expected network, crf, or both.")
    if "crf" in methods and crf is None:
        raise InputError('there is no CRF to evaluate: pass crf=, or methods=("network",) for the network alone.')
    notes = {
        **identity(about),
        "classes": ", ".join(source.classes),
        "crf": crf_to_toml(crf.to_numpy()) if crf is not None and "crf" in methods else "none",
    }
    path = folder / NOTES
    if path.exists():
        known = read_json(path)
        different = [name for name in (*notes, *known) if notes.get(name) != known.get(name)]
        if different:
            raise InputError(
                f"{folder} holds results of other {', '.join(dict.fromkeys(different))}: choose another folder, or "
                "remove it."
            )
    elif this_process()[0] == 0:
        write_atomically(path, json.dumps(notes).encode())
