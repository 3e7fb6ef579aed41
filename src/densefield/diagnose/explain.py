"""Why a result is blank or unchanged, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from densefield.crf.arrays import image_array, split_mask
from densefield.crf.image_range import in_image_units
from densefield.crf.kernels import Kernel
from densefield.crf.model import CRF
from densefield.crf.problem import Problem
from densefield.crf.refine import chosen_crf, for_present_labels, inputs
from densefield.crf.softmax import exponential, log_softmax
from densefield.crf.unary import Unary
from densefield.diagnose import inputs as doctor_inputs
from densefield.diagnose import kernels as doctor_kernels
from densefield.diagnose import result as doctor_result
from densefield.diagnose.finding import Finding
from densefield.errors import InputError
from densefield.labels import Void

if TYPE_CHECKING:  # which needs torch
    from densefield.nn.dense_crf import DenseCRF

CHUNK = 1 << 16  # pixels that are looked at together, where a copy of all scores would be too much


def explain(
    image: Any,  # (H, W, C) or (H, W)
    probabilities: Any = None,  # (L, H, W), or (H, W)
    *,
    labels: Any = None,  # (H, W)
    logits: Any = None,  # (L, H, W)
    num_classes: int | None = None,
    void: Void = "auto",
    confidence: float = 0.7,
    crf: CRF | DenseCRF | None = None,
    kernels: Sequence[Kernel] | None = None,
    iterations: int | None = None,
    ignore: npt.NDArray[np.bool_] | None = None,  # (H, W)
    spacing: Sequence[float] | None = None,
    data_range: float | Sequence[float] | None = None,
    threads: int | None = None,
) -> list[Finding]:
    """Runs what `refine` runs on the same arguments, and says what was seen; the last finding tells what changed.

    The parameters are those of `refine`. Axes in the wrong order are a finding. Other input that `refine` refuses
    raises the same error here; input that it warns of is a finding. It takes about twice the time of `refine`.

    >>> import numpy as np
    >>> image = np.zeros((4, 6, 3))
    >>> image[:, 3:] = 1.0  # white, for colours 0…1
    >>> rough = np.array([[0, 0, 0, 0, 1, 1]] * 4)
    >>> explain(image, labels=rough)[0].cure
    'Pass image * 255, or data_range=1.'
    """
    model = chosen_crf(crf, kernels, iterations, data_range, threads)
    given = next((each for each in (labels, probabilities, logits) if each is not None), None)
    findings = list(
        doctor_inputs.axes_in_wrong_order(image_array(split_mask(image)[0]), given, axis_of_labels=labels is None)
    )
    if findings:
        return findings  # inference cannot be run
    pixels, unary = inputs(image, probabilities, labels, logits, num_classes, void, confidence, ignore)
    model = for_present_labels(model, unary)
    problem = model.pose(unary.scores, pixels, ignore=unary.ignore, spacing=spacing)
    if problem.scores.size == 0:
        raise InputError(f"the scores have shape {unary.scores.shape}, expected at least one pixel.")
    if labels is not None:
        findings += doctor_inputs.mask_of_labels(split_mask(labels)[0], num_classes, void)
    elif logits is not None:
        findings += doctor_inputs.logits_of_another_kind(problem.scores)
    else:
        findings += doctor_inputs.flat_probabilities(problem.scores)
    if len(unary.scores) == 1:
        return [*findings, _one_label(unary), Finding("note", "0% of the pixels changed their label.")]
    if problem.scores.shape[1] == 1:
        return [Finding("problem", "There is one pixel, which has no neighbours.", "1 pixel", "Pass a larger image.")]
    return _findings(model, problem, image_array(pixels), unary, findings)


def explain_batch(
    crf: CRF,
    scores: Any,  # (B, L, …), a tensor
    image: Any,  # (B, C, …), or (1, C, …) for all items
    *,
    spacing: Sequence[float] | None = None,
    ignore: Any = None,  # (B, …)
) -> list[list[Finding]]:
    """explain() for each item of a batch of tensors."""
    items, found = len(scores), []
    for item in range(items):
        pixels = np.moveaxis(_to_numpy(image[item if len(image) > 1 else 0]), 0, -1)
        left_out = None if ignore is None else _to_numpy(ignore[item]).astype(bool)
        found.append(explain(pixels, logits=_to_numpy(scores[item]), crf=crf, spacing=spacing, ignore=left_out))
    return found


def _to_numpy(tensor: Any) -> npt.NDArray[Any]:
    return np.asarray(tensor.detach().cpu().float() if tensor.is_floating_point() else tensor.cpu())


def _one_label(unary: Unary) -> Finding:
    if unary.labels is None:
        return Finding("problem", "There is one label, which every pixel has.", "1 label", "Pass two or more.")
    return Finding(
        "problem",
        "The input has the same label everywhere, so there is nothing else to spread.",
        f"label {int(unary.labels[0])} is the only one at {unary.scores[0].size} pixels",
        "Check the mask.",
    )


def _findings(
    crf: CRF, problem: Problem, image: npt.NDArray[Any], unary: Unary, findings: list[Finding]
) -> list[Finding]:
    """What kernels, weights and the result show."""
    rows = np.arange(len(unary.scores)) if unary.labels is None else unary.labels
    margin = np.concatenate([doctor_kernels.margins(part) for part in _chunks(problem.scores)])
    decided = margin > 0  # elsewhere the best label is a matter of chance
    if unary.ignore is not None:
        decided &= ~unary.ignore.reshape(-1)
    before = rows[problem.scores.argmax(axis=0)[decided]]
    blank = doctor_result.is_blank(before)
    if blank and not findings:
        findings.append(doctor_result.blank_before(before))

    kernels = [in_image_units(kernel, crf.channel_range, len(problem.shape)) for kernel in crf.kernels]
    pixels = image.reshape(margin.size, -1)
    if unary.ignore is not None:
        pixels = pixels[~unary.ignore.reshape(-1)]
    alike = list(doctor_inputs.colours(pixels, kernels, checked=crf.channel_range is not None))
    findings += alike
    findings += doctor_kernels.widths(kernels, problem, bool(alike), crf.threads)
    findings += doctor_kernels.weights(crf.kernels, len(unary.scores))
    if crf.iterations == 0:
        findings.append(Finding("problem", "No update is made.", "iterations = 0", "Use 5 iterations."))

    most = doctor_kernels.persuasion(crf.kernels, problem)
    q = crf.marginals_of(problem).reshape(problem.scores.shape)
    after = rows[q.argmax(axis=0)[decided]]
    if not blank:
        findings += doctor_kernels.drowned(margin[decided], most[decided])
        sound = all(finding.severity == "note" for finding in findings)
        findings += doctor_result.blank_after(before, after, margin[decided], most[decided], sound)
    sound = all(finding.severity == "note" for finding in findings)
    findings.sort(key=lambda finding: finding.severity == "note")  # stable: causes stay before what they lead to
    movable = float((margin < most)[decided].mean()) if before.size else 0.0
    findings.append(doctor_result.summary(before, after, lambda: _largest_change(problem.scores, q), movable, sound))
    return findings


def _chunks(scores: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Scores (L, N) in parts (L, n)."""
    for first in range(0, scores.shape[1], CHUNK):
        yield scores[:, first : first + CHUNK]


def _largest_change(scores: npt.NDArray[Any], q: npt.NDArray[Any]) -> float:
    """By how much a marginal moved at most, of q⁰ and q (L, N)."""
    changes = [
        np.abs(exponential(log_softmax(f.T)) - after.T).max()
        for f, after in zip(_chunks(scores), _chunks(q), strict=True)
    ]
    return float(max(changes))
