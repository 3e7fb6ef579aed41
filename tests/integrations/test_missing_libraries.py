"""Names of integrations say what to install if their library is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the names need it besides")


@pytest.mark.parametrize(
    ("name", "library"), [("DenseCRFForSemanticSegmentation", "transformers"), ("SegmentationModule", "lightning")]
)
def test_the_error_names_the_extra(name, library):
    code = f"""
import sys
sys.modules[{library!r}] = None  # the import system treats this as not installed
import densefield.integrations
try:
    densefield.integrations.{name}
except ImportError as error:
    print(error)
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert answer.rstrip().endswith(f"Install it with: pip install 'densefield[{library}]'")
