"""A network evaluated alone and with a CRF, image by image, on one process or many."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from densefield.crf.crf_file import crf_to_toml
from densefield.errors import InputError
from densefield.evaluation.cases import draw_cases
from densefield.io.files import read_json, write_atomically
from densefield.io.folders import path_inside
from densefield.io.messages import failure_line
from densefield.io.progress import Progress
from densefield.metrics.counts import ImageCounts, image_counts_to_bytes, read_image_counts
from densefield.metrics.metrics import SegmentationResult, combine_images
from densefield.metrics.segmentation_metrics import SegmentationMetrics, count_image
from densefield.metrics.summary import summarise, summarise_comparison, verdict
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.distributed import gather, rank_and_world_size
from densefield.runs.environment import describe_environment
from densefield.runs.scored_images import ScoreSource, identity

MethodName = Literal["network", "crf"]

NOTES, RESULT, IMAGES = "evaluation.json", "result.json", "images"


def evaluate(
    source: ScoreSource,
    crf: DenseCRF | None,
    folder: Path,
    methods: Sequence[MethodName] = ("network", "crf"),
    *,
    about: Mapping[str, str] | None = None,
    cases: int = 4,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Metrics of the network alone, of the CRF on its scores, or of both with their paired difference.

    Under torchrun each process evaluates its share of the images, and the first one writes the result.

    Parameters
    ----------
    source
        The scored images, such as those of `open_scores` or `SavedScores`.
    crf
        The CRF; None for the network alone.
    folder
        The folder for `images/ID.npz`, the counts of each image; `cases/`, pictures of the best and worst results and
        of the images whose accuracy the CRF changes most; and `result.json`, which is also returned. Its `left_out` has
        a line for each image that could not be read or computed, by id. An InputError is raised only if no image could.
    methods
        "network", "crf", or both.
    about
        A description of the scores. If it and the CRF are the same, images that have counts in the folder are not
        evaluated again.
    cases
        Number of images of each kind to draw: best and worst results, most improved and most worsened by the CRF.
    progress
        Called with the number of images done and their total number.
    """
    _check(source, crf, methods, about or {}, folder)
    started = time.monotonic()
    rank, processes = rank_and_world_size()
    own: dict[str, dict[str, ImageCounts] | str] = {}
    numbers = range(rank, len(source), processes)
    for done, number in enumerate(numbers, start=1):
        name = source.ids[number]
        own[name] = _counts(source, number, crf, methods, path_inside(folder / IMAGES, f"{name}.npz"))
        if progress is not None:
            progress(done, len(numbers))
    found = {name: counts for part in gather(own) for name, counts in part.items()}
    # In the order of the source, whichever process counted them.
    images = {name: counts for name in source.ids if not isinstance(counts := found[name], str)}
    left_out = {name: line for name in source.ids if isinstance(line := found[name], str)}
    if not images:
        reason = next(iter(left_out.values()), "there are none.")
        raise InputError(f"none of {len(source)} images could be evaluated: {reason}")
    results = _results(images, methods, len(source.classes))
    result: dict[str, Any] = {
        "kind": "evaluation",
        "about": dict(about or {}),
        "classes": list(source.classes),
        "images": list(images),
        "left_out": left_out,
        "crf": None if crf is None or "crf" not in methods else crf_to_toml(crf.to_numpy()),
        "methods": {method: summarise(each) for method, each in results.items()},
        "seconds": round(time.monotonic() - started, 1),
        "machine": describe_environment(),
    }
    if len(results) == 2 and len(images) > 1:
        result["comparison"] = summarise_comparison(results["crf"], results["network"])
        result["verdict"] = verdict(result["comparison"])
    if rank == 0:
        result["cases"] = draw_cases(source, crf, images, cases, folder)
        for name, counts in images.items():  # those of processes on other computers
            if not (folder / IMAGES / f"{name}.npz").exists():
                write_atomically(folder / IMAGES / f"{name}.npz", image_counts_to_bytes(counts))
        write_atomically(folder / RESULT, json.dumps(result, indent=1).encode())
    return result


def evaluate_images(source: ScoreSource, crf: DenseCRF | None, progress: Progress | None = None) -> SegmentationResult:
    """The metrics of all images of a `source` with a `crf`, or of the network alone; `progress` is called per image.

    >>> import torch
    >>> from densefield.scenes.scene import SceneDataset
    >>> from densefield.runs.scored_images import NetworkScores
    >>> constant = lambda image: torch.tensor([2.0, 1.0, 0.0])[None, :, None, None].expand(1, 3, *image.shape[2:])
    >>> source = NetworkScores(constant, SceneDataset(2, size=(96, 96), object_classes=2))
    >>> evaluate_images(source, None).iou[1:]  # the background is predicted everywhere
    array([0., 0.])
    """
    metrics = SegmentationMetrics(len(source.classes))
    for index in range(len(source)):
        scored = source[index]
        metrics.update([scored.log_marginals(crf)], [scored.labels], [scored.id])
        if progress is not None:
            progress(index + 1, len(source))
    return metrics.compute()


def read_evaluation(folder: Path) -> tuple[dict[str, Any], dict[str, SegmentationResult]]:
    """The files of `evaluate` in a `folder`: the content of result.json, and the result of each method."""
    path = folder / RESULT
    if not path.exists():
        raise InputError(f"there is no {path}: `densefield eval` writes it.")
    result = read_json(path)
    try:
        methods = list(result["methods"])
        images = {
            name: read_image_counts(path_inside(folder / IMAGES, f"{name}.npz"), methods) for name in result["images"]
        }
        missing = [name for name, counts in images.items() if counts is None]
        if missing:
            raise InputError(f"{folder / IMAGES} lacks the counts of {missing[0]}: run `densefield eval` again.")
        there = {name: counts for name, counts in images.items() if counts is not None}
        return result, _results(there, methods, len(result["classes"]))
    except Exception as error:  # files of others may hold anything
        raise InputError(f"{failure_line(error, path)} Run `densefield eval` again.") from error


def _results(
    images: Mapping[str, Mapping[str, ImageCounts]], methods: Sequence[str], num_classes: int
) -> dict[str, SegmentationResult]:
    """The result of each method over all images."""
    return {
        method: combine_images(((name, counts[method]) for name, counts in images.items()), num_classes)
        for method in methods
    }


def _counts(
    source: ScoreSource, number: int, crf: DenseCRF | None, methods: Sequence[MethodName], path: Path
) -> dict[str, ImageCounts] | str:
    """The counts of an image by each method, from its file if it is valid; or the reason why there are none."""
    num_classes = len(source.classes)
    try:
        known = read_image_counts(path, methods)
        if known is not None:
            _results({path.stem: known}, methods, num_classes)  # fails for invalid counts
            return known
    except Exception:  # a damaged file: the image is evaluated again
        pass
    try:
        scored = source[number]
        counts: dict[str, ImageCounts] = {
            method: count_image(scored.log_marginals(crf if method == "crf" else None), scored.labels, num_classes)
            for method in methods
        }
    except Exception as error:  # one damaged file does not end a folder, whatever a decoder or torch raises
        return failure_line(error, source.ids[number])
    write_atomically(path, image_counts_to_bytes(counts))
    return counts


def _check(
    source: ScoreSource, crf: DenseCRF | None, methods: Sequence[str], about: Mapping[str, str], folder: Path
) -> None:
    """Raises if the folder has counts of other scores; notes which scores its counts are of."""
    if not methods or len(set(methods)) < len(methods) or not set(methods) <= set(get_args(MethodName)):
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
    elif rank_and_world_size()[0] == 0:
        write_atomically(path, json.dumps(notes).encode())
