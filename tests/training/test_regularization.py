"""Label smoothing, and decay of the CRF's parameters towards their values in the settings."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("tensorboard", reason="training needs it")
pytest.importorskip("PIL", reason="training needs it")

import torch

from densefield.errors import InputError
from densefield.nn.losses import log_likelihood_loss
from densefield.runs.build import build_crf, build_segmenter
from densefield.runs.settings import read_config
from densefield.training.entry import train_config
from densefield.training.optimizer import build_optimizer, decay_to
from tests.training.test_loop import a_batch, step_on
from tests.training.test_resuming import last, same, stopping_at


def test_a_step_has_the_loss_of_smoothed_labels(tiny):
    config, batch = read_config(tiny, ["training.stage=2", "training.label_smoothing=0.1"]), a_batch()
    loss, _ = step_on(config, batch)
    torch.manual_seed(41)
    log_q = build_segmenter(config).double()(batch.image).detach()
    assert loss == pytest.approx(float(log_likelihood_loss(log_q, batch.labels, label_smoothing=0.1)), rel=1e-6)
    assert loss != pytest.approx(float(log_likelihood_loss(log_q, batch.labels)), rel=1e-3)


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_without_a_gradient_parameters_decay_to_the_settings_at_the_stated_rate(tiny, name):
    changes = ["training.stage=2", f"optimizer.name={name}", "optimizer.lr_crf=0.5"]
    config = read_config(tiny, changes)
    segmenter = build_segmenter(config)
    initial = build_crf(config.crf, config.network.num_classes)
    with torch.no_grad():
        for parameter in segmenter.crf.parameters():
            parameter.add_(1.0)
            parameter.grad = torch.zeros_like(parameter)
    optimizer = build_optimizer(config.optimizer, segmenter)
    decay_to(segmenter.crf, initial, 0.2, optimizer)
    for parameter in segmenter.network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for _ in range(3):
        optimizer.step()
    for parameter, start in zip(segmenter.crf.parameters(), initial.parameters(), strict=True):
        assert torch.allclose(parameter - start, torch.full_like(start, 0.9**3), rtol=0, atol=1e-5)


def test_frozen_parameters_do_not_decay(tiny):
    config = read_config(tiny, ["training.stage=2", "crf.freeze=['*.log_sigma']"])
    segmenter = build_segmenter(config)
    with torch.no_grad():
        for parameter in segmenter.crf.parameters():
            parameter.add_(1.0)
    before = {name: value.clone() for name, value in segmenter.crf.state_dict().items()}
    optimizer = build_optimizer(config.optimizer, segmenter)
    decay_to(segmenter.crf, build_crf(config.crf, 4), 0.5, optimizer)
    for parameter in segmenter.parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    optimizer.step()
    changed = {name for name, value in segmenter.crf.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"spatial.log_weight", "bilateral.log_weight"}


def test_parameters_stay_closer_to_the_settings_and_a_stopped_run_resumes_to_the_same_result(
    tiny, tmp_path, monkeypatch
):
    train_config(read_config(tiny, ["training.steps=1"]), tmp_path / "one")
    changes = ["training.stage=2", f"training.start_from={tmp_path / 'one'}", "optimizer.lr_crf=0.05"]
    train_config(read_config(tiny, changes), tmp_path / "free")
    config = read_config(tiny, [*changes, "optimizer.weight_decay_crf=10"])  # half the distance in the first step
    train_config(config, tmp_path / "whole")
    with stopping_at(monkeypatch, 4):
        train_config(config, tmp_path / "stopped")
    train_config(config, tmp_path / "stopped", resume=True)
    assert same(last(tmp_path / "stopped"), last(tmp_path / "whole"))
    initial = build_crf(config.crf, 4).state_dict()
    distances = [
        sum(float((last(tmp_path / run)["model"][f"crf.{name}"] - value).norm()) for name, value in initial.items())
        for run in ("whole", "free")
    ]
    assert 0 < distances[0] < 0.9 * distances[1]  # most of the movement of so few steps is momentum


@pytest.mark.parametrize(
    "setting, message",
    [
        ("training.label_smoothing=1.0", "is 1.0; should be less than 1"),
        ("training.label_smoothing=-0.1", "is -0.1; should be greater than or equal to 0"),
        ("training.best_by=accuracy", "is \"accuracy\"; should be 'iou' or 'nll'"),
        ("optimizer.weight_decay_crf=-1", "is -1; should be greater than or equal to 0"),
        ("crf.test_iterations=0", "is 0; should be greater than or equal to 1"),
        ("data.train_iou_images=-1", "is -1; should be greater than or equal to 0"),
    ],
)
def test_wrong_values_are_rejected(tiny, setting, message):
    with pytest.raises(InputError, match=re.escape(f"--set {setting}: {message}")):
        read_config(tiny, [setting])
