"""explain(): findings about an input and its refinement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from densefield.crf.arrays import image_array, split_mask
from densefield.crf.image_range import in_image_units
from densefield.crf.mean_field import exponential, log_softmax
from densefield.crf.model import CRF
from densefield.crf.problem import Problem
from densefield.crf.unary import Unary
from densefield.diagnose import inputs as input_checks
from densefield.diagnose import kernels as kernel_checks
from densefield.diagnose import result as result_checks
from densefield.diagnose.masks import explain_mask, iterations, one_label
from densefield.diagnose.result import Finding
from densefield.errors import InputError
from densefield.refinement.mask_input import mask_input, refined_mask
from densefield.refinement.refine import check_combination, chosen_crf, for_present_labels, inputs, refine
from densefield.refinement.scores import score_kernels, with_colours

P = ParamSpec("P")
R = TypeVar("R")

CHUNK = 1 << 16  # pixels processed together: a copy of all scores would take too much memory


def with_parameters_of(function: Callable[P, Any]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """A decorator that gives a function the signature of another one, for help() and type checkers."""

    def decorate(decorated: Callable[..., R]) -> Callable[P, R]:
        own = signature(decorated)
        decorated.__signature__ = signature(function).replace(  # type: ignore[attr-defined]
            return_annotation=own.return_annotation
        )
        return decorated

    return decorate


@with_parameters_of(refine)
def explain(image: Any, **arguments: Any) -> list[Finding]:
    """Runs refine() on the same arguments and reports why a result is blank, unchanged or wrong.

    The last finding says what changed. Axes in the wrong order and input that refine() warns of are findings. Other
    input that refine() refuses raises the same error here. It takes about twice the time of refine().

    The parameters are those of `densefield.refine`.

    >>> import numpy as np
    >>> image = np.zeros((4, 6, 3))
    >>> image[:, 3:] = 1.0  # white, for colours 0…1
    >>> rough = np.array([[0, 0, 0, 0, 1, 1]] * 4)
    >>> explain(image, labels=rough)[0].cure
    'Pass image * 255, or data_range=1.'
    """
    bound = signature(refine).bind(image, **arguments)
    bound.apply_defaults()
    given = bound.arguments
    own = {name: given[name] for name in ("crf", "kernels", "confidence")}
    labels, logits, roughness = given["labels"], given["logits"], given.pop("roughness")
    check_combination(given["probabilities"], labels, logits, roughness, given["temperature"], **own)
    options = {name: given.pop(name) for name in ("iterations", "data_range", "threads")}
    spacing, crf, kernels = given.pop("spacing"), given.pop("crf"), given.pop("kernels")
    unary_input = next((each for each in (labels, given["probabilities"], logits) if each is not None), None)
    findings = list(
        input_checks.axes_in_wrong_order(image_array(split_mask(image)[0]), unary_input, has_class_axis=labels is None)
    )
    if findings:
        return findings  # inference cannot run
    if labels is not None and all(each is None for each in own.values()):
        photo, mask = mask_input(image, labels, given["num_classes"], given["void"], given["ignore"])
        if mask.rows.size == 0:
            raise InputError(f"the labels have shape {mask.rows.shape}, expected at least one pixel.")
        found = refined_mask(photo, mask, roughness, spacing=spacing, **options)
        known = input_checks.mask_of_labels(split_mask(labels)[0], given["num_classes"], given["void"])
        return in_order([*known, *explain_mask(photo, mask, found, options["data_range"])])
    pixels, unary = inputs(**given)
    default = all(each is None for each in own.values())
    if default:
        kernels = score_kernels(unary.scores.shape[1:], spacing)
    model = for_present_labels(chosen_crf(crf, kernels, **options), unary)
    problem = model.problem(unary.scores, pixels, ignore=unary.ignore, spacing=spacing)
    if problem.scores.size == 0:
        raise InputError(f"the scores have shape {unary.scores.shape}, expected at least one pixel.")
    if labels is not None:
        findings += input_checks.mask_of_labels(split_mask(labels)[0], given["num_classes"], given["void"])
    elif logits is not None:
        findings += input_checks.logits_of_another_kind(problem.scores)
    else:
        findings += input_checks.flat_probabilities(problem.scores)
    if len(unary.scores) == 1:
        one = Finding("problem", "There is one label, which every pixel has.", "1 label", "Pass two or more.")
        if unary.labels is not None:
            one = one_label(unary.labels, unary.scores[0].size)
        return [*findings, one, Finding("note", "0% of the pixels changed their label.")]
    if problem.scores.shape[1] == 1:
        return [Finding("problem", "There is one pixel, which has no neighbours.", "1 pixel", "Pass a larger image.")]
    coloured = with_colours(problem, pixels, model.options, unary.ignore) if default else problem
    return _findings(model, problem, coloured, image_array(pixels), unary, findings)


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


def _findings(
    crf: CRF, problem: Problem, coloured: Problem, image: npt.NDArray[Any], unary: Unary, findings: list[Finding]
) -> list[Finding]:
    """Findings about kernels, weights and the result, which is that of the problem `coloured`."""
    rows = np.arange(len(unary.scores)) if unary.labels is None else unary.labels
    margin = np.concatenate([kernel_checks.margins(part) for part in _chunks(problem.scores)])
    decided = margin > 0  # at other pixels the best label is arbitrary
    if unary.ignore is not None:
        decided &= ~unary.ignore.reshape(-1)
    before = rows[problem.scores.argmax(axis=0)[decided]]
    blank = result_checks.is_blank(before)
    if blank and not findings:
        findings.append(result_checks.blank_before(before))

    kernels = [in_image_units(kernel, crf.options.data_range, len(problem.shape)) for kernel in crf.kernels]
    pixels = image.reshape(margin.size, -1)
    if unary.ignore is not None:
        pixels = pixels[~unary.ignore.reshape(-1)]
    alike = list(input_checks.colours(pixels, kernels, checked=crf.options.data_range is not None))
    findings += alike
    findings += kernel_checks.widths(kernels, problem, bool(alike), crf.options.threads)
    findings += kernel_checks.weights(crf.kernels, len(unary.scores))
    findings += iterations(crf)

    most = kernel_checks.largest_message(crf.kernels, problem)
    q = crf.marginals_of(coloured).reshape(problem.scores.shape)
    after = rows[q.argmax(axis=0)[decided]]
    if not blank:
        findings += kernel_checks.overconfident(margin[decided], most[decided])
        sound = all(finding.severity == "note" for finding in findings)
        findings += result_checks.blank_after(before, after, margin[decided], most[decided], sound)
    sound = all(finding.severity == "note" for finding in findings)
    findings = in_order(findings)
    movable = float((margin < most)[decided].mean()) if before.size else 0.0
    findings.append(result_checks.summary(before, after, lambda: _largest_change(problem.scores, q), movable, sound))
    return findings


def in_order(findings: list[Finding]) -> list[Finding]:
    """Problems first; causes stay before their effects, and the last note stays last."""
    return sorted(findings, key=lambda finding: finding.severity == "note")


def _chunks(scores: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Scores (L, N) in parts (L, n)."""
    for first in range(0, scores.shape[1], CHUNK):
        yield scores[:, first : first + CHUNK]


def _largest_change(scores: npt.NDArray[Any], q: npt.NDArray[Any]) -> float:
    """The largest change of a marginal from q⁰ to q (L, N)."""
    changes = [
        np.abs(exponential(log_softmax(f.T)) - after.T).max()
        for f, after in zip(_chunks(scores), _chunks(q), strict=True)
    ]
    return float(max(changes))
