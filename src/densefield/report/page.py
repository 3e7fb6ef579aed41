"""The report: one self-contained HTML page."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from densefield.errors import InputError
from densefield.evaluation.cases import CASES, KINDS
from densefield.evaluation.evaluation import RESULT
from densefield.images.palette import voc_palette
from densefield.images.reading import open_image
from densefield.io.files import write_atomically
from densefield.io.folders import path_inside
from densefield.report import curves
from densefield.report.collecting import METHODS, Evaluated, Findings, collect
from densefield.report.tables import difference_table, headline_table, iou_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPLATE = Path(__file__).with_name("page.html")
MAX_WIDTH = 1600  # of a picture in the page
QUALITY = 88  # of its JPEG


def write_report(runs: Sequence[str], out: Path) -> list[Path]:
    """Writes the page, and its figures as PNG into a folder beside it; returns all files.

    Parameters
    ----------
    runs
        Folders of `densefield train`, `eval` or `tune`, or folders with such folders one or two levels below; each may
        be given as NAME=FOLDER.
    out
        The page, such as report.html.
    """
    import matplotlib
    from jinja2 import Environment, StrictUndefined

    if not runs:
        raise InputError("there are no runs, expected one or more.")
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{out} ends in {out.suffix or 'nothing'!r}, expected .html.")
    found = collect(runs)
    with matplotlib.rc_context(curves.STYLE):
        figures = _figures(found)
        svg: Any = {"format": "svg", "transparent": True, "metadata": {"Date": None}}
        pictures = {name: _uri(curves.to_bytes(each, **svg), "image/svg+xml") for name, each in figures.items()}
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(minus=_minus, parameter=curves.parameter_title)
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        found=found,
        images=_images(found.methods) if found.methods else None,
        figures=pictures,
        headlines=headline_table(found.methods) if found.methods else None,
        differences=difference_table(found.methods) if len(found.methods) > 2 else None,
        classes=iou_table(found.methods, found.classes) if found.methods else None,
        cases=_cases(found),
        environments=_environments(found),
    )
    write_atomically(out, page.encode())
    written = [out]
    for name, figure in figures.items():
        path = out.with_name(f"{out.stem}-figures") / f"{name}.png"
        write_atomically(path, curves.to_bytes(figure, format="png", dpi=200, facecolor="white"))
        written.append(path)
    return written


def _minus(text: str) -> str:
    """Text with minus signs in place of hyphens before numbers.

    >>> _minus("-0.5 … 2.1 in a row-wise table")
    '−0.5 … 2.1 in a row-wise table'
    """
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


def _images(methods: Sequence[Evaluated]) -> str:
    """The number of evaluated images, or its range over methods."""
    counts = [method.summary["images"] for method in methods]
    fewest, most = min(counts), max(counts)
    if fewest < most:
        return f"{fewest} to {most} images"
    return "1 image" if most == 1 else f"{most} images"


def _figures(found: Findings) -> dict[str, Figure]:
    drawn = {
        "training": curves.training_curves(found.trainings),
        "trimap": curves.trimap_curves(found.methods),
        "reliability": curves.reliability_diagram(found.methods),
    }
    for number, training in enumerate(found.trainings):
        drawn[f"crf-{number}"] = curves.parameter_curves(training)
    return {name: figure for name, figure in drawn.items() if figure is not None}


def _cases(found: Findings) -> dict[str, list[dict[str, Any]]]:
    """The pictures of each kind, of the last evaluation that has any, with a CRF if there is one."""
    drawn = [(name, folder, result) for name, folder, result in found.evaluations if result.get("cases")]
    shown = [each for each in drawn if "crf" in each[2]["methods"]] or drawn
    cases: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for name, folder, result in shown[-1:]:
        for case in result["cases"]:
            if case["kind"] in cases:
                panels = ["image", "truth", *(METHODS[method] for method in result["methods"])]
                about = {"run": name, "panels": panels, "methods": list(result["methods"])}
                cases[case["kind"]].append({**case, **about, **_picture(folder, case, result["classes"])})
    return cases


def _picture(folder: Path, case: dict[str, Any], classes: Sequence[str]) -> dict[str, Any]:
    """The picture of a case as a data URI, and the names and colours of its labels."""
    from PIL import Image

    try:
        picture = open_image(path_inside(folder / CASES, f"{case['id']}.png")).convert("RGB")
    except InputError as error:
        raise InputError(f"{folder / RESULT}: cases: {error} Run `densefield eval` again.") from error
    if picture.width > MAX_WIDTH:
        picture = picture.resize(
            (MAX_WIDTH, round(picture.height * MAX_WIDTH / picture.width)), Image.Resampling.LANCZOS
        )
    buffer = BytesIO()
    picture.save(buffer, "JPEG", quality=QUALITY)
    colours = voc_palette()
    labels = [(classes[label], f"rgb{tuple(colours[label].tolist())}") for label in case["labels"] if label]
    return {"picture": _uri(buffer.getvalue(), "image/jpeg"), "labels": labels}


def _environments(found: Findings) -> list[dict[str, Any]]:
    """The hardware and versions of results, each once."""
    known: list[dict[str, Any]] = []
    for result in [result for _, _, result in found.evaluations] + [result for _, result in found.tunings]:
        if result["machine"] not in known:
            known.append(result["machine"])
    return known


def _uri(content: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
