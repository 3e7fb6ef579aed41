"""A CRF tuned on fixed scores, as Chen et al. train it, and evaluated on held-out images."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from densefield.crf.crf_file import write_crf
from densefield.crf.kernels import Bilateral, Kernel, Spatial
from densefield.errors import InputError
from densefield.evaluation.evaluate import evaluate_images
from densefield.io.files import read_json, write_atomically
from densefield.io.messages import failure_line
from densefield.metrics.metrics import SegmentationResult
from densefield.metrics.summary import summarise, summarise_comparison, verdict
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.machine import describe_machine
from densefield.runs.opening import identity
from densefield.runs.score_sources import Kept, Part, ScoreSource, Shrunk
from densefield.tuning.lbfgs import Evaluation, flat_values, learn_crf
from densefield.tuning.options import Tuning
from densefield.tuning.search import Trial, best, search
from densefield.tuning.space import CRITERIA, Criterion, Setting

Progress = Callable[[str, int, int], None]

LEAST_WEIGHT = 0.1  # that learning starts from


def tune_crf(
    source: ScoreSource,
    folder: Path,
    tuning: Tuning | None = None,
    progress: Progress | None = None,
    *,
    about: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Finds a CRF on half of the images, evaluates it on the other half, and writes both to a folder.

    * ``source``: the scored images, such as those of `open_scores` or `SavedScores`.
    * ``folder``: gets `crf.toml`, the CRF; `result.json`, which is also returned; `trials.csv` and `learning.csv`, all
      that was tried. `left_out` of the result has a line for each image that could not be read, by its id; with fewer
      than 4 others, an InputError says why.
    * ``tuning``: the options; by default those of `densefield tune`.
    * ``progress``: called with the name of the stage, and how much of it is done.
    * ``about``: a description of the scores. A search that was interrupted is resumed where it is the same.
    """
    how = tuning or Tuning()
    started = time.monotonic()
    tell = progress or (lambda what, done, total: None)
    left_out = unreadable(source, how, lambda done, total: tell("read", done, total))
    learning_images, held_out = halves(source, how, left_out)
    _note_settings(folder, how, learning_images, about or {})
    trial = _searched(learning_images, how, folder, tell)
    candidates = {"search": DenseCRF(len(source.classes), trial.setting.kernels(), iterations=how.iterations)}
    if how.evaluations:
        candidates["gradient"] = _learnt(learning_images, trial.setting, how, folder, tell)
    chosen, on_learning = _choose(candidates, learning_images, how.criterion, tell)
    crf = candidates[chosen]
    alone = evaluate_images(held_out, None, lambda done, total: tell("evaluate the network alone", done, total))
    with_crf = evaluate_images(held_out, crf, lambda done, total: tell("evaluate the CRF", done, total))
    comparison = summarise_comparison(with_crf, alone)
    result = {
        "kind": "tuning",
        "about": dict(about or {}),
        "classes": list(source.classes),
        "settings": _plain_settings(how),
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
        "machine": describe_machine(),
    }
    write_crf(folder / "crf.toml", crf.to_numpy())
    write_atomically(folder / "result.json", json.dumps(result, indent=1).encode())
    return result


def unreadable(source: ScoreSource, tuning: Tuning, progress: Callable[[int, int], None]) -> dict[str, str]:
    """A line for each image that cannot be read, by its id; as many are read as tuning takes."""
    failures: dict[str, str] = {}
    wanted, done = min(tuning.images or len(source), len(source)), 0
    for number in _order(source, tuning):
        try:
            source[number]
            done += 1
        except Exception as error:  # one damaged file does not end a folder, whatever a decoder or torch raises
            failures[source.ids[number]] = failure_line(error, source.ids[number])
        progress(done, wanted)
        if done == wanted:
            break
    return failures


def halves(source: ScoreSource, tuning: Tuning, left_out: Mapping[str, str] | None = None) -> tuple[Part, Part]:
    """Images to learn from, and as many, or one fewer, for evaluation; names and the seed decide."""
    taken = [number for number in _order(source, tuning) if source.ids[number] not in (left_out or {})][: tuning.images]
    if len(taken) < 4:
        reason = f" {len(left_out)} could not be read; the first: {next(iter(left_out.values()))}" if left_out else ""
        raise InputError(
            f"there are {len(taken)} images, expected 4 or more: half to learn from, half for evaluation.{reason}"
        )
    middle = (len(taken) + 1) // 2
    return Part(source, sorted(taken[:middle])), Part(source, sorted(taken[middle:]))


