"""Results and lattices in memory: their sizes, and which are dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL", reason="the explorer needs Pillow")

from densefield.explorer import details, inference
from densefield.explorer.gallery import Entry, Picture
from densefield.explorer.inference import Inference, Recent, Result, is_large, term_size
from densefield.explorer.settings import settings_from_json
from tests.explorer.test_inference import MASKS, PHOTO, TABLES
from tests.support.explored_photos import SIZE

PIXELS = SIZE[0] * SIZE[1]
PICTURE = Picture(Entry.__new__(Entry), PHOTO, MASKS["logits"])


def solved(from_memory: Inference, index: int = 0, **given: Any) -> Result:
    given = {"model": "kernels", "crf": TABLES, **given}
    return from_memory.result(index, PICTURE, settings_from_json(given), repr(given), lambda: None)


def counting_lattices(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each lattice that is built from now on."""
    built: list[int] = []

    def counted(term: Any) -> int:
        built.append(len(term.before))
        return term_size(term)

    monkeypatch.setattr(Result, "size", property(lambda result: 1000))  # which has lattices, too
    monkeypatch.setattr(inference, "term_size", counted)
    return built


def test_values_used_least_recently_make_room():
    recent: Recent[str] = Recent(10, count=3)
    for key, size in (("a", 4), ("b", 4), ("c", 2)):
        recent.put(key, key, size)
    assert recent.get("a") == "a"
    recent.put("d", "d", 1)  # a fourth one
    assert [recent.get(key) for key in "abcd"] == ["a", None, "c", "d"]
    recent.make_room(9, keep=["a"])
    assert [recent.get(key) for key in "acd"] == ["a", None, None]
    recent.put("e", "e", 50)  # larger than the total: it is alone
    assert [recent.get(key) for key in "ae"] == [None, "e"]
    recent.clear()
    assert recent.get("e") is None


def test_the_size_of_a_result_counts_scores_and_lattices_too():
    result = solved(Inference())
    assert result.problem is not None and np.shares_memory(result.problem.scores, result.unary)
    marginals = scores = 3 * 4 * PIXELS
    labels = 2 * 2 * PIXELS
    vertices = sum(term.lattice.num_vertices for term in result.problem.pairwise if term.lattice is not None)
    # Features, a vertex and a weight for each corner of a simplex, and normalisation: in two and in five dimensions.
    lattices = PIXELS * (12 * 2 + 16 + 12 * 5 + 16) + 50 * vertices
    assert result.size == marginals + scores + labels + lattices


def test_results_and_lattices_of_other_images_are_dropped(monkeypatch):
    built, memory = counting_lattices(monkeypatch), Inference()
    first = solved(memory)
    assert solved(memory) is first and len(built) == 2
    solved(memory, temperature=2.0)
    assert solved(memory) is first and len(built) == 2  # the same lattices
    solved(memory, index=1)
    assert len(built) == 4
    assert solved(memory) is not first and len(built) == 6


def test_lattices_of_the_shown_result_stay_even_if_they_are_large(monkeypatch):
    monkeypatch.setattr(inference, "MOST_LATTICES", 1)
    monkeypatch.setattr(inference, "MOST_RESULTS", 1)
    built, memory = counting_lattices(monkeypatch), Inference()
    solved(memory)
    solved(memory, temperature=2.0)
    assert len(built) == 2
    narrow = {"kernels": [TABLES["kernels"][0], {**TABLES["kernels"][1], "sigma_xy": 20.0}]}
    solved(memory, crf=narrow)
    assert len(built) == 3  # that of the other kernel stayed
    solved(memory)
    assert len(built) == 4


def test_findings_and_energies_of_large_photos_are_left_out(monkeypatch):
    result = solved(Inference(), iterations=2)
    assert not is_large((2048, 2048)) and is_large((2049, 2048))
    monkeypatch.setattr(inference, "MOST_PIXELS", PIXELS - 1)
    (found,) = details.findings(PICTURE, settings_from_json({}), result)
    assert found["severity"] == "note" and "photos this large" in found["what"]
    assert details.energies(result, lambda: None) == {"energies": [], "changes": []}
