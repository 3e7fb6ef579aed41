"""The first sentence of the page: the gain in mean IoU, with its confidence interval."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from densefield.crf.crf_file import read_toml
from densefield.errors import InputError
from densefield.metrics.bootstrap import Comparison, compare_methods
from densefield.report.collecting import Evaluated, Findings, Training
from densefield.report.tables import same_images
from densefield.runs.run_folder import SETTINGS

_EVEN = 0.05  # points: smaller gains are shown as 0.0


@dataclass(frozen=True)
class Headline:
    """A sentence in three parts, of which the second is emphasised, and a note below it."""

    start: str
    amount: str = ""
    end: str = ""
    effect: str = ""  # "better", "worse", or "" if the interval contains 0
    note: str = ""


def headline(found: Findings) -> Headline:
    """The gain of the last CRF that was trained with its network, or of the last one, over the first method on the same
    images; or what is known instead.
    """
    if not found.methods:
        return _of_training(found.trainings)
    first = found.methods[0]
    crfs = {name: result.get("crf") for name, _, result in reversed(found.evaluations)}
    last_first = [each for each in reversed(found.methods) if each.method == "crf"]
    joint = (each for each in last_first if learnt_together(each.training, crfs.get(each.name)))
    method = next(joint, last_first[0] if last_first else found.methods[-1])
    own = next((each for each in found.methods if (each.name, each.method) == (method.name, "network")), None)
    for other in (first, own):
        if other is not None and other is not method and same_images(method, other):
            return _compared(method, other, learnt_together(method.training, crfs.get(method.name)))
    value = method.summary["mean_iou"]
    interval = _interval(value["low"], value["high"])
    number = "–" if value["value"] is None else f"{100 * value['value']:.1f}%"
    images = method.summary["images"]
    ending = f"{interval} on {images} {'image' if images == 1 else 'images'}."
    note = "Nothing else was evaluated on the same images." if len(found.methods) > 1 else ""
    return Headline(f"{method.title} reaches a mean IoU of ", number, ending, note=note)


def _compared(method: Evaluated, other: Evaluated, together: bool) -> Headline:
    own = method.name == other.name
    if own:
        subject, over = "The CRF", "its network alone"
    elif together:
        subject, over = "Training network and CRF together", other.title
    else:
        subject, over = method.title, other.title
    compared = compare_methods(method.result, other.result)
    note = f"{method.title} against {other.title}, on {method.result.images} images. {INTERVALS}"
    return sentence(subject, over, compared, note)


INTERVALS = "Intervals are those of 95% of 1000 bootstrap resamples of the images."


def sentence(subject: str, over: str, compared: Comparison, note: str = "") -> Headline:
    """The gain in words; a change whose interval contains 0 is not called a gain.

    >>> told = sentence("The CRF", "its network alone", Comparison(0.538, 0.5, 0.038, 0.031, 0.045, 1.0))
    >>> told.start + told.amount + told.end
    'The CRF raises mean IoU by 3.8 points (3.1 … 4.5) over its network alone.'
    >>> told = sentence("The CRF", "its network alone", Comparison(0.503, 0.5, 0.003, -0.002, 0.008, 0.8))
    >>> told.start + told.amount
    'The CRF does not clearly change mean IoU: +0.3 points'
    >>> told.end
    ' (−0.2 … 0.8) over its network alone; the interval contains 0.'
    """
    gain, low, high = (100 * float(getattr(compared, part)) for part in ("difference", "low", "high"))
    if low > 0 and gain >= _EVEN:
        return Headline(f"{subject} raises mean IoU by ", f"{gain:.1f} points", _ends(low, high, over), "better", note)
    if high < 0 and gain <= -_EVEN:
        lost = _ends(-high, -low, over)
        return Headline(f"{subject} lowers mean IoU by ", f"{-gain:.1f} points", lost, "worse", note)
    amount = "0.0 points" if abs(gain) < _EVEN else f"{gain:+.1f} points".replace("-", "−")
    end = _ends(low, high, over).rstrip(".") + ("; the interval contains 0." if low <= 0 <= high else ".")
    return Headline(f"{subject} does not clearly change mean IoU: ", amount, end, note=note)


def learnt_together(training: Training | None, crf: object) -> bool:
    """Whether network and CRF were trained together, and the evaluated CRF is that of this training.

    The log of stage 2 has parameters of the CRF that change, the settings do not freeze the network, and the numbers of
    the evaluated CRF are those of a row of the log.
    """
    if training is None or training.stage != 2 or not isinstance(crf, str) or _is_frozen(training):
        return False
    names = [name for name in training.columns if re.search(r"\.(weight|sigma)", name)]
    if not names or all(len(set(training.columns[name])) < 2 for name in names):
        return False
    numbers = [float(text) for text in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", crf)]
    rows = zip(*(training.columns[name] for name in names), strict=True)
    return any(all(value is not None and _among(value, numbers) for value in row) for row in rows)


def _among(value: float, numbers: Sequence[float]) -> bool:
    return any(math.isclose(value, number, rel_tol=1e-6) for number in numbers)  # logs have nine digits, of float32


def _is_frozen(training: Training) -> bool:
    try:
        settings = read_toml(training.folder / SETTINGS, "the settings of a run")
    except InputError:
        return True
    network = settings.get("network")
    return isinstance(network, Mapping) and network.get("frozen") is True


def _of_training(trainings: Sequence[Training]) -> Headline:
    known = [(max(ious), training.name) for training in trainings if (ious := training.curve("iou")[1])]
    if not known:
        return Headline("Training and tuning, without an evaluation.")
    best, name = max(known)
    note = "Best validation result of training; nothing was evaluated."
    return Headline(f"{name} reaches a validation mean IoU of ", f"{100 * best:.1f}%", ".", note=note)


def _ends(low: float, high: float, over: str) -> str:
    return f" ({low:.1f} … {high:.1f}) over {over}.".replace("-", "−")


def _interval(low: Any, high: Any) -> str:
    return "" if low is None or high is None or low == high else f" ({100 * low:.1f} … {100 * high:.1f})"
