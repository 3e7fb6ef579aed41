"""Checks of result.json of an evaluation or a tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from densefield.errors import InputError
from densefield.metrics.boundaries import BANDS
from densefield.metrics.summary import HEADLINES

METHODS = ("network", "crf")
PARTS = ("value", "low", "high")


def check_evaluation(path: Path, result: Mapping[str, Any]) -> None:
    """Raises, in one line that names the file and the field, if an evaluation cannot be shown."""
    _check(path, result, {"classes": list, "images": list, "methods": dict, "machine": dict, "about": dict})
    classes, methods = result["classes"], result["methods"]
    _expect(path, "classes", all(isinstance(name, str) for name in classes) and classes, "names of classes")
    _expect(path, "images", all(isinstance(name, str) for name in result["images"]), "names of images")
    _expect(path, "methods", methods and set(methods) <= set(METHODS), "network, crf, or both")
    _expect(path, "seconds", _is_number(result.get("seconds")), "a number")
    _expect(path, "verdict", isinstance(result.get("verdict", ""), str), "text")
    for method, summary in methods.items():
        _expect(path, f"methods.{method}", _is_summary(summary, len(classes)), "the metrics of a method")
    temperatures = result.get("temperatures", {})
    fits = isinstance(temperatures, dict) and set(temperatures) <= set(METHODS)
    _expect(path, "temperatures", fits and all(map(_is_number, temperatures.values())), "a number for each method")
    cases = result.get("cases", [])
    _expect(path, "cases", isinstance(cases, list), "a list")
    for case in cases:
        _expect(path, "cases", _is_case(case, methods, len(classes)), "an id, kind, metrics and labels of each")


def check_tuning(path: Path, result: Mapping[str, Any]) -> None:
    """Raises, in one line that names the file and the field, if a tuning cannot be shown."""
    _check(path, result, {"learning_images": list, "held_out_images": list, "values": dict, "machine": dict})
    _expect(path, "verdict", isinstance(result.get("verdict"), str), "text")
    _expect(path, "chosen", isinstance(result.get("chosen"), str), "text")
    _expect(path, "seconds", _is_number(result.get("seconds")), "a number")
    _expect(path, "values", all(_is_number(value) for value in result["values"].values()), "numbers")
    if "comparison" in result:
        _expect(path, "comparison", _is_comparison(result["comparison"]), "the differences of every metric")


def _check(path: Path, result: Mapping[str, Any], types: Mapping[str, type]) -> None:
    for name, kind in types.items():
        _expect(path, name, isinstance(result.get(name), kind), "a list" if kind is list else "an object")


def _expect(path: Path, field: str, fits: object, expected: str) -> None:
    if not fits:
        raise InputError(f"{path}: {field}: expected {expected}. Run the command that wrote it again.")


def _is_summary(summary: Any, num_classes: int) -> bool:
    try:
        bins, iou = summary["reliability"], summary["iou"]
        lengths = {len(bins[name]) for name in ("confidence", "accuracy", "pixels")}
        return bool(
            _is_number(summary["images"])
            and all(_are_numbers([summary[name][part] for part in PARTS]) for name in HEADLINES)
            and all(_are_numbers(iou[part]) and len(iou[part]) == num_classes for part in PARTS)
            and _are_numbers(summary["trimap_iou"])
            and len(summary["trimap_iou"]) == BANDS
            and len(lengths) == 1
            and all(_are_numbers(bins[name]) for name in ("confidence", "accuracy", "pixels"))
            and None not in bins["pixels"]
        )
    except (KeyError, TypeError):
        return False


def _is_comparison(comparison: Any) -> bool:
    try:
        gains = [comparison[name][part] for name in HEADLINES for part in ("difference", "low", "high")]
    except (KeyError, TypeError):
        return False
    return _are_numbers(gains)


def _is_case(case: Any, methods: Mapping[str, Any], num_classes: int) -> bool:
    try:
        labels = case["labels"]
        return bool(
            isinstance(case["id"], str)
            and isinstance(case["kind"], str)
            and all(_is_number(case[metric][method]) for metric in ("mean_iou", "pixel_accuracy") for method in methods)
            and all(type(label) is int and 0 <= label < num_classes for label in labels)
        )
    except (KeyError, TypeError):
        return False


def _are_numbers(values: Sequence[object]) -> bool:
    return isinstance(values, list) and all(value is None or _is_number(value) for value in values)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
