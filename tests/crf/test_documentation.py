"""The examples in the documentation of refinement and inference run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "name, least", [("refine.md", 15), ("scribbles.md", 7), ("integrations/napari.md", 7), ("inference.md", 10)]
)
def test_the_examples_of_the_documentation_run(name, least):
    page = Path(__file__).parents[2] / "docs" / name
    text = "\n".join("" if line.startswith("```") else line for line in page.read_text(encoding="utf-8").splitlines())
    examples = doctest.DocTestParser().get_doctest(text, {}, name, str(page), 0)
    assert len(examples.examples) >= least
    report: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples, out=report.append)
    assert failed == 0, "".join(report)
