"""The report: one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from datetime import datetime, timezone
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from densefield.errors import InputError
from densefield.io.files import write_atomically
from densefield.metrics.summary import TITLES
from densefield.report import curves, figures
from densefield.report.arguments import check_page
from densefield.report.charts import draw_chart
from densefield.report.collecting import Findings, Runs, by_stage, collect
from densefield.report.gallery import make_gallery
from densefield.report.headline import headline
from densefield.report.intervals import interval_chart
from densefield.report.old_cases import case_pictures
from densefield.report.provenance import environments, steps, temperature_note
from densefield.report.tables import (
    difference_table,
    effect_table,
    gain_cells,
    headline_table,
    interval_note,
    iou_table,
    transposed,
)

if TYPE_CHECKING:
    from jinja2 import Environment

PARTS = Path(__file__).with_name("page")  # templates, style and scripts
STYLE = "style.css"
SCRIPTS = ("tables.js", "charts.js", "pictures.js", "layers.js", "viewer.js", "print.js")  # in the order of their use

MAX_COLUMNS = 6  # of methods: more become rows of the table of classes


def write_report(runs: Runs, out: str | PathLike[str]) -> list[Path]:
    """Writes the page, and its figures as PNG into a folder beside it; returns all files.

    Parameters
    ----------
    runs
        Folders of `densefield train`, `eval` or `tune`, or folders with such folders one or two levels below; each may
        be given as NAME=FOLDER. Or a dict of names with folders, or with results of `evaluate` and `tune_crf`.
    out
        The page, such as report.html.
    """
    import matplotlib

    if not runs:
        raise InputError("there are no runs, expected one or more.")
    page = Path(out)
    check_page(page)
    found = collect(runs)
    panels = _panels(found)
    write_atomically(page, _page(found, panels).encode())
    written = [page]
    with matplotlib.rc_context(figures.STYLE):
        for name, group in panels.items():
            path = page.with_name(f"{page.stem}-figures") / f"{name}.png"
            write_atomically(path, figures.to_png(figures.draw(group)))
            written.append(path)
    return written


def _page(found: Findings, panels: dict[str, list[curves.Panel]]) -> str:
    script = "\n".join((PARTS / name).read_text(encoding="utf-8") for name in SCRIPTS)
    methods, gallery = found.methods, make_gallery(found)
    results = headline_table(methods) if methods else None
    classes = iou_table(methods, found.class_titles) if methods else None
    wide = len(methods) > MAX_COLUMNS
    learnt = [f"parameters-{number}" for number in range(len(found.trainings)) if f"crf-{number}" in panels]
    return (
        _environment()
        .get_template("page.html")
        .render(
            found=found,
            style=(PARTS / STYLE).read_text(encoding="utf-8"),
            script=script,
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            headline=headline(found),
            date=f"{datetime.now(timezone.utc):%Y-%m-%d}",
            images=_images(found),
            charts={name: [draw_chart(panel) for panel in group] for name, group in panels.items()},
            headlines=results,
            intervals=interval_chart(results) if results else None,
            temperatures=temperature_note(found),
            baseline=methods[0].title if len(methods) > 1 else None,
            effects=effect_table(methods) if methods else None,
            effects_columns=list(TITLES.values()),
            differences=difference_table(methods) if len(methods) > 2 else None,
            classes=transposed(classes) if classes and wide else classes,
            wide=wide,
            parameters=learnt[0] if learnt else None,
            gallery=gallery,
            cases=case_pictures(found) if methods and gallery is None else {},
            steps=steps(found),
            environments=environments(found),
        )
    )


def _environment() -> Environment:
    """Jinja with escaping of everything that is not marked as safe: names and settings come from files."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(PARTS), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        minus=_minus,
        parameter=curves.parameter_title,
        unit=curves.parameter_unit,
        data=lambda value: Markup(in_script(value)),
        gains=gain_cells,
        interval_note=interval_note,
    )
    return environment


def in_script(value: Any) -> str:
    """A value, or a JSON text, as JSON within a script element: nothing in it ends the element.

    >>> in_script({"name": "</script><b>"})
    '{"name": "\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e"}'
    """
    text = value if isinstance(value, str) else json.dumps(value)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _minus(text: str) -> str:
    """Text with minus signs in place of hyphens before numbers.

    >>> _minus("-0.5 … 2.1 in a row-wise table")
    '−0.5 … 2.1 in a row-wise table'
    """
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


def _images(found: Findings) -> str:
    """The number of evaluated images, or its range over methods."""
    counts = [method.summary["images"] for method in found.methods] or [0]
    fewest, most = min(counts), max(counts)
    if fewest < most:
        return f"{fewest} to {most} images"
    return "1 image" if most == 1 else f"{most} images"


def _panels(found: Findings) -> dict[str, list[curves.Panel]]:
    """The panels of each figure, by the name of its file."""
    methods = by_stage(found.methods)
    drawn = {
        "training": curves.training_curves(found.trainings),
        "trimap": [curves.trimap_curves(methods)] if methods else [],
        "reliability": [curves.reliability_diagram(methods)] if methods else [],
    }
    for number, training in enumerate(found.trainings):
        drawn[f"crf-{number}"] = curves.parameter_curves(training)
    return {name: panels for name, panels in drawn.items() if panels}
