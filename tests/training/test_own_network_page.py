"""The examples of docs/own-network.md run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("tensorboard", reason="training needs it")
pytest.importorskip("matplotlib", reason="reports need it")
pytest.importorskip("PIL", reason="reports need it")

import torch

from densefield.runs.settings import read_config
from densefield.training.entry import train_config

PAGE = Path(__file__).parents[2] / "docs" / "own-network.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_examples_run_and_the_settings_train_as_they_do(tmp_path, monkeypatch):
    project, training, *others = blocks("python")
    assert len([line for line in training.splitlines() if line]) < 10
    (tmp_path / "my_project.py").write_text(project)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    names: dict[str, object] = {}
    try:
        for block in (training, *others):
            torch.manual_seed(8317)
            short = re.sub(r"(steps|trials)=\d+", r"\1=2", block)
            exec(short.replace("steps=2", "steps=60", 1) if block is training else short, names)
        (toml,) = blocks("toml")
        (tmp_path / "scans.toml").write_text(toml)
        config = read_config(tmp_path / "scans.toml", ["training.steps=2", "training.workers=0"])
        assert train_config(config, tmp_path / "runs" / "config").nll > 0
    finally:
        sys.modules.pop("my_project", None)
    assert repr(names["joint"]).startswith("<run runs/joint: network and CRF, best validation IoU")
    assert names["result"].methods["network"].mean_iou > 0.5  # 0.8 after 60 steps; colours that wrap give 0.1
    assert "mean IoU" in repr(names["result"]) and "Bilateral(" in repr(names["tuned"])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "joint run" in page and "tuned" in page and "search" in page
    assert (tmp_path / "runs" / "named" / "config.toml").read_text().count('"my_project:') == 2
