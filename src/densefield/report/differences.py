"""Differences of two methods as text, and whether they are clear as they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from densefield.metrics.summary import format_difference, lower_is_better


def difference_text(name: str, value: float) -> str:
    """A difference of a headline with its sign, unless it is shown as 0.

    >>> difference_text("mean_iou", -0.0007), difference_text("negative_log_likelihood", -0.00002)
    ('-0.07', '0.0000')
    """
    text = format_difference(name, value)
    return text if float(text) else text[1:]


def interval_text(name: str, gain: Mapping[str, Any]) -> str:
    """The interval of a difference.

    >>> interval_text("mean_iou", {"low": -0.00001, "high": 0.012})
    '0.00 … +1.20'
    """
    return " … ".join(difference_text(name, gain[end]) for end in ("low", "high"))


def effect(name: str, gain: Mapping[str, Any]) -> str:
    """Whether a difference is better or worse; "" if it, or a number in its interval, is shown as 0.

    >>> effect("mean_iou", {"difference": 0.012, "low": 0.004, "high": 0.02})
    'better'
    >>> effect("mean_iou", {"difference": 0.012, "low": 0.00001, "high": 0.02})
    ''
    """
    difference, low, high = (float(format_difference(name, gain[part])) for part in ("difference", "low", "high"))
    if difference == 0 or not (low > 0 or high < 0):
        return ""
    return "better" if (high < 0) == lower_is_better(name) else "worse"
