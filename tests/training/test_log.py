"""TensorBoard shows a run that was stopped and resumed."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("tensorboard", reason="training needs it")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from densefield.training.log import BOARD, RunLog


def write_losses(run, losses, after=0):
    """One session of a run that resumes after a step; its file names sort before those of the next session."""
    with RunLog(run, 1, None, after) as log:
        for step, loss in enumerate(losses, start=after + 1):
            log.write(step, None, loss=loss, images_per_second=1)
    # Within one second, TensorBoard file names of one process are not always in order.
    sessions = len(list((run / BOARD).glob("events.out.tfevents.0*")))
    (new,) = (path for path in (run / BOARD).iterdir() if not path.name.startswith("events.out.tfevents.0"))
    new.rename(new.with_name(f"events.out.tfevents.0{sessions}"))


def shown_losses(run):
    board = EventAccumulator(str(run / BOARD))
    board.Reload()
    return [(event.step, event.value) for event in board.Scalars("loss")]


def test_a_run_logs_all_its_steps(tmp_path):
    write_losses(tmp_path, [3, 2, 1])
    assert shown_losses(tmp_path) == [(1, 3), (2, 2), (3, 1)]


def test_a_run_restarted_before_its_first_checkpoint_logs_no_step_twice(tmp_path):
    write_losses(tmp_path, [3, 2, 1])
    write_losses(tmp_path, [5, 4])
    assert shown_losses(tmp_path) == [(1, 5), (2, 4)]


def test_a_resumed_run_keeps_its_logged_steps(tmp_path):
    write_losses(tmp_path, [3, 2, 1])
    write_losses(tmp_path, [6, 5], after=2)
    assert shown_losses(tmp_path) == [(1, 3), (2, 2), (3, 6), (4, 5)]
