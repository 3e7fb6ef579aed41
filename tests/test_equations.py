"""docs/equations.md maps the paper to functions that exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

# The labels of the paper's numbered equations, figures and tables, in order.
LABELS = (
    "eq:Inference",
    "eq:Learning",
    "fig:AlgStandard",
    "eq:Decomposition",
    "fig:AlgDeepStructured",
    "eq:KLDivergenceProg",
    "eq:MeanFieldUpdate",
    "eq:LogLikelihoodLoss",
    "eq:LossGradient",
    "eq:LossMarginalGradient",
    "fig:OurApproach",
    "fig:ValOverIterationsUnaryValOverIterationsJoint",
    "tab:ResultsBreakDown",
    "eq:OurPariwise",
    "fig:VisualResultsGood",
    "fig:FailureCases",
)
PAGE = (Path(__file__).parents[1] / "docs" / "equations.md").read_text(encoding="utf-8")


def table_rows() -> list[list[str]]:
    """The cells of every table row of the page, without header rows."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in PAGE.splitlines()
        if line.startswith("|")
    ]
    return [row for row in rows if row[0] != "place" and set(row[0]) != {"-"}]


def named_functions() -> list[str]:
    return sorted(set(re.findall(r"`(densefield(?:\.\w+)+)`", PAGE)))


def resolve(dotted: str) -> object:
    """The object of a dotted name, whose first parts are modules."""
    first, *rest = dotted.split(".")
    found, path = importlib.import_module(first), first
    for part in rest:
        path += f".{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(path)
    return found


@pytest.mark.parametrize("dotted", named_functions())
def test_every_function_on_the_page_exists(dotted):
    try:
        assert callable(resolve(dotted))
    except ModuleNotFoundError as error:
        if error.name not in ("PIL", "torch", "lightning_fabric", "pydantic"):
            raise
        pytest.skip(f"{dotted} needs {error.name}")


def test_every_row_names_its_functions_or_says_not_yet():
    rows = table_rows()
    assert rows
    for row in rows:
        assert len(row) == 4, row
        names = re.findall(r"`densefield[.\w]+`", " ".join(row))
        if row[3] == "not yet":
            assert not names, row
        else:
            assert names, row
            assert re.sub(r"`densefield[.\w]+`", "", row[3]).strip(" ,") == "", row


def test_the_page_has_every_label_of_the_paper_once():
    labels = [row[1].strip("`") for row in table_rows() if row[1]]
    assert sorted(labels) == sorted(LABELS)


def test_the_list_of_labels_matches_the_paper(shared: Path):
    sources = sorted((shared / "paper").glob("*.tex"))
    if not sources:
        pytest.skip("the LaTeX source of the paper is missing")
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    assert tuple(re.findall(r"\\label\{((?:eq|fig|tab):\w+)\}", text)) == LABELS
