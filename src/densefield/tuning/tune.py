"""A CRF tuned on fixed scores, as Chen et al. train it, and evaluated on held-out images."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timezone
from functools import partial
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from densefield.crf.crf_file import write_crf
from densefield.crf.kernels import Bilateral, Kernel, Spatial
from densefield.datasets.sample import Subset
from densefield.errors import InputError
from densefield.evaluation.evaluation import evaluate_images
from densefield.io.files import read_json, write_atomically
from densefield.io.messages import failure_line
from densefield.io.progress import Progress, StageProgress
from densefield.metrics.metrics import SegmentationResult
from densefield.metrics.summary import summarise, summarise_comparison, verdict
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.environment import command_line, describe_environment
from densefield.runs.scored_arrays import Triples, as_score_source
from densefield.runs.scored_images import Cached, ScoreSource, Shrunk, identity
from densefield.tuning.lbfgs import Evaluation, flat_values, learn_crf
from densefield.tuning.result import TuningResult
from densefield.tuning.search import Criterion, Setting, Trial, TuningOptions, best, cost, metrics_of, search

MIN_WEIGHT = 0.1  # at the start of learning


def tune_crf(
    source: ScoreSource | Triples,
    folder: str | PathLike[str] | None = None,
    options: TuningOptions | None = None,
    progress: StageProgress | None = None,
    *,
    classes: Sequence[str] | None = None,
    probabilities: bool = False,
    about: Mapping[str, str] | None = None,
) -> TuningResult:
    """Finds a CRF on half of the images, and evaluates it on the other half.

    Parameters
    ----------
    source
        Triples (scores, image, labels) of arrays or tensors, as in `as_score_source`. A list or a dataset is read
        several times, as needed; another iterable is read into memory. Or scored images, such as those of
        `open_scores`.
    folder
        The folder for `crf.toml`, the CRF; `result.json`; `trials.csv` and `learning.csv`, all trials. `left_out` of
        the result has a line for each image that could not be read, by id. With fewer than 4 others, an InputError is
        raised. Without a folder no file is written.
    options
        The options; by default those of `densefield tune`.
    progress
        Called with the name of the stage, the amount done, and the total.
    classes
        The names of the classes of triples, by default numbers.
    probabilities
        The scores of triples are probabilities rather than logits.
    about
        A description of the scores. An interrupted search is resumed if it is the same.

    Examples
    --------
    >>> labels = np.arange(24)[None].repeat(20, axis=0) // 12
    >>> image = np.stack([200 * labels] * 3, axis=-1)
    >>> noise = np.random.default_rng(7).normal(size=(4, 2, 20, 24))
    >>> triples = [(np.stack([1 - labels, labels]) + each, image, labels) for each in noise]
    >>> tuned = tune_crf(triples, options=TuningOptions(trials=2, evaluations=2, shrink=1))
    >>> tuned.crf.num_classes, len(tuned["held_out_images"])
    (2, 2)
    """
    folder = None if folder is None else Path(folder)
    source = as_score_source(source, classes, probabilities=probabilities)
    options = options or TuningOptions()
    started = time.monotonic()
    progress = progress or (lambda stage, done, total: None)
    left_out = unreadable(source, options, partial(progress, "read"))
    learning_images, held_out = halves(source, options, left_out)
    if folder is not None:
        _check_folder(folder, options, learning_images, about or {})
    trial = _search(learning_images, options, folder, progress)
    candidates = {"search": _crf(source, trial.setting.kernels(), options)}
    if options.evaluations:
        candidates["gradient"] = _learn(learning_images, trial.setting, options, folder, progress)
    chosen, on_learning = _choose(candidates, learning_images, options.criterion, progress)
    crf = candidates[chosen]
    alone = evaluate_images(held_out, None, partial(progress, "evaluate the network alone"))
    with_crf = evaluate_images(held_out, crf, partial(progress, "evaluate the CRF"))
    comparison = summarise_comparison(with_crf, alone)
    result = {
        "kind": "tuning",
        "about": dict(about or {}),
        "classes": list(source.classes),
        "settings": json.loads(json.dumps(asdict(options))),
        "learning_images": list(learning_images.ids),
        "held_out_images": list(held_out.ids),
        "left_out": left_out,
        "search": asdict(trial),
        "on_learning_images": on_learning,
        "chosen": chosen,
        "values": flat_values(dict(crf.named_parameters())),
        "methods": {"network": summarise(alone), "crf": summarise(with_crf)},
        "comparison": comparison,
        "verdict": verdict(comparison),
        "seconds": round(time.monotonic() - started, 1),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": command_line(),
        "machine": describe_environment(),
    }
    if folder is not None:
        write_crf(folder / "crf.toml", crf.to_numpy())
        write_atomically(folder / "result.json", json.dumps(result, indent=1).encode())
    return TuningResult(result, {"network": alone, "crf": with_crf}, crf)


def unreadable(source: ScoreSource, options: TuningOptions, progress: Progress) -> dict[str, str]:
    """A line for each image that cannot be read, by id; stops when enough images for tuning were read."""
    failures: dict[str, str] = {}
    wanted, done = min(options.images or len(source), len(source)), 0
    for number in _order(source, options):
        try:
            source[number]
            done += 1
        except Exception as error:  # one damaged file does not end a folder, whatever a decoder or torch raises
            failures[source.ids[number]] = failure_line(error, source.ids[number])
        progress(done, wanted)
        if done == wanted:
            break
    return failures


def halves(
    source: ScoreSource, options: TuningOptions, left_out: Mapping[str, str] | None = None
) -> tuple[ScoreSource, ScoreSource]:
    """The images for learning, and the same number, or one fewer, for evaluation; ids and the seed decide."""
    readable = [number for number in _order(source, options) if source.ids[number] not in (left_out or {})]
    taken = readable[: options.images]
    if len(taken) < 4:
        reason = f" {len(left_out)} could not be read; the first: {next(iter(left_out.values()))}" if left_out else ""
        raise InputError(
            f"there are {len(taken)} images, expected 4 or more: half for learning, half for evaluation.{reason}"
        )
    middle = (len(taken) + 1) // 2
    return Subset(source, sorted(taken[:middle])), Subset(source, sorted(taken[middle:]))


def _order(source: ScoreSource, options: TuningOptions) -> list[int]:
    """The indices of the images in an order that depends on the seed and their ids."""

    def key(number: int) -> int:
        digest = blake2b(f"{options.seed}/{source.ids[number]}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little", signed=True)

    return sorted(range(len(source)), key=key)


def _crf(images: ScoreSource, kernels: list[Kernel], options: TuningOptions) -> DenseCRF:
    return DenseCRF(len(images.classes), kernels, iterations=options.iterations)


def _search(images: ScoreSource, options: TuningOptions, folder: Path | None, progress: StageProgress) -> Trial:
    small = Cached(Shrunk(images, options.shrink))

    def evaluate(setting: Setting) -> SegmentationResult:
        return evaluate_images(small, _crf(images, setting.kernels(options.shrink), options))

    file = None if folder is None else folder / "trials.csv"
    trials = search(options.settings(), evaluate, file, partial(progress, "search"))
    return best(trials, options.criterion)


def _learn(
    images: ScoreSource, start: Setting, options: TuningOptions, folder: Path | None, progress: StageProgress
) -> DenseCRF:
    """A CRF learnt on shrunk images first, which is fast, and then at full size."""
    lines: list[str] = []

    def watch(stage: str, total: int) -> Callable[[Evaluation], None]:
        count = itertools.count(1)

        def note(evaluation: Evaluation) -> None:
            if not lines:
                lines.append(",".join(["shrink", "loss", *evaluation.values]))
            lines.append(",".join([stage, *(repr(value) for value in (evaluation.loss, *evaluation.values.values()))]))
            if folder is not None:
                write_atomically(folder / "learning.csv", ("\n".join(lines) + "\n").encode())
            progress(f"learn at 1/{stage}", next(count), total)

        return note

    def loss(crf: DenseCRF) -> float:
        return evaluate_images(images, crf).negative_log_likelihood

    # A weight of 0 has no gradient.
    weights = {name: max(getattr(start, name), MIN_WEIGHT) for name in ("spatial_weight", "bilateral_weight")}
    crf = _crf(images, replace(start, **weights).kernels(), options)
    stages = {options.shrink: options.evaluations}
    stages.setdefault(1, (options.evaluations + 2) // 3)
    for shrink, evaluations in stages.items():
        small = _crf(images, _scaled(crf, 1 / shrink), options)
        watched = watch(str(shrink), evaluations)
        learn_crf(small, Cached(Shrunk(images, shrink)), evaluations=evaluations, watch=watched)
        learnt = _crf(images, _scaled(small, shrink), options)
        # The best CRF for shrunk images may be worse than the start at full size.
        if shrink == 1 or loss(learnt) < loss(crf):
            crf = learnt
    return crf


def _scaled(crf: DenseCRF, factor: float) -> list[Kernel]:
    """The kernels with their widths in pixels multiplied by a factor."""
    values = crf.values()
    widths, all_widths = np.asarray(values["spatial.sigma"]), np.asarray(values["bilateral.sigma"])
    return [
        Spatial(widths * factor, weight=values["spatial.weight"]),
        Bilateral(all_widths[:2] * factor, all_widths[2:], weight=values["bilateral.weight"]),
    ]


def _choose(
    candidates: dict[str, DenseCRF], images: ScoreSource, criterion: Criterion, progress: StageProgress
) -> tuple[str, dict[str, Any]]:
    """The best candidate by the criterion on the learning images at full size, and the metrics of all."""
    results = {
        name: evaluate_images(images, crf, partial(progress, f"compare: {name}"))
        for name, crf in {"network": None, **candidates}.items()
    }
    chosen = min(candidates, key=lambda name: cost(results[name], criterion))
    return chosen, {name: metrics_of(result) for name, result in results.items()}


def _check_folder(folder: Path, options: TuningOptions, images: ScoreSource, about: Mapping[str, str]) -> None:
    """Raises if the folder has trials of other images, scores, sizes or iterations; notes those of its trials."""
    notes = {
        "shrink": options.shrink,
        "iterations": options.iterations,
        "learning_images": list(images.ids),
        "about": identity(about),
    }
    path = folder / "search.json"
    if (folder / "trials.csv").exists() and path.exists() and read_json(path) != notes:
        raise InputError(
            f"{folder} holds trials on other images or scores, at another size or with other iterations: choose "
            "another folder, or remove it."
        )
    write_atomically(path, json.dumps(notes).encode())
