"""Files and code in the documentation of tuning and training work."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the page shows a torch module")
pytest.importorskip("pydantic", reason="settings need it")

from densefield import CRF
from densefield.crf.crf_file import crf_to_toml, read_crf
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.settings import read_config

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def tuned(tmp_path, monkeypatch):
    """The CRF file of the documentation, at the path of its commands."""
    (text,) = (block for block in blocks("tuning.md", "toml") if "[[kernels]]" in block)
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "crf.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "tuned" / "crf.toml"


def test_the_file_in_the_documentation_is_the_default_crf(tuned):
    assert tuned.read_text() == crf_to_toml(DenseCRF(num_classes=21).to_numpy())
    assert [kernel.name for kernel in read_crf(tuned).kernels] == [kernel.name for kernel in CRF().kernels]


def test_the_code_in_the_documentation_runs(tuned):
    (code,) = (block for block in blocks("tuning.md", "python") if "CRF.load" in block)
    random = np.random.default_rng(90901)
    p = random.dirichlet(np.ones(21), size=(6, 7)).transpose(2, 0, 1)
    names = {"image": random.integers(0, 256, (6, 7, 3)).astype(np.uint8), "probabilities": p}
    exec(code, names)
    assert names["refined"].shape == (21, 6, 7)
    assert Path("learnt.toml").read_text() == tuned.read_text()  # nothing was learnt


def test_the_settings_in_the_documentation_start_from_the_tuned_crf(tuned, tmp_path):
    (text,) = (block for block in blocks("tuning.md", "toml") if "file =" in block)
    (tmp_path / "settings.toml").write_text(text)
    crf = read_config(tmp_path / "settings.toml").crf
    assert crf.freeze == ("*.log_sigma",) and crf.kernels[0]["sigma"] == [3.0, 3.0]


def test_the_kernels_in_the_documentation_of_training_are_valid_settings(tmp_path):
    two, embedding = (block for block in blocks("training.md", "toml") if "crf.kernels" in block)
    (tmp_path / "settings.toml").write_text(two)
    crf = read_config(tmp_path / "settings.toml", ["crf.kernels.0.weight=2"]).crf
    assert crf.iterations == 10 and [kernel["weight"] for kernel in crf.kernels] == [2.0, 5.0]
    assert crf.kernels[1]["compatibility"] == "matrix"
    (tmp_path / "settings.toml").write_text(embedding)
    config = read_config(tmp_path / "settings.toml")
    assert config.network.embedding == 4 and config.crf.kernels[0]["sigma"] == [0.2] * 4
