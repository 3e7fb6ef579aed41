"""A log-linear model fitted to some images, and compared with its parts on others."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from densefield.datasets.sample import Dataset, Subset
from densefield.errors import InputError
from densefield.evaluation.evaluation import evaluate_images
from densefield.io.files import write_atomically
from densefield.io.messages import failure_line
from densefield.io.progress import Progress, StageProgress
from densefield.metrics.summary import summarise, summarise_comparison
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.environment import describe_environment
from densefield.runs.scored_images import Cached, ScoreSource
from densefield.tuning.feature_images import Arrays, UnaryScores
from densefield.tuning.fit_log_linear import FitOptions, LogLinearFit, feature_images, fit_log_linear, start_crf
from densefield.tuning.lbfgs import flat_values, learn_crf

JOINT = "joint"
HAND_SET = (3.0, 5.0)  # weights of the kernels of the usual CRF
RESULT = "result.json"


def fit_and_compare(
    learning: Dataset,
    test: Dataset,
    folder: Path,
    options: FitOptions | None = None,
    progress: StageProgress | None = None,
    *,
    arrays: Arrays | None = None,
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Fits a log-linear model, compares it with its parts on test images, and writes both to a folder.

    The parts are logistic regression alone, with the usual CRF, and with a CRF that is learnt for its fixed scores.

    Parameters
    ----------
    learning, test
        The images to learn from, and to compare on.
    folder
        The folder for the model, as `LogLinearModel.save` writes it, and for `result.json`, which is also returned.
    options
        The options.
    progress
        Called with the name of the stage, the amount done, and the total.
    arrays
        The user's own features, by the id of an image.
    about
        A description of the data, for the result.
    """
    options, started = options or FitOptions(), time.monotonic()
    progress = progress or (lambda stage, done, total: None)
    if learning.classes != test.classes:
        raise InputError(
            f"the learning images have the classes {learning.classes}, but the test images {test.classes}."
        )
    if len(test) < 2:
        raise InputError(f"there are {len(test)} test images, expected 2 or more.")
    source, judged = Cached(feature_images(learning, options, arrays)), feature_images(test, options, arrays)
    fit = fit_log_linear(source, options, progress)
    fit.joint.save(folder)
    results = {
        name: evaluate_images(scores, crf, partial(progress, f"evaluate: {name}"))
        for name, (scores, crf) in _methods(fit, source, judged, options, progress).items()
    }
    others = [name for name in results if name != JOINT]
    assert fit.joint.crf is not None
    result = {
        "kind": "log-linear model",
        "about": dict(about or {}),
        "classes": list(learning.classes),
        "settings": json.loads(json.dumps(asdict(options))),
        "l2": {"logistic regression": fit.logistic_l2, JOINT: fit.joint_l2},
        "held_out_losses": {
            name: {str(l2): loss for l2, loss in losses.items()}
            for name, losses in (("logistic regression", fit.logistic_losses), (JOINT, fit.joint_losses))
        },
        "learning_images": list(learning.ids),
        "test_images": list(test.ids),
        "crf": flat_values(dict(fit.joint.crf.named_parameters())),
        "methods": {name: summarise(each) for name, each in results.items()},
        "comparisons": {name: summarise_comparison(results[JOINT], results[name]) for name in others},
        "seconds": round(time.monotonic() - started, 1),
        "machine": describe_environment(),
    }
    write_atomically(folder / RESULT, json.dumps(result, indent=1).encode())
    return result


def _methods(
    fit: LogLinearFit, source: ScoreSource, judged: ScoreSource, options: FitOptions, progress: StageProgress
) -> dict[str, tuple[ScoreSource, DenseCRF | None]]:
    """The scores and the CRF of each method."""
    alone = UnaryScores(fit.logistic, judged)
    separate = start_crf(source, options, 1.0, 1.0)
    done = 0

    def watch(_: object) -> None:
        nonlocal done
        done += 1
        progress("CRF for fixed logistic regression", done, options.evaluations)

    learn_crf(separate, Cached(UnaryScores(fit.logistic, source)), evaluations=options.evaluations, watch=watch)
    return {
        "logistic regression": (alone, None),
        "hand-set CRF": (alone, start_crf(source, options, *HAND_SET)),
        "CRF learnt alone": (alone, separate),
        JOINT: (UnaryScores(fit.joint, judged), fit.joint.crf),
    }


def usable(dataset: Dataset, most: int | None, label: int | None, progress: Progress) -> tuple[Dataset, dict[str, str]]:
    """At most so many images, evenly spread, and a line for each image that cannot be read, by id.

    With a `label`, images that do not show it are not used.
    """
    indices: list[int] = []
    failures: dict[str, str] = {}
    for index in range(len(dataset)):
        try:
            labels = dataset[index].labels
            if labels is not None and (label is None or bool((labels == label).any())):
                indices.append(index)
        except Exception as error:  # one damaged file does not end a folder, whatever a decoder raises
            failures[dataset.ids[index]] = failure_line(error, dataset.ids[index])
        progress(index + 1, len(dataset))
    if not indices:
        shown = "" if label is None else f" that shows {dataset.classes[label]}"
        reason = f" The first: {next(iter(failures.values()))}" if failures else ""
        raise InputError(f"there is no image with labels{shown} that can be read.{reason}")
    if most is not None and most < len(indices):
        indices = [indices[place * len(indices) // most] for place in range(most)]
    return Subset(dataset, indices), failures
