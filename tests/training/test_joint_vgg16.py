"""The paper's network and CRF, trained together at the paper's size."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("tensorboard", reason="training needs it")
pytest.importorskip("PIL", reason="training needs it")

import torch

from densefield.datasets.loading import training_batches
from densefield.runs.build import build_segmenter
from densefield.runs.distributed import start_fabric
from densefield.runs.settings import read_config
from densefield.runs.splits import build_datasets
from densefield.training.loop import training_step
from densefield.training.optimizer import augmentation, build_optimizer
from densefield.tuning.lbfgs import flat_values

PAPER = Path(__file__).parents[2] / "configs" / "voc12-vgg16.toml"
SCENES = ["data.kind=scenes", "data.scenes.size=[306, 306]", "data.scenes.object_classes=20", "data.scenes.images=2"]
RATES = ["optimizer.lr_top=0.002", "optimizer.lr_rest=0.0002"]  # the rates of the paper diverge from random weights
STEPS, BATCH = 5, 2


@pytest.mark.slow
def test_vgg16_and_the_crf_learn_together_at_306_pixels():
    batch = [f"training.batch={BATCH}", "training.accumulate=1"]
    config = read_config(PAPER, [*SCENES, *batch, "training.stage=2", "network.pretrained=false", *RATES])
    assert config.data.network_size == (306, 306) and config.crf.iterations == 5
    torch.manual_seed(7741)
    fabric, segmenter = start_fabric(config), build_segmenter(config)
    crf = segmenter.crf
    assert crf is not None and sum(parameter.numel() for parameter in crf.parameters()) == 9
    model, optimizer = fabric.setup(segmenter, build_optimizer(config.optimizer, segmenter))
    train, _ = build_datasets(config)
    how = augmentation(config.data, segmenter.network.normalization)
    images = next(training_batches(train, how, BATCH, seed=7742))
    first, losses = flat_values(dict(crf.named_parameters())), []
    for _ in range(STEPS):
        losses.append(training_step(fabric, model, optimizer, images, 1))
        assert all(each.grad is not None and each.grad.isfinite().all() for each in segmenter.parameters())
    last = flat_values(dict(crf.named_parameters()))
    print("loss", *(f"{loss:.3f}" for loss in losses))
    print(*(f"{name} {value:.4f} → {last[name]:.4f}" for name, value in first.items()), sep="\n")
    assert all(after < before for before, after in itertools.pairwise(losses))
    assert len(last) == 9 and all(last[name] != value for name, value in first.items())
