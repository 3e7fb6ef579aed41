"""Rules that turn marginals into labels, and the fixed-point iteration for a high expected IoU or Dice score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Float64 = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]

OverlapMetric = Literal["iou", "dice"]

ITERATIONS = 50  # at most
HALVINGS = 5  # of a step that lowers the score
CONVERGED = 1e-6  # a change of the score that ends the iteration
LEAST_UNION = 1e-6  # pixels: smaller ones are raised to it


class Rule(NamedTuple):
    """Labels as a rule: pixel i gets the class with the largest scale · p_i - offset; a common factor is free."""

    scale: Float64  # (K,)
    offset: Float64  # (K,)

    def rows(self, p: Array) -> Labels:  # (K, …) → (…)
        """The best row at each pixel, computed in the precision of `p`, at least single."""
        if np.ptp(self.scale) == 0 and np.ptp(self.offset) == 0:
            best: Labels = p.argmax(axis=0)
            return best
        per_class, dtype = (-1, *[1] * (p.ndim - 1)), np.result_type(p.dtype, np.float32)
        gain = p * self.scale.astype(dtype).reshape(per_class)
        gain -= self.offset.astype(dtype).reshape(per_class)
        return gain.argmax(axis=0)  # type: ignore[no-any-return]

    def taken(self, rows: Array) -> Rule:
        """The rule for some of the classes."""
        return Rule(self.scale[rows], self.offset[rows])


class Evaluation(NamedTuple):
    """The expected score of a rule, and the rule of the next iteration."""

    score: float
    step: Rule
    values: Float64  # (K,): the expected IoU or Dice score of each class
    pixels: Float64  # (K,): of each label


class Decision(NamedTuple):
    """The labels of one image: the classes that are used, in ascending order, and their rule."""

    classes: Labels  # (K,)
    rule: Rule

    def labels(self, p: Array) -> Labels:  # (L, …)
        """The label of each pixel, (…)."""
        return self.classes[self.rule.rows(p[self.classes])]


def decide(p: Array, metric: OverlapMetric, all_present: bool) -> Decision:
    """The decision for the marginals `p` (L, N) of one image.

    Ascents from the arg max; after each one, the class that lowers the mean most is removed.
    """
    classes, rule = np.arange(len(p)), arg_max_rule(len(p))
    if not p.shape[1]:
        return Decision(classes, rule)
    presence, area = presence_of(p, all_present), p.sum(axis=1, dtype=np.float64)

    def evaluated(rule: Rule) -> Evaluation:  # with a fixed set of classes, the sum of their scores counts
        pixels, intersection = pixels_and_intersection(q, rule.rows(q))
        values, step = expected_overlap(metric, pixels, intersection, area[classes], presence[classes])
        return Evaluation(float(values.sum()), step, values, pixels)

    def score_of(found: Evaluation) -> float:
        others = float(presence.sum() - presence[classes].sum())
        return mean_score(found.values, (found.pixels > 0) | all_present, presence[classes], others)

    q = p
    found = evaluated(rule)
    best, best_score = Decision(classes[found.pixels > 0], rule.taken(found.pixels > 0)), score_of(found)
    # The score of a class is at most π_l: below this bound it lowers the mean whatever its pixels are.
    kept = (area > 0) & (all_present | (presence >= best_score * (1 - presence)))
    while True:
        if not kept.all():
            classes, q, rule = classes[kept], q[kept], rule.taken(kept)
        rule, found = ascend(evaluated, rule)
        score, used = score_of(found), found.pixels > 0
        if score > best_score:
            best, best_score = Decision(classes[used], rule.taken(used)), score
        # A class adds its value to the numerator of the score, and 1 - π_l to the denominator.
        balance = np.where(used, found.values - score * (1 - presence[classes]), np.inf)
        if all_present or balance.min() >= 0:
            return best
        kept = np.arange(len(classes)) != balance.argmin()


def ascend(evaluated: Callable[[Rule], Evaluation], rule: Rule) -> tuple[Rule, Evaluation]:
    """The last rule of a fixed-point iteration, whose score rises in every step; other steps are halved."""
    best = evaluated(rule)
    step, halvings = best.step, 0
    for _ in range(ITERATIONS):
        found = evaluated(step)
        if found.score > best.score:
            gain = found.score - best.score
            rule, best, halvings = step, found, 0
            step = found.step
            if gain < CONVERGED:
                break
            continue
        halvings += 1
        if best.score - found.score < CONVERGED or halvings > HALVINGS:
            break
        step = Rule((rule.scale + step.scale) / 2, (rule.offset + step.offset) / 2)
    return rule, best


def arg_max_rule(classes: int) -> Rule:
    """The rule of the arg max."""
    return Rule(np.ones(classes), np.zeros(classes))


def expected_overlap(
    metric: OverlapMetric,
    pixels: Float64,  # (L,): of each label
    intersection: Float64,  # (L,), expected
    area: Float64,  # (L,): expected pixels of the truth
    presence: Float64 | float = 1.0,  # (L,): the probability that the class is in the image
) -> tuple[Float64, Rule]:
    """The expected IoU or Dice score of each class, as a ratio of expectations; and what one more pixel adds to it.

    To first order, a pixel of probability p adds scale · p - offset of the rule, up to a common factor.
    """
    if metric == "iou":
        union = np.maximum(pixels + (area - intersection) / presence, LEAST_UNION)
        value = intersection / union
        scale = (1 + value / presence) / union
        offset = value / union
    else:
        total = np.maximum(pixels + area / presence, LEAST_UNION)
        value = 2 * intersection / total
        scale, offset = 2 / total, value / total
    return value, Rule(scale / scale.max(), offset / scale.max())


def pixels_and_intersection(p: Array, y: Labels) -> tuple[Float64, Float64]:
    """Pixels of each label and their expected intersection with the truth, (K,), from `p` (K, N) and `y` (N,)."""
    chosen = np.take_along_axis(p, y[None], axis=0)[0]
    pixels, intersection = np.bincount(y, minlength=len(p)), np.bincount(y, chosen, len(p))
    return pixels.astype(np.float64), np.asarray(intersection, np.float64)


def presence_of(p: Array, all_present: bool) -> Float64:
    """The probability π_l that a class is in the image: at least that of its most probable pixel."""
    if all_present:
        return np.ones(len(p))
    presence: Float64 = np.clip(p.max(axis=1).astype(np.float64), 1e-12, 1)
    return presence


def mean_score(values: Float64, counted: npt.NDArray[np.bool_], presence: Float64, others: float = 0.0) -> float:
    """The expected mean over classes that are true or predicted, as a ratio of expectations."""
    return float(values.sum() / (np.where(counted, 1.0, presence).sum() + others))
