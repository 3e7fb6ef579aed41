"""A comparison in words."""

from __future__ import annotations

from typing import Any

from densefield.metrics.summary import HEADLINES, TITLES, lower_is_better

_NOTHING = 5e-5  # what no table shows
SHARES = ("mean_iou", "pixel_accuracy", "trimap_iou_3px")


def verdict(comparison: dict[str, Any]) -> str:
    """Whether the CRF helps, measure by measure: it does where the whole interval of the gain is on the good side.

    >>> gain = {"difference": 0.012, "low": 0.004, "high": 0.02}
    >>> loss = {"difference": 0.02, "low": 0.01, "high": 0.03}
    >>> print(verdict({"mean_iou": gain, "negative_log_likelihood": loss}))
    The CRF helps in mean IoU (+1.20 points, 0.40 … 2.00); it harms NLL (+0.0200, 0.0100 … 0.0300).
    """
    found: dict[str, list[str]] = {"helps": [], "harms": [], "open": []}
    for name in HEADLINES:
        if name in comparison and comparison[name]["difference"] is not None:
            found[_effect(name, comparison[name])].append(f"{TITLES[name]} {_gain(name, comparison[name])}")
    parts = []
    if found["helps"]:
        parts.append(f"the CRF helps in {', '.join(found['helps'])}")
    elif found["harms"] or found["open"]:
        parts.append("the CRF does not help")
    if found["harms"]:
        parts.append(f"it harms {', '.join(found['harms'])}")
    if found["open"]:
        parts.append(f"no clear difference in {', '.join(found['open'])}")
    text = "; ".join(parts) or "nothing could be compared"
    return f"{text[0].upper()}{text[1:]}."


def format_difference(name: str, value: float, *, signed: bool = True) -> str:
    """A difference in the unit of its measure: points of a hundred for shares."""
    number = value * 100 if name in SHARES else value
    digits = 2 if name in SHARES else 4
    return f"{number:+.{digits}f}" if signed else f"{number:.{digits}f}"


def _gain(name: str, numbers: dict[str, float]) -> str:
    unit = " points" if name in SHARES else ""
    low, high = (format_difference(name, numbers[end], signed=False) for end in ("low", "high"))
    return f"({format_difference(name, numbers['difference'])}{unit}, {low} … {high})"


def _effect(name: str, numbers: dict[str, float]) -> str:
    low, high = numbers["low"], numbers["high"]
    if low is None or high is None or low <= 0 <= high or abs(numbers["difference"]) < _NOTHING:
        return "open"
    return "helps" if (high < 0) == lower_is_better(name) else "harms"
