"""Tables of metrics on the terminal, printed with rich."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from densefield.io.messages import printable
from densefield.metrics.summary import comparison_table


def print_comparison(methods: Mapping[str, Any], comparisons: Mapping[str, Any], title: str) -> None:
    """Prints one row for each metric, one column for each method, and the gain of each compared method."""
    _print_table(title, *comparison_table(dict(methods), dict(comparisons)))


def print_classes(methods: Mapping[str, Any], classes: Sequence[str]) -> None:
    """Prints the intersection over union of each label, and their mean, by method, with its confidence interval."""
    columns = ["label", *(column for method in methods for column in (method, "95% interval"))]
    rows = []
    for label, name in enumerate(classes):
        row = [name]
        for summary in methods.values():
            value, low, high = (summary["iou"][part][label] for part in ("value", "low", "high"))
            row += ["–", ""] if value is None else [f"{100 * value:.1f}", f"{100 * low:.1f} … {100 * high:.1f}"]
        rows.append(row)
    mean = ["mean"]
    for summary in methods.values():
        value, low, high = (summary["mean_iou"][part] for part in ("value", "low", "high"))
        mean += ["–", ""] if value is None else [f"{100 * value:.1f}", f"{100 * low:.1f} … {100 * high:.1f}"]
    _print_table("IoU", columns, [*rows, mean])


def _print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table without interpreting markup: names of classes may look like it."""
    table = Table(title=Text(printable(title)))
    for place, column in enumerate(columns):
        table.add_column(Text(printable(column)), justify="right" if place else "left")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)
