"""A network evaluated alone and with a CRF, image by image, on one process or many."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

from densefield.crf.crf_file import crf_to_toml
from densefield.errors import InputError
from densefield.evaluation.cases import CASES, draw_cases
from densefield.evaluation.result import EvaluationResult
from densefield.evaluation.temperatures import temperatures_of, tempered
from densefield.evaluation.views import make_view, write_view
from densefield.io.files import read_json, write_atomically
from densefield.io.folders import path_inside
from densefield.io.messages import failure_line
from densefield.io.progress import Progress
from densefield.metrics.counts import ImageCounts, image_counts_to_bytes, read_image_counts
from densefield.metrics.metrics import SegmentationResult, combine_images
from densefield.metrics.segmentation_metrics import SegmentationMetrics, count_image
from densefield.metrics.summary import summarise, summarise_comparison, verdict
from densefield.nn.crf_objects import CRFLike, as_dense_crf
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.distributed import gather, rank_and_world_size
from densefield.runs.environment import command_line, describe_environment
from densefield.runs.scored_arrays import Triples, is_source, numbered_images
from densefield.runs.scored_images import ScoredImage, ScoreSource, identity

MethodName = Literal["network", "crf"]

NOTES, RESULT, IMAGES = "evaluation.json", "result.json", "images"


def evaluate(
    source: ScoreSource | Triples,
    crf: CRFLike | None = None,
    folder: str | PathLike[str] | None = None,
    methods: Sequence[MethodName] | None = None,
    *,
    classes: Sequence[str] | None = None,
    probabilities: bool = False,
    temperature: float | Mapping[str, float] = 1.0,
    about: Mapping[str, str] | None = None,
    cases: int = 4,
    progress: Progress | None = None,
) -> EvaluationResult:
    """Metrics of the network alone, of the CRF on its scores, or of both with their paired difference.

    Under torchrun each process evaluates its share of the images, and the first one writes the result.

    Parameters
    ----------
    source
        Triples (scores, image, labels) of arrays or tensors, as in `as_score_source`: a list, a dataset, or a
        generator, which is read once, one image at a time, if there is no folder. Or scored images, such as those of
        `open_scores`.
    crf
        The CRF: a `DenseCRF`, a `CRF` or kernels; None for the network alone.
    folder
        The folder for `images/ID.npz`, the counts of each image; `cases/ID.npz`, a small copy of it with its labels
        and confidence for the report; `cases/ID.png`, pictures of the best and worst results and of the images whose
        accuracy the CRF changes most; and `result.json`. Its `left_out` has a line for each image that could not be
        read or computed, by id; an InputError is raised only if no image could. Without a folder no file is written,
        and a triple that cannot be used is an error.
    methods
        "network", "crf", or both; by default both if there is a CRF.
    classes
        The names of the classes of triples, by default numbers.
    probabilities
        The scores of triples are probabilities rather than logits.
    temperature
        Divides the log marginals, as `fit_temperatures` finds it: one for all methods, or one for each by name. Labels
        do not depend on it.
    about
        A description of the scores. If it, the CRF and the temperature are the same, images that have counts in the
        folder are not evaluated again.
    cases
        Number of images of each kind to draw: best and worst results, most improved and most worsened by the CRF.
    progress
        Called with the number of images done and their total number.

    Examples
    --------
    >>> import numpy as np
    >>> from densefield import Bilateral
    >>> labels = np.arange(24)[None].repeat(20, axis=0) // 12
    >>> image = np.stack([200 * labels] * 3, axis=-1)
    >>> noise = np.random.default_rng(7).normal(size=(3, 2, 20, 24))
    >>> triples = [(np.stack([1 - labels, labels]) + each, image, labels) for each in noise]
    >>> result = evaluate(triples, [Bilateral(10, 10, weight=3)])
    >>> result.methods["network"].mean_iou < 0.8, result.methods["crf"].mean_iou > 0.95
    (True, True)
    """
    strict = folder is None and not is_source(source)  # arrays of a program, not files of which some may be damaged
    folder = None if folder is None else Path(folder)
    scored = numbered_images(source, classes, probabilities, keep=folder is not None)
    num_classes = len(scored.classes)
    crf = None if crf is None else as_dense_crf(crf, num_classes)
    both: Sequence[MethodName] = ("network",) if crf is None else ("network", "crf")
    chosen = both if methods is None else methods
    _check_methods(crf, chosen)
    temperatures = temperatures_of(temperature, chosen)
    if folder is not None:
        _check_folder(folder, scored.classes, crf if "crf" in chosen else None, about or {}, temperatures)
    started = time.monotonic()
    rank, processes = rank_and_world_size()
    own: dict[str, dict[str, ImageCounts] | str] = {}
    share = len(range(rank, scored.total, processes))
    for number, (name, load) in enumerate(scored.items):
        if number % processes != rank:
            continue
        own[name] = _counts(name, load, crf, temperatures, num_classes, folder, strict=strict)
        if progress is not None:
            progress(len(own), share)
    found = {name: counts for part in gather(own) for name, counts in part.items()}
    # In the order of the source, whichever process counted them.
    names = sorted(found) if scored.source is None else scored.source.ids
    images = {name: counts for name in names if not isinstance(counts := found[name], str)}
    left_out = {name: line for name in names if isinstance(line := found[name], str)}
    if not images:
        reason = next(iter(left_out.values()), "there are none.")
        raise InputError(f"none of {len(names)} images could be evaluated: {reason}")
    results = _results(images, chosen, num_classes)
    result: dict[str, Any] = {
        "kind": "evaluation",
        "about": dict(about or {}),
        "classes": list(scored.classes),
        "images": list(images),
        "left_out": left_out,
        "crf": None if crf is None or "crf" not in chosen else crf_to_toml(crf.to_numpy()),
        "temperatures": temperatures,
        "methods": {method: summarise(each) for method, each in results.items()},
        "cases": [],
        "seconds": round(time.monotonic() - started, 1),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": command_line(),
        "machine": describe_environment(),
    }
    if len(results) == 2 and len(images) > 1:
        result["comparison"] = summarise_comparison(results["crf"], results["network"])
        result["verdict"] = verdict(result["comparison"])
    if rank == 0 and folder is not None and scored.source is not None:
        result["cases"] = draw_cases(scored.source, crf, images, cases, folder)
        for name, counts in images.items():  # those of processes on other computers
            if not (folder / IMAGES / f"{name}.npz").exists():
                write_atomically(folder / IMAGES / f"{name}.npz", image_counts_to_bytes(counts))
        write_atomically(folder / RESULT, json.dumps(result, indent=1).encode())
    return EvaluationResult(result, results)


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
    name: str,
    load: Callable[[], ScoredImage],
    crf: DenseCRF | None,
    temperatures: Mapping[str, float],  # of the methods
    num_classes: int,
    folder: Path | None,
    *,
    strict: bool,
) -> dict[str, ImageCounts] | str:
    """The counts of an image by each method, from its file if it is valid; or the reason why there are none.

    The file of counts is written last: if it exists, so does the view of the image.
    """
    path = None if folder is None else path_inside(folder / IMAGES, f"{name}.npz")
    methods = list(temperatures)
    try:
        known = None if path is None else read_image_counts(path, methods)
        if path is not None and known is not None:
            _results({path.stem: known}, methods, num_classes)  # fails for invalid counts
            return known
    except Exception:  # a damaged file: the image is evaluated again
        pass
    try:
        scored, log_q, seconds = load(), {}, None
        if "network" in methods:
            log_q["network"] = scored.log_marginals(None)
        if "crf" in methods:
            started = time.perf_counter()
            log_q["crf"] = scored.log_marginals(crf)
            seconds = time.perf_counter() - started
        log_q = {method: tempered(each, temperatures[method]) for method, each in log_q.items()}
        counts: dict[str, ImageCounts] = {
            method: count_image(log_q[method], scored.labels, num_classes) for method in methods
        }
        view = None if folder is None else make_view(scored, log_q, seconds)
    except Exception as error:  # one damaged file does not end a folder, whatever a decoder or torch raises
        if strict:
            raise
        return failure_line(error, name)
    if folder is not None and path is not None and view is not None:
        write_view(path_inside(folder / CASES, f"{name}.npz"), view)
        write_atomically(path, image_counts_to_bytes(counts))
    return counts


def _check_methods(crf: DenseCRF | None, methods: Sequence[str]) -> None:
    """Raises unless the methods are known and there is a CRF if it is one of them."""
    if not methods or len(set(methods)) < len(methods) or not set(methods) <= set(get_args(MethodName)):
        raise InputError(f"methods are {list(methods)}, expected network, crf, or both.")
    if "crf" in methods and crf is None:
        raise InputError('there is no CRF to evaluate: pass crf=, or methods=("network",) for the network alone.')


def _check_folder(
    folder: Path,
    classes: Sequence[str],
    crf: DenseCRF | None,
    about: Mapping[str, str],
    temperatures: Mapping[str, float],
) -> None:
    """Raises if the folder has counts of other scores; notes which scores its counts are of."""
    notes = {
        **identity(about),
        "classes": ", ".join(classes),
        "crf": "none" if crf is None else crf_to_toml(crf.to_numpy()),
    }
    if set(temperatures.values()) != {1.0}:
        notes["temperature"] = json.dumps(temperatures)
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
