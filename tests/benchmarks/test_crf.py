"""benchmarks/crf.py without the package that it compares with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("the source distribution has no benchmarks", allow_module_level=True)


def test_without_pydensecrf_it_ends_with_one_sentence_that_names_the_extra():
    code = "import runpy, sys; sys.modules['pydensecrf'] = None; runpy.run_path('crf.py', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], cwd=BENCHMARKS, capture_output=True, text=True)
    assert done.returncode == 1
    assert "densefield[peers]" in done.stderr
    assert len(done.stderr.splitlines()) == 1
