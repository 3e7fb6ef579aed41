"""Why a result is blank or unchanged, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from densefield.crf import doctor_inputs, doctor_kernels, doctor_result
from densefield.crf.crf import CRF, PHOTO_KERNELS
from densefield.crf.finding import Finding
from densefield.crf.kernels import Kernel
from densefield.crf.refine import unary_scores
from densefield.crf.softmax import exponential, log_softmax
from densefield.errors import InputError

Array = npt.NDArray[np.floating]


def explain(
    image: npt.NDArray[np.generic],  # (H, W, C) or (H, W), colours 0…255
    probabilities: Array | None = None,  # (L, H, W)
    *,
    labels: npt.NDArray[np.integer] | None = None,  # (H, W), 255 where unknown
    logits: Array | None = None,  # (L, H, W)
    num_labels: int | None = None,
    confidence: float = 0.7,
    kernels: Sequence[Kernel] = PHOTO_KERNELS,
    iterations: int = 5,
    threads: int | None = None,
) -> list[Finding]:
    """Runs what `refine` runs on the same arguments, and says what was seen; the last finding tells what changed.

    Axes in the wrong order are a finding. Other input that `refine` refuses raises the same error here.

    >>> import numpy as np
    >>> image = np.zeros((4, 6, 3))
    >>> image[:, 3:] = 1.0  # white, for colours 0…1
    >>> rough = np.array([[0, 0, 0, 0, 1, 1]] * 4)
    >>> explain(image, labels=rough)[0].cure
    'Widths are for colours 0…255: pass image * 255.'
    """
    kernels = tuple(kernels)
    given = labels if labels is not None else probabilities if probabilities is not None else logits
    findings = list(doctor_inputs.axes_in_wrong_order(image, given, axis_of_labels=labels is None))
    if findings:
        return findings  # inference cannot be run
    scores = unary_scores(probabilities, labels, logits, num_labels, confidence)
    crf = CRF(kernels, iterations=iterations, threads=threads)
    problem = crf.pose(scores, image)
    if problem.scores.size == 0:
        raise InputError(f"the image has shape {image.shape}, expected at least one pixel.")
    if len(scores) == 1:
        return [Finding("problem", "There is one label, which every pixel has.", "1 label", "Pass two or more.")]
    if problem.scores.shape[1] == 1:
        return [Finding("problem", "There is one pixel, which has no neighbours.", "1 pixel", "Pass a larger image.")]

    if labels is not None:
        findings += doctor_inputs.mask_of_labels(labels)
    elif logits is not None:
        findings += doctor_inputs.logits_of_another_kind(logits)
    elif probabilities is not None:
        findings += doctor_inputs.flat_probabilities(probabilities)
    margin = doctor_kernels.margins(problem.scores)
    decided = margin > 0  # elsewhere the best label is a matter of chance
    before = problem.scores.argmax(axis=0)[decided]
    blank = doctor_result.is_blank(before)
    if blank and not findings:
        findings.append(doctor_result.blank_before(before))

    alike = list(doctor_inputs.colours(image, kernels, len(margin)))
    findings += alike
    counts = doctor_kernels.neighbourhoods(kernels, image, scores, threads)
    findings += doctor_kernels.widths(kernels, counts, image, problem.shape, bool(alike))
    findings += doctor_kernels.weights(kernels, len(scores))
    if crf.iterations == 0:
        findings.append(Finding("problem", "No update is made.", "iterations = 0", "Use 5 iterations."))

    most = doctor_kernels.persuasion(kernels, problem)
    solution = crf.solve(scores, image)
    after = solution.labels.reshape(-1)[decided]
    if not blank:
        findings += doctor_kernels.drowned(margin, most)
        sound = all(finding.severity == "note" for finding in findings)
        findings += doctor_result.blank_after(before, after, margin[decided], most[decided], sound)
    first = problem.unflatten(exponential(log_softmax(problem.rows)))
    moved = float(np.abs(first - solution.marginals).max())
    sound = all(finding.severity == "note" for finding in findings)
    findings.sort(key=lambda finding: finding.severity == "note")  # stable: causes stay before what they lead to
    findings.append(doctor_result.summary(before, after, moved, float((margin < most).mean()), sound))
    return findings
