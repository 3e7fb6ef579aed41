"""SIGTERM ends a run with a checkpoint, and a process that does not answer ends the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("tensorboard", reason="training needs it")
pytest.importorskip("PIL", reason="training needs it")

from densefield.errors import InputError
from densefield.runs.checkpoint import read_checkpoint
from densefield.runs.distributed import LostProcess, naming_lost_processes, process_timeout
from densefield.runs.settings import read_config
from densefield.runs.stopping import Terminated
from densefield.training import loop
from densefield.training.entry import train_config
from densefield.training.log import read_log
from tests.training.test_resuming import same

LAST = Path("checkpoints", "last.pt")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def start(*arguments: object, launcher: tuple[str, ...] = (), **environment: str) -> subprocess.Popen[str]:
    """Run the command line in a separate process group."""
    module = ("-m", "--", "densefield") if launcher else ("-m", "densefield")
    return subprocess.Popen(
        [sys.executable, *launcher, *module, *map(str, arguments)],
        env={**ENVIRONMENT, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)


def options(settings: list[str]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


@pytest.mark.parametrize("step", [1, 2, 3, 5])
def test_sigterm_ends_a_run_after_the_step_and_resuming_gives_the_same_result(tiny, tmp_path, monkeypatch, step):
    config = read_config(tiny)
    train_config(config, tmp_path / "whole")
    true_step, count = loop.training_step, iter(range(1, 100))

    def signalled(*arguments):
        if next(count) == step:
            os.kill(os.getpid(), signal.SIGTERM)
        return true_step(*arguments)

    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "training_step", signalled)
        with pytest.raises(
            Terminated, match=rf"stopped by SIGTERM after step {step} of 6; the checkpoint is .*last\.pt"
        ):
            train_config(config, tmp_path / "stopped")
    assert signal.getsignal(signal.SIGTERM) == before
    assert read_checkpoint(tmp_path / "stopped" / LAST)["step"] == step
    train_config(config, tmp_path / "stopped", resume=True)
    for name in (LAST, Path("checkpoints", "best.pt")):
        assert same(read_checkpoint(tmp_path / "stopped" / name), read_checkpoint(tmp_path / "whole" / name))
    logs = [[{**row, "images_per_second": ""} for row in read_log(tmp_path / name)] for name in ("stopped", "whole")]
    assert logs[0] == logs[1]


def test_sigterm_at_the_last_step_changes_nothing(tiny, tmp_path, monkeypatch):
    true_step = loop.training_step
    monkeypatch.setattr(
        loop, "training_step", lambda *rest: [true_step(*rest), os.kill(os.getpid(), signal.SIGTERM)][0]
    )
    assert 0 <= train_config(read_config(tiny, ["training.steps=1"]), tmp_path / "run").iou <= 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no groups of processes")
def test_sigterm_to_all_processes_and_workers_writes_a_checkpoint(tiny, tmp_path):
    settings = [
        "training.steps=500",
        "training.workers=2",
        "training.validate_every=500",
        "training.checkpoint_every=9",
    ]
    process = start("train", tiny, "--run", tmp_path / "run", *options(settings))
    wait_for(tmp_path / "run" / LAST, process)
    os.killpg(process.pid, signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 143, told
    step = read_checkpoint(tmp_path / "run" / LAST)["step"]
    line = told.strip().splitlines()[-1]
    assert f"densefield: stopped by SIGTERM after step {step} of 500" in line and line.endswith("--resume.")
    assert "Traceback" not in told and not list((tmp_path / "run" / "checkpoints").glob(".*"))


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="children are found in /proc")
def test_sigterm_to_one_of_two_processes_ends_both_with_one_checkpoint(tiny, tmp_path):
    settings = ["training.steps=500", "training.validate_every=500", "training.checkpoint_every=9"]
    process = start("train", tiny, "--run", tmp_path / "run", *options(settings), launcher=TORCHRUN)
    wait_for(tmp_path / "run" / LAST, process)
    os.kill(children(process.pid)[1], signal.SIGTERM)
    _, told = process.communicate(timeout=90)
    assert process.returncode != 0
    step = read_checkpoint(tmp_path / "run" / LAST)["step"]
    assert len(read_checkpoint(tmp_path / "run" / LAST)["rng"]) == 2
    assert f"stopped by SIGTERM after step {step} of 500" in told


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="children are found in /proc")
def test_a_hanging_process_ends_the_others_in_bounded_time_with_one_line(tiny, tmp_path):
    settings = ["training.steps=5000", "training.validate_every=5000", "training.checkpoint_every=9"]
    arguments = ("train", tiny, "--run", tmp_path / "run", *options(settings))
    process = start(*arguments, launcher=TORCHRUN, DENSEFIELD_TIMEOUT="4")
    wait_for(tmp_path / "run" / LAST, process)
    silent = children(process.pid)[1]
    os.kill(silent, signal.SIGSTOP)
    try:
        began = time.monotonic()
        _, told = process.communicate(timeout=100)
        # 4 s until the other process times out, and up to 30 s in which torchrun waits for the hanging one.
        assert time.monotonic() - began < 60 and process.returncode == 1
    finally:
        if Path(f"/proc/{silent}").exists():
            os.kill(silent, signal.SIGKILL)
    line = "densefield: another of the 2 processes has ended, or has not answered for 4 seconds (DENSEFIELD_TIMEOUT)"
    assert told.count(line) == 1


def children(process: int) -> list[int]:
    """The ids of the child processes, in order."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    return sorted(map(int, text.split()))


def test_only_connection_errors_mean_a_lost_process(monkeypatch):
    monkeypatch.setenv("DENSEFIELD_TIMEOUT", "2.5")
    assert process_timeout() == timedelta(seconds=2.5)
    with pytest.raises(LostProcess, match=r"another of the 3 processes .* 2\.5 seconds"), naming_lost_processes(3):
        raise RuntimeError("[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 2500ms for recv operation")
    with pytest.raises(RuntimeError, match="a plain error"), naming_lost_processes(3):
        raise RuntimeError("a plain error")
    with pytest.raises(RuntimeError, match="gloo"), naming_lost_processes(1):
        raise RuntimeError("gloo")
    for text in ("soon", "0", "-1", "nan", "1e99"):
        monkeypatch.setenv("DENSEFIELD_TIMEOUT", text)
        with pytest.raises(InputError, match=r"DENSEFIELD_TIMEOUT is .* expected seconds"):
            process_timeout()
