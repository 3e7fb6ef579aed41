"""Own networks that return scores and features, which a kernel of the CRF compares."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("tensorboard", reason="training needs it")

import torch

import densefield
from densefield import Custom, Spatial
from densefield.errors import InputError
from densefield.runs.checkpoint import load_segmenter
from densefield.runs.settings import read_config
from densefield.training.entry import train_config
from tests.support import own_code

SHORT = {"steps": 2, "batch": 2, "crop": (32, 40), "workers": 0, "seed": 11}
FUNCTION = "tests.support.own_code:Embedding"


def kernels(channels: int = 2):
    return [Spatial(3), Custom("embedding", sigma=[0.5] * channels, sigma_xy=9)]


def train_pairs(run, network, crf=None, **options):
    train, val = own_code.pairs("train"), own_code.pairs("val")
    return densefield.train(network, crf, train=train, val=val, run=run, num_classes=4, **{**SHORT, **options})


def image_and_scores(segmenter):
    image = torch.arange(3 * 30 * 40).remainder(256).reshape(1, 3, 30, 40).to(torch.uint8)
    with torch.no_grad():
        return image, segmenter(image)


def test_stage_1_ignores_the_features_and_stage_2_learns_them(tmp_path):
    torch.manual_seed(5)
    network = own_code.Embedding()
    before = network.features.weight.detach().clone()
    first = train_pairs(tmp_path / "one", network)
    assert torch.equal(network.features.weight, before)
    joint = train_pairs(tmp_path / "two", network, kernels(), start_from=first, steps=4)
    assert not torch.equal(network.features.weight, before)
    assert joint.segmenter.crf.values()["embedding.sigma"].shape == (4,)
    again = load_segmenter(tmp_path / "two", own_code.Embedding())[0]
    _, expected = image_and_scores(joint.segmenter)
    assert torch.equal(image_and_scores(again)[1], expected)
    assert (tmp_path / "two" / "config.toml").read_text(encoding="utf-8").count("embedding = 2") == 1


def test_settings_name_the_channels_as_for_built_in_networks(tiny, tmp_path):
    custom = "{kind = 'custom', feature = 'embedding', sigma_xy = 9.0, sigma = 0.5}"
    own = [f"network.name={FUNCTION}", "network.options={}", "network.embedding=2", f"crf.kernels=[{custom}]"]
    own += ["training.steps=2", "optimizer.lr_rest=0.02", "optimizer.lr_top=0.02", "network.top_layers=['head']"]
    train_config(read_config(tiny, own), tmp_path / "one")
    second = ["training.stage=2", f"training.start_from={tmp_path / 'one'}"]
    train_config(read_config(tiny, [*own, *second]), tmp_path / "run")
    segmenter = load_segmenter(tmp_path / "run")[0]
    assert segmenter.crf.feature_names == ("embedding",)
    image, log_q = image_and_scores(segmenter)
    assert not torch.equal(log_q, segmenter.scores(image).log_softmax(1))


@pytest.mark.parametrize(
    ("network", "crf", "says"),
    [
        (own_code.Embedding(), kernels(3), "an embedding of 3 channels .* Embedding returned features of 2 channels"),
        (own_code.Dropping(), kernels(), "an embedding of 2 channels .* Dropping returned scores alone: return a pair"),
        (own_code.Embedding(), [Spatial(3)], r"returns features, but no kernel compares them: add Custom\(\'embedding"),
        (own_code.Embedding(), [Custom("depth", sigma=0.5, sigma_xy=9)], r'compares \'depth\'.*set feature = "emb'),
    ],
)
def test_features_and_kernels_that_do_not_fit_are_named_before_training(tmp_path, network, crf, says):
    with pytest.raises(InputError, match=says):
        train_pairs(tmp_path / "run", network, crf)
    assert not (tmp_path / "run").exists()


def test_a_built_in_network_has_as_many_channels_as_the_kernel(tmp_path):
    first = train_pairs(tmp_path / "one", "small_network", pretrained=False)
    joint = train_pairs(tmp_path / "run", "small_network", kernels(3), pretrained=False, start_from=first)
    assert joint.segmenter.network.embedding == 3
