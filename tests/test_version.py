"""The files that state the version agree, so that a release needs a tag and a date only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = {
    "CITATION.cff": r"^version: (\S+)$",
    "conda/recipe.yaml": r'^  version: "(.+)"$',
    "CHANGELOG.md": r"^## \[(.+?)\] - (?:Unreleased|\d{4}-\d\d-\d\d)$",
}


def stated(name: str, pattern: str) -> str | None:
    """The first version that a file states."""
    found = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return found[1] if found else None


@pytest.mark.parametrize("name", PLACES)
def test_a_file_states_the_version_of_the_package(name: str) -> None:
    version = stated("pyproject.toml", r'^version = "(.+)"$')
    assert version is not None
    assert stated(name, PLACES[name]) == version
