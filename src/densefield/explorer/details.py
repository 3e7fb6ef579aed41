"""Numbers about a result: metrics against true labels, free energy in every iteration, and findings."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.crf.convergent import convergent_steps
from densefield.crf.mean_field import free_energy, mean_field_steps
from densefield.diagnose.explain import explain
from densefield.diagnose.result import Finding, percent
from densefield.explorer.gallery import Picture
from densefield.explorer.inference import MOST_PIXELS, Check, Result, is_large
from densefield.explorer.settings import DATA_RANGE, Settings
from densefield.explorer.wording import in_page
from densefield.metrics.counts import count_pixels, stack_images
from densefield.metrics.metrics import iou, mean_without_nan, trimap_accuracy

EDGE = 4  # pixels from a true edge within which accuracy is that of edges
LEAST = 1e-3  # difference of two marginals: less is no preference
MOST_STEPS = 60  # of which the free energy is computed


def summary(result: Result) -> dict[str, Any]:
    """What changed: the share of pixels whose label is another, and the pixels of each label.

    For labels that are painted alone: the share of pixels to which they spread.
    """
    before, after = result.rows_before, result.rows
    decided = before >= 0
    changed = float((before != after)[decided].mean()) if decided.any() else None
    facts = {"changed": changed, "pixels": np.bincount(after.ravel(), minlength=len(result.numbers)).tolist()}
    return {**facts, "spread": spread(result)} if result.given.only_paint else facts


def spread(result: Result) -> float:
    """The share of pixels that were not painted and prefer a label now."""
    q = result.marginals
    preferred = q.max(axis=0) > q.min(axis=0) + LEAST
    return float((preferred & (result.rows_before < 0)).mean())


def scores_against_truth(picture: Picture, result: Result) -> dict[str, dict[str, float]] | None:
    """Mean IoU and accuracy near edges, of the input and of the result; None without true labels."""
    truth = picture.truth
    if truth is None:
        return None
    known = truth[truth != 255]
    unknown = max(int(known.max(initial=0)), int(result.numbers.max())) + 1  # a label of its own, which is never true
    rows = {"before": result.rows_before, "after": result.rows}
    found = {}
    for name, row in rows.items():
        if name == "before" and result.given.kind == "labels" and (row < 0).mean() > 0.5:
            continue  # a few scribbles are no segmentation
        found[name] = _metrics(np.where(row < 0, unknown, result.numbers[row]), truth, unknown)
    return found


def _metrics(labels: npt.NDArray[np.intp], truth: npt.NDArray[np.intp], unknown: int) -> dict[str, float]:
    counts = stack_images([count_pixels(labels, truth, unknown + 1)], unknown + 1).total()
    numbers = {
        "mean_iou": float(mean_without_nan(iou(counts)[:unknown])),
        "edge_accuracy": float(trimap_accuracy(counts)[EDGE - 1]),
    }
    return {name: value for name, value in numbers.items() if np.isfinite(value)}


def energies(result: Result, check: Check) -> dict[str, list[float]]:
    """The free energy of q⁰, q¹, …, and the largest change of a marginal in every iteration, by the readable twin."""
    problem = result.problem
    if problem is None or is_large(problem.shape):
        return {"energies": [], "changes": []}
    convergent = result.crf.options.inference == "convergent"
    steps = (convergent_steps if convergent else mean_field_steps)(problem.rows, problem.pairwise)
    levels: list[float] = []
    changes: list[float] = []
    for count, step in enumerate(islice(steps, min(result.crf.options.iterations, MOST_STEPS) + 1)):
        check()
        levels.append(free_energy(step.q, step.log_q, problem.rows, problem.pairwise))
        if count:
            changes.append(step.residual)
        check()
    return {"energies": levels, "changes": changes}


def findings(picture: Picture, settings: Settings, result: Result) -> list[dict[str, str]]:
    """What `densefield.explain` finds for the same input and parameters, in the words of the page."""
    if is_large(picture.size):
        what = "Findings and free energy are not computed for photos this large."
        cure = f"Explore a copy of {MOST_PIXELS / 1e6:.0f} megapixels or fewer, or call densefield.explain."
        return [asdict(Finding("note", what, cure=cure))]
    arguments = {**result.given.arguments, "data_range": DATA_RANGE, "threads": 1}  # the other thread is for sliders
    if settings.model == "kernels":
        arguments["crf"] = settings.crf
    else:
        arguments["iterations"] = settings.iterations
    found = explain(picture.pixels, **arguments)
    if result.given.only_paint and found[-1].severity == "note":  # which compares with the mask
        found[-1] = Finding("note", f"Paint spread to {percent(spread(result))} of the pixels.")
    return [{name: in_page(text) for name, text in asdict(finding).items()} for finding in found]


def entropy(result: Result) -> npt.NDArray[np.uint8]:
    """The entropy of every pixel's marginals over that of equal ones, (H, W), as 0…255.

    >>> from types import SimpleNamespace
    >>> entropy(SimpleNamespace(marginals=np.array([[[0.5, 1.0]], [[0.5, 0.0]]], np.float32))).tolist()
    [[255, 0]]
    """
    q = result.marginals
    total = -(q * np.log(np.maximum(q, np.float32(1e-30)))).sum(axis=0)
    share: npt.NDArray[np.uint8] = np.rint(total * (255 / np.log(max(len(q), 2)))).clip(0, 255).astype(np.uint8)
    return share