def _order(source: ScoreSource, tuning: Tuning) -> list[int]:
    """The numbers of the images in an order that the seed and their names decide."""

    def key(number: int) -> int:
        digest = blake2b(f"{tuning.seed}/{source.ids[number]}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little", signed=True)

    return sorted(range(len(source)), key=key)


def _searched(images: ScoreSource, how: Tuning, folder: Path, tell: Progress) -> Trial:
    small = Kept(Shrunk(images, how.shrink))

    def make_crf(setting: Setting) -> DenseCRF:
        return DenseCRF(len(images.classes), setting.kernels(how.shrink), iterations=how.iterations)

    trials = search(
        how.settings(),
        lambda crf: evaluate_images(small, crf),
        make_crf,
        folder / "trials.csv",
        lambda done, total: tell("search", done, total),
    )
    return best(trials, how.criterion)


def _learnt(images: ScoreSource, start: Setting, how: Tuning, folder: Path, tell: Progress) -> DenseCRF:
    """Learnt on small images first, which is quick, and then on the images as they are."""
    lines: list[str] = []

    def watch(stage: str, total: int) -> Callable[[Evaluation], None]:
        count = itertools.count(1)

        def note(evaluation: Evaluation) -> None:
            if not lines:
                lines.append(",".join(["shrink", "loss", *evaluation.values]))
            lines.append(",".join([stage, *(repr(value) for value in (evaluation.loss, *evaluation.values.values()))]))
            write_atomically(folder / "learning.csv", ("\n".join(lines) + "\n").encode())
            tell(f"learn at 1/{stage}", next(count), total)

        return note

    # Without weight there is no gradient to learn from.
    kernels = replace(
        start,
        spatial_weight=max(start.spatial_weight, LEAST_WEIGHT),
        bilateral_weight=max(start.bilateral_weight, LEAST_WEIGHT),
    ).kernels()
    crf = DenseCRF(len(images.classes), kernels, iterations=how.iterations)
    for shrink, evaluations in _schedule(how):
        seen = Kept(Shrunk(images, shrink))
        small = DenseCRF(len(images.classes), _scaled(crf, 1 / shrink), iterations=how.iterations)
        learn_crf(small, seen, evaluations=evaluations, watch=watch(str(shrink), evaluations))
        learnt = DenseCRF(len(images.classes), _scaled(small, shrink), iterations=how.iterations)
        # What is best for small images need not be better than the start for large ones.
        if shrink == 1 or _loss(learnt, images) < _loss(crf, images):
            crf = learnt
    return crf


def _schedule(how: Tuning) -> list[tuple[int, int]]:
    """Shrinking, and how often the loss is evaluated at most."""
    if how.shrink == 1:
        return [(1, how.evaluations)]
    return [(how.shrink, how.evaluations), (1, (how.evaluations + 2) // 3)]


def _scaled(crf: DenseCRF, factor: float) -> list[Kernel]:
    """The kernels with other widths in pixels."""
    now = crf.values()
    widths, all_widths = np.asarray(now["spatial.sigma"]), np.asarray(now["bilateral.sigma"])
    return [
        Spatial(widths * factor, weight=now["spatial.weight"]),
        Bilateral(all_widths[:2] * factor, all_widths[2:], weight=now["bilateral.weight"]),
    ]


def _loss(crf: DenseCRF, images: ScoreSource) -> float:
    return evaluate_images(images, crf).negative_log_likelihood


def _choose(
    candidates: dict[str, DenseCRF], images: ScoreSource, criterion: Criterion, tell: Progress
) -> tuple[str, dict[str, Any]]:
    """The best by the criterion on the learning images at their size, and how good all were there."""
    trials: dict[str, Trial] = {}
    for name, crf in {"network": None, **candidates}.items():
        result = evaluate_images(images, crf, lambda done, total, name=name: tell(f"compare: {name}", done, total))  # type: ignore[misc]
        trials[name] = _as_trial(result)
    chosen = best([trials[name] for name in candidates], criterion)
    name = next(name for name in candidates if trials[name] is chosen)
    return name, {each: {metric: getattr(trial, metric) for metric in CRITERIA} for each, trial in trials.items()}


def _as_trial(result: SegmentationResult) -> Trial:
    return Trial(Setting(), result.negative_log_likelihood, result.mean_iou, result.pixel_accuracy)


def _plain_settings(how: Tuning) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(asdict(how)))
    return plain


def _note_settings(folder: Path, how: Tuning, images: ScoreSource, about: Mapping[str, str]) -> None:
    """Raises where trials in the folder were of other images or scores, or at another size."""
    notes = {
        "shrink": how.shrink,
        "iterations": how.iterations,
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
