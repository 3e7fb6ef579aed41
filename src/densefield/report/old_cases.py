"""The pictures of `cases` of evaluations of earlier versions, which stored no other pictures."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path
from typing import Any

from densefield.errors import InputError
from densefield.evaluation.cases import CASES, KINDS
from densefield.evaluation.evaluation import RESULT
from densefield.images.reading import open_image
from densefield.io.folders import path_inside
from densefield.report.collecting import METHODS, Findings

MAX_WIDTH = 1600  # of a picture in the page
QUALITY = 88  # of its JPEG


def case_pictures(found: Findings) -> dict[str, list[dict[str, Any]]]:
    """The pictures of each kind, of the last evaluation that has any, with a CRF if there is one."""
    drawn = [(name, folder, result) for name, folder, result in found.evaluations if result.get("cases")]
    shown = [each for each in drawn if "crf" in each[2]["methods"]] or drawn
    cases: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for name, folder, result in shown[-1:]:
        for case in result["cases"]:
            if case["kind"] in cases:
                panels = ["image", "truth", *(METHODS[method] for method in result["methods"])]
                about = {"run": name, "panels": panels, "methods": list(result["methods"])}
                cases[case["kind"]].append({**case, **about, "picture": _picture(folder, case["id"])})
    return {kind: pictures for kind, pictures in cases.items() if pictures}


def _picture(folder: Path, id: str) -> str:
    """The picture of a case as a data URI."""
    from PIL import Image

    try:
        picture = open_image(path_inside(folder / CASES, f"{id}.png")).convert("RGB")
    except InputError as error:
        raise InputError(f"{folder / RESULT}: cases: {error} Run `densefield eval` again.") from error
    if picture.width > MAX_WIDTH:
        size = (MAX_WIDTH, round(picture.height * MAX_WIDTH / picture.width))
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    buffer = BytesIO()
    picture.save(buffer, "JPEG", quality=QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"
