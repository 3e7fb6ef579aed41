"""A run that is stopped at any step resumes to the same parameters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from contextlib import contextmanager

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("tensorboard", reason="training needs it")
pytest.importorskip("PIL", reason="training needs it")

import torch
from torch import nn

from densefield.errors import InputError
from densefield.networks.small import SmallNetwork
from densefield.nn.segmenter import Segmenter
from densefield.runs.checkpoint import load_segmenter, read_checkpoint
from densefield.runs.settings import read_config
from densefield.training import loop
from densefield.training.entry import train_config
from densefield.training.log import read_log


class Stop(Exception):
    """The exception that ends a run in these tests."""


def same(one: object, two: object) -> bool:
    """Whether two checkpoints, or parts of them, are bitwise equal."""
    if isinstance(one, torch.Tensor):
        return isinstance(two, torch.Tensor) and torch.equal(one, two)
    if isinstance(one, dict):
        return isinstance(two, dict) and one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple):
        return isinstance(two, list | tuple) and len(one) == len(two) and all(map(same, one, two))
    return one == two


def last(run):
    return read_checkpoint(run / "checkpoints" / "last.pt")


@contextmanager
def stopping_at(monkeypatch, step: int):
    """End a run in this step, and check that it ended."""
    count = iter(range(1, 1000))
    true_step = loop.training_step

    def stopping(*arguments):
        if next(count) == step:
            raise Stop
        return true_step(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "training_step", stopping)
        with pytest.raises(Stop):
            yield


def test_a_killed_run_resumes_to_the_same_result(tiny, tmp_path):
    stage1, whole, killed = (tmp_path / name for name in ("stage1", "whole", "killed"))
    train_config(read_config(tiny, ["training.steps=2"]), stage1)
    settings = ["training.stage=2", f"training.start_from={stage1}", "training.steps=24", "training.validate_every=9"]
    config = read_config(tiny, settings)
    train_config(config, whole)

    options = [part for setting in settings for part in ("--set", setting)]
    process = subprocess.Popen(
        [sys.executable, "-m", "densefield", "train", str(tiny), "--run", str(killed), *options],
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not (killed / "checkpoints" / "last.pt").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    time.sleep(0.07)  # at an arbitrary moment
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert last(killed)["step"] < 24

    train_config(config, killed, resume=True)
    assert same(last(killed), last(whole)) and same(read_checkpoint(killed), read_checkpoint(whole))
    for one, two in zip(read_log(killed), read_log(whole), strict=True):
        assert {**one, "images_per_second": ""} == {**two, "images_per_second": ""}


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 6])
def test_dropout_resumes_its_random_state(tiny, tmp_path, monkeypatch, step):
    def with_dropout(config, objects):
        network = SmallNetwork(4, 32, "group")
        network.blocks.append(nn.Dropout())
        return Segmenter(network)

    monkeypatch.setattr(loop, "build_segmenter", with_dropout)
    config = read_config(tiny, ["optimizer.name=adamw", "training.workers=1"] if step == 5 else [])
    train_config(config, tmp_path / "whole")
    with stopping_at(monkeypatch, step):
        train_config(config, tmp_path / "stopped")
    torch.rand(step)  # simulates the random state of another process
    train_config(config, tmp_path / "stopped", resume=True)
    assert same(last(tmp_path / "stopped"), last(tmp_path / "whole"))


def test_partial_files_of_a_killed_run_are_ignored(tiny, tmp_path, monkeypatch):
    config, run = read_config(tiny), tmp_path / "run"
    with stopping_at(monkeypatch, 6):
        train_config(config, run)
    (run / "checkpoints" / ".last.pt.part").write_bytes(b"half")
    with (run / "log.csv").open("a", encoding="utf-8") as file:
        file.write("6,1,0.3")
    train_config(config, run, resume=True)
    assert [row["step"] for row in read_log(run)] == list("123456") and last(run)["step"] == 6
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["best.pt", "last.pt", "previous.pt"]


def test_a_finished_run_is_not_resumed(tiny, tmp_path):
    config = read_config(tiny)
    best = train_config(config, tmp_path / "run")
    before = (tmp_path / "run" / "log.csv").read_text(encoding="utf-8")
    assert train_config(config, tmp_path / "run", resume=True) == best
    assert (tmp_path / "run" / "log.csv").read_text(encoding="utf-8") == before


def test_a_run_is_not_resumed_with_other_settings(tiny, tmp_path):
    train_config(read_config(tiny, ["training.steps=2"]), tmp_path / "run")
    with pytest.raises(InputError, match=r"training\.steps: 2, 6"):
        train_config(read_config(tiny), tmp_path / "run", resume=True)


def test_data_folder_and_workers_may_change_on_resume(tiny, tmp_path):
    train_config(read_config(tiny), tmp_path / "run")
    train_config(read_config(tiny, ["training.workers=1", "data.root=elsewhere"]), tmp_path / "run", resume=True)
    assert last(tmp_path / "run")["step"] == 6


def test_a_run_without_a_checkpoint_starts_from_the_beginning(tiny, tmp_path):
    train_config(read_config(tiny), tmp_path / "run", resume=True)
    assert last(tmp_path / "run")["step"] == 6


@pytest.mark.parametrize("content", [b"", b"half a checkpoint"])
def test_a_file_that_is_not_a_checkpoint_is_rejected(tmp_path, content):
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    expected = (
        r"x\.pt is (empty|damaged, cut short, or not a file of torch\.save\(\)).* Expected the checkpoint of a run"
    )
    with pytest.raises(InputError, match=expected) as caught:
        load_segmenter(path)
    assert "weights_only" not in "".join(traceback.format_exception(caught.value))


def test_a_checkpoint_with_other_objects_in_it_is_rejected_without_torchs_advice(tmp_path):
    torch.save({"model": torch.nn.Linear(2, 1)}, tmp_path / "x.pt")
    with pytest.raises(
        InputError, match=r"x\.pt holds torch\.nn\.\S+\.Linear, not only tensors\. It was not"
    ) as caught:
        load_segmenter(tmp_path / "x.pt")
    assert "weights_only" not in "".join(traceback.format_exception(caught.value))


def test_a_state_dict_is_not_a_checkpoint(tmp_path):
    torch.save({"weight": torch.zeros(1)}, tmp_path / "x.pt")
    with pytest.raises(InputError, match="it lacks model, optimizer"):
        load_segmenter(tmp_path / "x.pt")


@pytest.mark.parametrize("name", ["", "none.pt"])
def test_a_missing_checkpoint_is_named(tmp_path, name):
    with pytest.raises(InputError, match="expected the folder of a run, or a checkpoint"):
        load_segmenter(tmp_path / name)
