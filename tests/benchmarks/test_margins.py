"""The tables of methods over seeds, and errors of their arguments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="evaluation needs it")

from densefield.evaluation import evaluate

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("the source distribution has no benchmarks", allow_module_level=True)


def program(name, *arguments):
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("margins", ["foo"], "'foo' is not NAME=METHOD:FOLDER,FOLDER,…"),
        ("margins", ["joint=crff:x"], "'joint=crff:x' is not NAME=METHOD:FOLDER"),
        ("margins", ["joint=crf:x,"], "'joint=crf:x,' is not NAME=METHOD:FOLDER"),
        ("margins", ["a=crf:x", "a=crf:y"], "two methods are called 'a'"),
        ("margins", ["joint=crf:nowhere"], "there is no nowhere/result.json"),
        ("temperature", ["joint=crff:x"], "'joint=crff:x' is not NAME=METHOD:FOLDER"),
        ("temperature", ["joint=crf:nowhere"], "there is no nowhere"),
    ],
)
def test_wrong_arguments_end_with_one_line(name, arguments, says):
    done = program(name, *arguments)
    assert done.returncode == 1 and done.stderr.startswith(says) and len(done.stderr.splitlines()) == 1, done.stderr


def test_classes_that_do_not_occur_have_no_iou(tmp_path):
    random = np.random.default_rng(6)
    labels = random.integers(0, 2, (4, 8, 9))  # of three classes
    scored = [
        (random.normal(size=(3, 8, 9)) + np.eye(3)[each].transpose(2, 0, 1), np.zeros((8, 9, 3), np.uint8), each)
        for each in labels
    ]
    evaluate(scored, None, tmp_path / "eval")
    done = program("margins", f"one=network:{tmp_path / 'eval'}", f"two=network:{tmp_path / 'eval'}")
    assert done.returncode == 0, done.stderr
    assert "nan" not in done.stdout and not done.stderr
    assert "| 2 | 0 | – | – |" in done.stdout and "4 to 4 (1)" in done.stdout and "0 to" not in done.stdout
    missing = program("margins", f"one=crf:{tmp_path / 'eval'}")
    assert "has no results of crf, but of network" in missing.stderr and missing.returncode == 1
