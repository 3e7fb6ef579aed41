"""The presets of the page."""

from __future__ import annotations

from typing import Any

from densefield.crf.crf_tables import crf_to_tables
from densefield.crf.kernels import Bilateral, Spatial
from densefield.crf.model import CRF


def presets(given: CRF | None) -> list[dict[str, Any]]:
    """Name, note and settings of each preset; `given` is the CRF of a file, which comes first.

    >>> [preset["name"] for preset in presets(None)]
    ['Learnt', 'Dense CRF', 'pydensecrf README', 'Scribbles']
    """
    readme = CRF([Spatial(3, weight=3), Bilateral(80, 13, weight=10)], iterations=5)
    wide = CRF([Spatial(3, weight=3), Bilateral(120, 12, weight=12)], iterations=20)
    found = [] if given is None else [_of_crf("CRF file", "Kernels and options of the file given by --crf.", given)]
    learnt = {
        "name": "Learnt",
        "note": "The default of densefield.refine: roughness, colours and kernels learnt on photos.",
        "settings": {"model": "learnt", "iterations": 5, "roughness": None, "temperature": 1},
    }
    return [
        *found,
        learnt,
        _of_crf("Dense CRF", "The defaults of CRF(): 3/3 and 60/10/5, 5 iterations.", CRF()),
        _of_crf("pydensecrf README", "The widths and weights of its README: 3/3 and 80/13/10, 5 iterations.", readme),
        _of_crf("Scribbles", "Wide kernels and 20 iterations, to spread a few painted labels.", wide),
    ]


def _of_crf(name: str, note: str, crf: CRF) -> dict[str, Any]:
    tables = crf_to_tables(crf)
    settings = {"model": "kernels", "iterations": tables.pop("iterations"), "crf": tables, "confidence": 0.7}
    return {"name": name, "note": note, "settings": {**settings, "temperature": 1}}
