"""The examples of docs/metrics.md run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

pytest.importorskip("torch")

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_examples_of_the_documentation_run():
    text = "\n".join("" if line.startswith("```") else line for line in PAGE.read_text(encoding="utf-8").splitlines())
    examples = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert len(examples.examples) >= 10
    report: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples, out=report.append)
    assert failed == 0, "".join(report)
