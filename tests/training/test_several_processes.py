"""Two processes compute what one computes with the same batch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("tensorboard", reason="training needs it")
pytest.importorskip("PIL", reason="training needs it")

import torch
from PIL import Image

from densefield.errors import InputError
from densefield.runs.checkpoint import load_segmenter, read_checkpoint
from densefield.runs.distributed import start_fabric
from densefield.runs.settings import read_config
from densefield.runs.splits import build_datasets
from densefield.training.entry import train_config
from densefield.training.log import read_log
from densefield.training.loop import validate


def run_two(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line under torchrun in two processes with gloo."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "--"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [*torchrun, "densefield", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )


def train_on_two(settings: Path, run: Path, *changes: str) -> None:
    answer = run_two("train", str(settings), "--run", str(run), *(part for each in changes for part in ("--set", each)))
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("best validation IoU") == 1


def momenta(checkpoint) -> list[torch.Tensor]:
    """The momentum buffer of SGD after the first step is the gradient plus weight decay."""
    return [state["momentum_buffer"] for state in checkpoint["optimizer"]["state"].values()]


def test_gradients_and_parameters_are_those_of_one_process_with_the_same_batch(tiny, tmp_path):
    stage1 = tmp_path / "stage1"
    train_config(read_config(tiny, ["training.steps=1"]), stage1)
    # Small scales, so that crops extend beyond the images and processes have different numbers of valid pixels.
    settings = ["training.stage=2", f"training.start_from={stage1}", "data.scales=[0.2, 0.4]", "training.steps=3"]
    settings += ["training.validate_every=1", "training.accumulate=2"]
    train_config(read_config(tiny, settings), tmp_path / "one")
    train_on_two(tiny, tmp_path / "two", *settings)
    one, two = ((read_log(tmp_path / name)) for name in ("one", "two"))
    assert [row["step"] for row in two] == ["1", "2", "3"]
    last_one, last_two = (read_checkpoint(tmp_path / name / "checkpoints" / "last.pt") for name in ("one", "two"))
    # Float32 sums in another order, through ten layers and their derivatives; those of widths cancel.
    for a, b in zip(momenta(last_one), momenta(last_two), strict=True):
        assert (a - b).norm() <= 2e-4 * a.norm() + 1e-9
    for name, a in last_one["model"].items():
        assert torch.allclose(a, last_two["model"][name], rtol=1e-5, atol=1e-6), name
    assert last_one["position"] == last_two["position"] and len(last_two["rng"]) == 2
    for a, b in zip(one, two, strict=True):
        assert float(a["loss"]) == pytest.approx(float(b["loss"]), rel=1e-5)
        assert float(a["iou"]) == pytest.approx(float(b["iou"]), abs=2e-3)  # a few pixels are nearly undecided
        assert float(a["train_iou"]) == pytest.approx(float(b["train_iou"]), abs=2e-3)
        assert float(a["nll"]) == pytest.approx(float(b["nll"]), rel=1e-5)


def test_the_validated_parameters_are_saved(tiny, tmp_path):
    """Batch normalisation has different means in each process."""
    settings = ["network.options={width = 32, norm = 'batch'}", "training.steps=3", "training.validate_every=3"]
    train_on_two(tiny, tmp_path / "two", *settings)
    segmenter, config = load_segmenter(tmp_path / "two" / "checkpoints" / "last.pt")
    found = validate(start_fabric(config), segmenter, build_datasets(config)[1], config)
    row = read_log(tmp_path / "two")[-1]
    assert float(row["iou"]) == pytest.approx(found.iou, abs=1e-7)  # nine digits are logged
    assert float(row["nll"]) == pytest.approx(found.nll, rel=1e-5)  # images are summed in another order


def test_images_that_cannot_be_read_do_not_stop_the_other_process(tiny, tmp_path):
    """torchrun ends all processes when one fails; the first has only unreadable images and would finish immediately."""
    train_config(read_config(tiny, ["training.steps=1"]), tmp_path / "run")
    (tmp_path / "images").mkdir()
    for number in range(6):
        Image.fromarray(np.full((64, 64, 3), number, np.uint8)).save(tmp_path / "images" / f"{number}-good.png")
        (tmp_path / "images" / f"{number}-bad.png").write_bytes(b"no image")
    answer = run_two("predict", str(tmp_path / "run"), str(tmp_path / "images"), "-o", str(tmp_path / "out"))
    assert answer.returncode != 0 and answer.stderr.count("is not an image") == 6
    assert len(list((tmp_path / "out").glob("*.png"))) == 6


def test_a_batch_that_cannot_be_divided_among_processes_is_rejected(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(InputError, match="expected a multiple of 3"):
        train_config(read_config(tiny), tmp_path / "run")
