"""The first sentence of the page: the gain in mean IoU, with its confidence interval."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from densefield.crf.crf_file import read_toml
from densefield.errors import InputError
from densefield.metrics.bootstrap import Comparison, compare_methods
from densefield.report.collecting import Evaluated, Findings, Training
from densefield.report.tables import same_images
from densefield.report.training_steps import steps_of
from densefield.runs.run_folder import SETTINGS

_FINE = 0.1  # points: smaller numbers are shown with two digits


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
    value = method.summary["mean_iou"]
    others = () if value["value"] is None else (first, _of_run(found, method.name, "network"))
    for other in others:
        if other is not None and other is not method and same_images(method, other):
            return _compared(found, method, other, learnt_together(method.training, crfs.get(method.name)))
    interval = _interval(value["low"], value["high"])
    number = "–" if value["value"] is None else f"{100 * value['value']:.1f}%"
    images = method.summary["images"]
    ending = f"{interval} on {images} {'image' if images == 1 else 'images'}, {method.phrase}."
    note = "Nothing else was evaluated on the same images." if len(found.methods) > 1 else ""
    return Headline("Mean IoU is ", number, ending, note=note)


def _compared(found: Findings, method: Evaluated, other: Evaluated, together: bool) -> Headline:
    compared = compare_methods(method.result, other.result)
    unclear = "The interval contains 0. " if compared.low <= 0 <= compared.high else ""
    if method.name == other.name:
        alone = len({each.name for each in found.methods}) == 1
        crf = "The CRF" if alone else f"The CRF of {method.name}"
        return sentence(compared, crf, "its network alone", unclear + INTERVALS, causes=True)
    own = _of_run(found, method.name, "network")
    part = compare_methods(method.result, own.result) if own is not None and method.method == "crf" else None
    steps = [steps_of(each.training, found.trainings) for each in (other, method)]
    facts = []
    rival = _of_run(found, other.name, "crf")
    if other.method == "network" and rival is not None and same_images(method, rival):
        facts.append(f"Against {rival.phrase}: {_points(compare_methods(method.result, rival.result))}.")
    if part is not None and _points(part) != _points(compared):  # the same if both have the same network
        facts.append(f"Against its own network alone, the CRF of {method.name} changes mean IoU by {_points(part)}.")
    if all(steps) and steps[0] != steps[1]:
        facts.append(f"Steps of training: {steps[0]} for {other.name}, {steps[1]} for {method.name}.")
    # A network that was trained longer, or that is better without its CRF too, is another cause of the gain.
    joint = together and part is not None and float(part.low) > 0 and steps[0] == steps[1]
    subject = "Training network and CRF together" if joint else method.phrase
    note = unclear + " ".join([*facts, INTERVALS])
    return sentence(compared, subject, other.phrase, note, causes=joint)


def _of_run(found: Findings, name: str, method: str) -> Evaluated | None:
    return next((each for each in found.methods if (each.name, each.method) == (name, method)), None)


INTERVALS = "Intervals are those of 95% of 1000 bootstrap resamples of the images."


def sentence(compared: Comparison, subject: str, over: str, note: str = "", *, causes: bool) -> Headline:
    """The gain in words; a change whose interval contains 0, as it is shown, is not called a gain.

    >>> told = sentence(Comparison(0.538, 0.5, 0.038, 0.031, 0.045, 1.0), "The CRF", "its network alone", causes=True)
    >>> told.start + told.amount + told.end
    'The CRF raises mean IoU by 3.8 points (3.1 … 4.5) over its network alone.'
    >>> told = sentence(Comparison(0.538, 0.5, 0.038, 0.031, 0.045, 1.0), "the CRF of b", "that of a", causes=False)
    >>> told.start + told.amount + told.end
    'Mean IoU is 3.8 points higher (3.1 … 4.5) for the CRF of b than for that of a.'
    >>> told = sentence(Comparison(0.503, 0.5, 0.003, -0.002, 0.008, 0.8), "the CRF of b", "that of a", causes=False)
    >>> told.start + told.amount + told.end
    'No clear change in mean IoU: +0.3 points (−0.2 … 0.8), the CRF of b against that of a.'
    """
    gain, low, high = _in_points(compared)
    raises, lowers = low > 0 and gain > 0, high < 0 and gain < 0
    if not (raises or lowers):
        against = f"{subject[0].lower()}{subject[1:]}" if causes else subject
        end = f"{_ends(low, high)}, {against} against {over}."
        return Headline("No clear change in mean IoU: ", f"{_number(gain, '+')} points", end, note=note)
    if lowers:
        gain, low, high = -gain, -high, -low
    changed, amount, ends = "better" if raises else "worse", f"{_number(gain)} points", _ends(low, high)
    if causes:
        verb, than = ("raises", "over") if raises else ("lowers", "compared with")
        return Headline(f"{subject} {verb} mean IoU by ", amount, f"{ends} {than} {over}.", changed, note)
    direction = "higher" if raises else "lower"
    return Headline("Mean IoU is ", f"{amount} {direction}", f"{ends} for {subject} than for {over}.", changed, note)


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
    note = "It was measured in training; nothing was evaluated."
    return Headline("The best validation mean IoU is ", f"{100 * best:.1f}%", f", of {name}.", note=note)


def _points(compared: Comparison) -> str:
    gain, low, high = _in_points(compared)
    return f"{_number(gain, '+')} points{_ends(low, high)}"


def _in_points(compared: Comparison) -> tuple[Decimal, Decimal, Decimal]:
    """The difference and its interval in points, rounded as they are shown: all to two digits if one needs them."""
    points = [100 * float(getattr(compared, part)) for part in ("difference", "low", "high")]
    digits = 2 if min(map(abs, points)) < _FINE else 1
    gain, low, high = (Decimal(f"{each:.{digits}f}") for each in points)
    return gain, low, high


def _ends(low: Decimal, high: Decimal) -> str:
    return f" ({_number(low)} … {_number(high)})"


def _number(value: Decimal, sign: str = "-") -> str:
    """A rounded number; zero has no sign.

    >>> _number(Decimal("-0.00")), _number(Decimal("-0.06")), _number(Decimal("3.0"), "+"), _number(Decimal("0.0"), "+")
    ('0.00', '−0.06', '+3.0', '0.0')
    """
    return f"{value:{sign}}".replace("-", "−") if value else f"{abs(value)}"


def _interval(low: Any, high: Any) -> str:
    return "" if low is None or high is None or low == high else f" ({100 * low:.1f} … {100 * high:.1f})"
