"""Tables of metrics on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def print_comparison(methods: Mapping[str, Any], comparisons: Mapping[str, Any], title: str) -> None:
    """Prints one row for each metric, one column for each method, and the gain of each method that is compared."""
    from rich.console import Console
    from rich.table import Table

    from densefield.metrics.summary import HEADLINES, TITLES
    from densefield.metrics.verdict import format_difference

    table = Table(title=title)
    table.add_column("")
    for method in methods:
        table.add_column(method, justify="right")
    for method in comparisons:
        table.add_column(f"gain of {method}", justify="right")
        table.add_column("95% interval", justify="right")
    for name in HEADLINES:
        row = [TITLES[name]]
        row += [_number(name, summary[name]["value"]) for summary in methods.values()]
        for comparison in comparisons.values():
            gain = comparison[name]
            if gain["difference"] is None:
                row += ["", ""]
                continue
            row.append(format_difference(name, gain["difference"]))
            row.append(" … ".join(_end(name, gain[end]) for end in ("low", "high")))
        table.add_row(*row)
    Console().print(table)


def _number(name: str, value: float | None) -> str:
    from densefield.metrics.verdict import format_difference

    return "–" if value is None else format_difference(name, value, signed=False)


def _end(name: str, value: float | None) -> str:
    from densefield.metrics.verdict import format_difference

    return "∞" if value is None else format_difference(name, value)


def print_classes(methods: Mapping[str, Any], classes: Sequence[str]) -> None:
    """Prints the intersection over union of each label, by method, with its confidence interval."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="IoU")
    table.add_column("label")
    for method in methods:
        table.add_column(method, justify="right")
        table.add_column("95% interval", justify="right")
    for label, name in enumerate(classes):
        row = [name]
        for summary in methods.values():
            value, low, high = (summary["iou"][part][label] for part in ("value", "low", "high"))
            row += ["–", ""] if value is None else [f"{100 * value:.1f}", f"{100 * low:.1f} … {100 * high:.1f}"]
        table.add_row(*row)
    Console().print(table)
