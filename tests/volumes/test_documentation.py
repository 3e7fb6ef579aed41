"""The examples of the guide run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

pytest.importorskip("nibabel", reason="the examples read NIfTI")
PAGE = Path(__file__).parents[2] / "docs" / "files.md"


def test_the_examples_of_the_guide_run():
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted >= 18 and result.failed == 0
