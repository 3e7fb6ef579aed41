"""The page says how a result came about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="what the page shows is computed with torch")

from densefield.errors import InputError
from densefield.evaluation.evaluation import evaluate
from densefield.report.collecting import Findings, Training, collect
from densefield.report.page import write_report
from densefield.report.provenance import steps, temperature_note
from densefield.tuning.search import TuningOptions
from densefield.tuning.tune import tune_crf
from tests.support.scored_scenes import ScoredScenes

SETTINGS = "[training]\nstage = 2\nbatch = 8\n"


def test_a_tuning_has_its_command_and_date(tmp_path):
    tune_crf(ScoredScenes(4), tmp_path / "tune", TuningOptions(trials=1, evaluations=1, shrink=1))
    result = json.loads((tmp_path / "tune" / "result.json").read_text())
    (step,) = steps(collect([str(tmp_path / "tune")]))
    assert step.command == result["command"] != ""
    assert step.facts["date"].replace("\xa0", " ") == f"{result['date'][:16].replace('T', ' ')} UTC"


def training(folder: Path, settings: str = SETTINGS, **columns: list[float | None]) -> Training:
    (folder / "config.toml").write_text(settings)
    return Training("joint", 2, {"step": [10.0, 20.0], **columns}, settings, folder)


def test_the_command_of_stage_2_names_the_run_it_started_from(tmp_path):
    joint = training(tmp_path, f'{SETTINGS}start_from = "/runs/stage 1"\n')
    (step,) = steps(Findings([joint]))
    settings, again = tmp_path / "config.toml", f"{tmp_path}-again"
    assert step.command == f"densefield train {settings} --run {again} --from '/runs/stage 1'" and step.repeats


def test_a_training_without_a_start_has_no_option_for_it(tmp_path):
    (step,) = steps(Findings([training(tmp_path)]))
    assert step.command.endswith("-again")


def test_the_seconds_of_a_training_are_those_of_its_images(tmp_path):
    slow, fast = 0.5, 40.0  # images per second, of steps 1 to 10 and 11 to 20
    (step,) = steps(Findings([training(tmp_path, images_per_second=[slow, fast])]))
    assert step.facts["time of training steps"].replace("\xa0", " ") == "2 min 42 s"  # 80 / 0.5 + 80 / 40
    (step,) = steps(Findings([training(tmp_path, "", images_per_second=[slow, fast])]))
    assert "time of training steps" not in step.facts and "images per second" in step.facts


def test_fingerprints_are_named(tmp_path):
    about = {"split": "val", "weights": "00aa11bb22cc33dd"}
    evaluate(ScoredScenes(2), None, tmp_path / "eval", ["network"], about=about)
    (step,) = steps(collect([str(tmp_path / "eval")]))
    assert step.facts["split"] == "val" and step.facts["fingerprint of weights"] == "00aa11bb22cc33dd"


def test_temperatures_are_named_where_there_are_any(tmp_path):
    evaluate(ScoredScenes(2), None, tmp_path / "plain", ["network"])
    assert temperature_note(collect([str(tmp_path / "plain")])) == ""
    evaluate(ScoredScenes(2), None, tmp_path / "joint", ["network"], temperature=1.25)
    assert "calibration: joint, network by 1.25." in temperature_note(collect([str(tmp_path / "joint")]))
    assert "joint, network by 1.25." in page_of(tmp_path / "joint", tmp_path)
    path = tmp_path / "joint" / "result.json"
    path.write_text(path.read_text().replace('"network": 1.25', '"network": "high"'))
    with pytest.raises(InputError, match="temperatures: expected a number for each method"):
        collect([str(tmp_path / "joint")])


def page_of(run: Path, folder: Path) -> str:
    write_report([str(run)], folder / "report.html")
    return (folder / "report.html").read_text()
