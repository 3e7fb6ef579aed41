"""The CRF alone learnt by gradient: the network is frozen (Krähenbühl and Koltun, 2013)."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("tensorboard", reason="training needs it")
pytest.importorskip("PIL", reason="training needs it")

import torch

from densefield.errors import InputError
from densefield.networks.small import SmallNetwork
from densefield.runs.checkpoint import read_checkpoint
from densefield.runs.settings import read_config
from densefield.training.entry import train_config
from tests.training.test_resuming import last, same, stopping_at
from tests.training.test_several_processes import train_on_two

# Batch normalisation has running means, which change in training mode even without gradients.
WITH_BATCHES = "network.options={width = 32, norm = 'batch'}"


def settings(tiny, tmp_path) -> list[str]:
    train_config(read_config(tiny, ["training.steps=2", WITH_BATCHES]), tmp_path / "one")
    start = f"training.start_from={tmp_path / 'one'}"
    return ["training.stage=2", start, "network.frozen=true", WITH_BATCHES, "training.steps=4"]


def parts(checkpoint, name):
    return {key: value for key, value in checkpoint["model"].items() if key.startswith(f"{name}.")}


def test_the_network_keeps_every_bit_and_the_crf_is_learnt(tiny, tmp_path):
    train_config(read_config(tiny, settings(tiny, tmp_path)), tmp_path / "frozen")
    before, after = read_checkpoint(tmp_path / "one"), last(tmp_path / "frozen")
    assert parts(before, "network") and any("running_mean" in name for name in parts(before, "network"))
    assert same(parts(after, "network"), parts(before, "network"))
    fresh = read_checkpoint(tmp_path / "frozen")["config"]["crf"]["kernels"]
    assert after["model"]["crf.spatial.log_weight"].exp() != pytest.approx(fresh[0]["weight"], rel=1e-4)
    assert sum(len(group["params"]) for group in after["optimizer"]["param_groups"]) == 4  # those of the CRF


def test_the_network_is_in_evaluation_mode_and_has_no_graph(tiny, tmp_path, monkeypatch):
    """Before and after a validation."""
    seen = []
    true_scores = SmallNetwork.coarse_scores

    def scores(network, image):
        found = true_scores(network, image)
        seen.append((network.training, found.requires_grad))
        return found

    changes = settings(tiny, tmp_path)
    monkeypatch.setattr(SmallNetwork, "coarse_scores", scores)
    train_config(read_config(tiny, [*changes, "training.validate_every=2"]), tmp_path / "frozen")
    assert len(seen) > 8 and set(seen) == {(False, False)}
    seen.clear()
    train_config(read_config(tiny, [*changes, "network.frozen=false"]), tmp_path / "joint")
    assert (True, True) in seen and (False, False) in seen  # steps and validations


def test_a_stopped_run_resumes_to_the_same_result(tiny, tmp_path, monkeypatch):
    config = read_config(tiny, settings(tiny, tmp_path))
    train_config(config, tmp_path / "whole")
    with stopping_at(monkeypatch, 4):
        train_config(config, tmp_path / "stopped")
    train_config(config, tmp_path / "stopped", resume=True)
    assert same(last(tmp_path / "stopped"), last(tmp_path / "whole"))


@pytest.mark.slow  # test_several_processes.py has the quick tests of several processes
def test_two_processes_learn_the_same_crf(tiny, tmp_path):
    changes = settings(tiny, tmp_path)
    train_config(read_config(tiny, changes), tmp_path / "one-process")
    train_on_two(tiny, tmp_path / "two", *changes)
    one, two = (last(tmp_path / name) for name in ("one-process", "two"))
    assert same(parts(one, "network"), parts(two, "network"))
    for name, value in parts(one, "crf").items():  # float32 sums in another order
        assert torch.allclose(value, two["model"][name], rtol=1e-5, atol=1e-6), name


@pytest.mark.parametrize(
    "changes, message",
    [
        (["crf.enabled=false"], "network.frozen is true and crf.enabled is false: nothing would be learnt"),
        (["crf.freeze=['*']"], r"network\.frozen is true and crf\.freeze is .*: nothing would be learnt"),
        (["crf.freeze=['*.log_sigma', '*.log_weight']"], "nothing would be learnt"),
    ],
)
def test_settings_that_learn_nothing_are_rejected(tiny, changes, message):
    with pytest.raises(InputError, match=message):
        read_config(tiny, ["training.stage=2", "network.frozen=true", *changes])


def test_a_frozen_network_in_stage_1_is_rejected_before_anything_is_written(tiny, tmp_path):
    with pytest.raises(InputError, match=r"network\.frozen is true in stage 1.*set training\.stage=2"):
        train_config(read_config(tiny, ["network.frozen=true"]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_table_of_stage_2_may_freeze_the_network(tiny):
    tiny.write_text(tiny.read_text(encoding="utf-8") + "[stage2.network]\nfrozen = true\n", encoding="utf-8")
    assert not read_config(tiny).network.frozen
    assert read_config(tiny, ["training.stage=2"]).network.frozen
