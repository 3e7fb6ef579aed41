"""Runs of own networks and data on the command line, from a working directory with their module."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("tensorboard", reason="training needs it")
pytest.importorskip("typer", reason="the verbs need it")
pytest.importorskip("PIL", reason="prediction needs Pillow")

from PIL import Image
from typer.testing import CliRunner

import densefield
from densefield.cli.app import app
from densefield.io.files import read_json
from densefield.runs.run_folder import LAST
from densefield.training.log import read_log
from tests.support import own_code
from tests.training.test_own_network import KERNELS, OPTIONS

CONFIG = """
[data]
kind = "project_code:pairs"
crop = [32, 40]
[network]
name = "project_code:dropping"
options = { width = 6 }
num_classes = 4
[training]
steps = 4
batch = 4
validate_every = 2
workers = 0
[[stage2.crf.kernels]]
kind = "spatial"
sigma = 2.0
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a module and settings, as the working directory."""
    shutil.copy(own_code.__file__, tmp_path / "project_code.py")
    (tmp_path / "own.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("project_code", None)
    sys.path[:] = [each for each in sys.path if each != str(tmp_path)]


def call(*arguments, status=0):
    answer = CliRunner().invoke(app, [str(each) for each in arguments])
    assert answer.exit_code == status, answer.output + repr(answer.exception)
    return answer


def test_every_verb_works_on_a_run_whose_settings_name_functions(project):
    call("train", "own.toml", "--run", "one")
    call("train", "own.toml", "--run", "two", "--stage", "2", "--from", "one", "--set", "training.steps=2")
    call("train", "own.toml", "--run", "two", "--stage", "2", "--from", "one", "--set", "training.steps=2", "--resume")
    call("eval", "two", "-o", "two/eval")
    result = read_json(project / "two" / "eval" / "result.json")
    # The run was validated on the same images in the same way.
    row = read_log(project / "two")[-1]
    assert result["methods"]["crf"]["mean_iou"]["value"] == pytest.approx(float(row["iou"]), abs=1e-7)
    assert result["images"] == ["val_000000", "val_000001", "val_000002"]
    call("tune", "one", "-o", "one/tune", "--split", "train", "--trials", 1, "--evaluations", 0, "--shrink", 4)
    Image.fromarray(np.zeros((30, 50, 3), np.uint8)).save("photo.png")
    call("predict", "two", "photo.png", "-o", "out")
    with Image.open("out/photo.png") as labels:
        assert labels.size == (50, 30)
    call("report", "two", "one", "-o", "report.html")
    assert "project_code:dropping" in Path("report.html").read_text(encoding="utf-8")


def test_a_run_of_python_objects_needs_the_names_of_functions(project):
    data = {split: own_code.pairs(split) for split in ("train", "val")}
    densefield.train(own_code.dropping(), KERNELS, **data, run="run", **{**OPTIONS, "steps": 1})
    answer = call("eval", "run", "-o", "run/eval", status=2)
    assert "a Python object (tests.support.own_code.Dropping)" in answer.output.replace("\n", " ")
    assert "--network package.module:function" in answer.output.replace("\n", " ")
    answer = call("eval", "run", "-o", "run/eval", "--network", "project_code:dropping", status=2)
    assert "Name the data" in answer.output.replace("\n", " ")
    call("eval", "run", "project_code:pairs", "-o", "run/eval", "--network", "project_code:dropping")
    assert read_json(project / "run" / "eval" / "result.json")["about"]["data"] == "project_code:pairs"
    answer = call("train", "run/config.toml", "--run", "other", status=2)
    assert "network.name is 'object', a Python object" in answer.output.replace("\n", " ")


def test_scores_in_files_are_evaluated_on_the_data_of_a_function(project):
    (project / "scores").mkdir()
    for name in ("val_000000", "val_000002"):
        np.save(project / "scores" / f"{name}.npy", np.random.default_rng(3).normal(size=(4, 12, 12)))
    call("eval", "scores", "project_code:pairs", "-o", "eval")
    assert read_json(project / "eval" / "result.json")["images"] == ["val_000000", "val_000002"]


def test_from_another_folder_the_missing_module_is_named(project, tmp_path_factory):
    call("train", "own.toml", "--run", "one", "--set", "training.steps=1")
    assert (project / "one" / LAST).exists()
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    command = [sys.executable, "-m", "densefield", "eval", str(project / "one"), "-o", "eval"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    answer = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True)
    assert answer.returncode == 2 and "Traceback" not in answer.stderr
    assert "there is no module project_code" in answer.stderr and "set PYTHONPATH" in answer.stderr
    environment["PYTHONPATH"] = str(project)
    answer = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
