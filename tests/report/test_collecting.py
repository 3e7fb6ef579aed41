"""Collecting logs and results of runs, and their unique names."""

from __future__ import annotations

import json
import re
import shutil

import pytest

pytest.importorskip("torch", reason="what is found was computed with torch")
pytest.importorskip("matplotlib", reason="reports need it")

from densefield.errors import InputError
from densefield.evaluation.evaluation import evaluate
from densefield.report.arguments import named_folders
from densefield.report.collecting import collect
from densefield.report.curves import trimap_curves
from densefield.report.tables import headline_table
from tests.support.scored_scenes import ScoredScenes


def log_in(folder, stage=1):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log.csv").write_text(f"step,stage,loss,iou\n1,{stage},0.9,0.5\n")


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Two evaluations in folders of the same name."""
    folder = tmp_path_factory.mktemp("judged")
    for run, noise in (("a", 1.5), ("b", 0.5)):
        evaluate(ScoredScenes(3, noise), None, folder / run / "eval", ["network"])
    return folder


def test_logs_are_found_one_and_two_folders_below(tmp_path):
    log_in(tmp_path / "all" / "net")
    log_in(tmp_path / "all" / "seed" / "joint", stage=2)
    (tmp_path / "all" / "net" / "config.toml").write_text("seed = 7")
    found = collect([str(tmp_path / "all")]).trainings
    assert [(each.name, each.stage, each.settings) for each in found] == [
        ("all/net", 1, "seed = 7"),
        ("all/seed/joint", 2, ""),
    ]


def test_a_single_log_has_the_name_of_the_run(tmp_path):
    log_in(tmp_path / "all" / "net")
    assert [each.name for each in collect([f"mine={tmp_path / 'all'}"]).trainings] == ["mine"]


def test_a_log_in_the_run_folder_has_the_name_of_the_run(tmp_path):
    log_in(tmp_path / "run")
    log_in(tmp_path / "run" / "again")
    assert [each.name for each in collect([str(tmp_path / "run")]).trainings] == ["run", "run/again"]


def test_other_csv_files_are_not_logs(tmp_path):
    log_in(tmp_path / "run")
    (tmp_path / "run" / "other").mkdir()
    (tmp_path / "run" / "other" / "log.csv").write_text("time,event\n12:00,begun\n")
    assert [each.name for each in collect([str(tmp_path / "run")]).trainings] == ["run"]


def test_a_log_that_cannot_be_read_is_named(tmp_path):
    log_in(tmp_path / "run" / "net")
    (tmp_path / "run" / "net" / "log.csv").write_text("step,stage\nfirst,1\n")
    with pytest.raises(InputError, match=re.escape(f"{tmp_path / 'run' / 'net' / 'log.csv'} cannot be read: ")):
        collect([str(tmp_path / "run")])


def test_tunings_of_a_run_have_different_names(tmp_path):
    tuning = {"kind": "tuning", "learning_images": [], "held_out_images": [], "values": {}, "machine": {}}
    tuning |= {"verdict": "no", "chosen": "search", "seconds": 1.5}
    for name in ("coarse", "fine"):
        (tmp_path / "run" / name).mkdir(parents=True)
        (tmp_path / "run" / name / "result.json").write_text(json.dumps(tuning))
    assert [name for name, _ in collect([str(tmp_path / "run")]).tunings] == ["run/coarse", "run/fine"]


def test_runs_of_the_same_name_have_separate_rows_and_colours(judged):
    methods = collect([str(judged / "a" / "eval"), str(judged / "b" / "eval")]).methods
    assert [title for title, _ in headline_table(methods).rows] == ["a/eval, network", "b/eval, network"]
    one, other = trimap_curves(methods).curves
    assert one.colour != other.colour


@pytest.mark.parametrize(
    "runs, names",
    [
        (["a/eval", "b/eval", "b/tune"], ["a/eval", "b/eval", "tune"]),
        (["x/a/eval", "y/a/eval", "b/eval"], ["x/a/eval", "y/a/eval", "b/eval"]),
        (["eval=a/eval", "b/eval"], ["eval", "b/eval"]),
        (["a/eval=c", "a/eval", "b/eval"], ["a/eval", "here/a/eval", "b/eval"]),
        (["a/../b/eval", "eval/."], ["b/eval", "here/eval"]),
    ],
)
def test_a_name_is_the_shortest_unique_path(tmp_path, monkeypatch, runs, names):
    (tmp_path / "here" / "a").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    assert [name for name, _ in named_folders(runs)] == names


@pytest.mark.parametrize(
    "runs, name",
    [
        (["mine=a/eval", "mine=b/eval"], "mine"),
        (["a/eval", "a/../a/eval"], "{here}/a/eval"),
        (["all=.", "all/a/eval=b/eval"], "all/a/eval"),  # given to one run, and the path of another
    ],
)
def test_a_name_for_several_runs_is_rejected(judged, monkeypatch, runs, name):
    monkeypatch.chdir(judged)
    expected = f"the name {name.format(here=judged.resolve().as_posix())} is that of 2 runs"
    with pytest.raises(InputError, match=re.escape(expected)):
        collect(runs)


def test_an_evaluation_in_the_run_folder_has_the_name_of_the_run(judged, tmp_path):
    shutil.copytree(judged / "a" / "eval", tmp_path / "run")
    shutil.copytree(judged / "b" / "eval", tmp_path / "run" / "again")
    assert [name for name, _, _ in collect([str(tmp_path / "run")]).evaluations] == ["run", "run/again"]


def test_a_run_that_is_named_after_its_method_has_a_short_title(judged):
    found = collect([f"Network={judged / 'a'}", f"networks={judged / 'b'}"])
    assert [method.title for method in found.methods] == ["Network", "networks, network"]
    assert [method.phrase for method in found.methods] == ["the network alone", "the network alone (networks)"]
