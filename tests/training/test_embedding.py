"""Training with an embedding that a kernel of the CRF compares: settings, the loop, and what reads its runs."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("tensorboard", reason="training needs it")
pytest.importorskip("PIL", reason="training needs it")

import torch

from densefield.errors import InputError
from densefield.evaluation.evaluation import evaluate_images
from densefield.evaluation.predict import Predictor
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.checkpoint import load_segmenter, read_checkpoint
from densefield.runs.scored_images import Cached, Shrunk, open_scores
from densefield.runs.settings import config_from, read_config, to_toml
from densefield.training.entry import train_config
from densefield.tuning import TuningOptions, tune_crf
from tests.training.test_resuming import last, same, stopping_at
from tests.training.test_several_processes import train_on_two

HEAD = "network.embedding_head."
KERNEL = "kind = 'custom', feature = 'embedding', sigma_xy = 9.0, sigma = 0.3, weight = 2.0"
EMBEDDING = ["network.embedding=3", f"crf.kernels=[{{kind = 'spatial'}}, {{{KERNEL}}}]"]


def kernels(table: str) -> list[str]:
    return ["network.embedding=3", f"crf.kernels=[{{{table}}}]"]


def head(checkpoint):
    return {key: value for key, value in checkpoint["model"].items() if key.startswith(HEAD)}


@pytest.fixture
def second(tiny, tmp_path) -> list[str]:
    """Settings of stage 2 after a short stage 1."""
    train_config(read_config(tiny, [*EMBEDDING, "training.steps=2"]), tmp_path / "one")
    return [*EMBEDDING, "training.stage=2", f"training.start_from={tmp_path / 'one'}"]


def test_one_width_is_that_of_every_channel(tiny):
    config = read_config(tiny, EMBEDDING)
    assert config.crf.kernels[1]["sigma"] == [0.3, 0.3, 0.3]
    assert config_from(config.model_dump(mode="json")) == config
    tiny.write_text(to_toml(config), encoding="utf-8")
    assert read_config(tiny) == config


def test_stage_1_leaves_the_embedding_and_stage_2_learns_it(tiny, tmp_path, second):
    train_config(read_config(tiny, second), tmp_path / "two")
    torch.manual_seed(3391)  # the seed of the settings
    from densefield.runs.build import build_segmenter

    fresh = build_segmenter(read_config(tiny, EMBEDDING)).state_dict()
    one, two = last(tmp_path / "one"), last(tmp_path / "two")
    assert len(head(one)) == 4 and all(torch.equal(value, fresh[name]) for name, value in head(one).items())
    assert all((value - one["model"][name]).abs().max() > 1e-6 for name, value in head(two).items())
    widths = two["model"]["crf.embedding.log_sigma"].exp()
    assert widths.shape == (5,) and not torch.allclose(widths, torch.tensor([9.0, 9.0, 0.3, 0.3, 0.3]), rtol=1e-4)


def test_a_stopped_run_resumes_to_the_same_result(tiny, tmp_path, second, monkeypatch):
    config = read_config(tiny, second)
    train_config(config, tmp_path / "whole")
    with stopping_at(monkeypatch, 4):
        train_config(config, tmp_path / "stopped")
    train_config(config, tmp_path / "stopped", resume=True)
    assert same(last(tmp_path / "stopped"), last(tmp_path / "whole"))


@pytest.mark.slow  # test_several_processes.py has the quick tests of several processes
def test_two_processes_learn_the_same(tiny, tmp_path):
    """In stage 1 too, where the embedding has no gradient."""
    for settings, start in (([], None), (["training.stage=2"], "one")):
        more = [] if start is None else [f"training.start_from={tmp_path / start}"]
        changes = [*EMBEDDING, "training.steps=2", *settings, *more]
        name = "one" if start is None else "two"
        train_config(read_config(tiny, changes), tmp_path / name)
        train_on_two(tiny, tmp_path / f"{name}-on-two", *changes)
        here, there = (last(tmp_path / each)["model"] for each in (name, f"{name}-on-two"))
        for key, value in here.items():  # float32 sums in another order
            assert torch.allclose(value, there[key], rtol=1e-4, atol=1e-5), key


def test_a_run_without_an_embedding_gives_the_other_weights(tiny, tmp_path, capsys):
    train_config(read_config(tiny, ["training.steps=2"]), tmp_path / "plain")
    settings = [*EMBEDDING, "training.stage=2", "training.steps=1", f"training.start_from={tmp_path / 'plain'}"]
    train_config(read_config(tiny, settings), tmp_path / "two")
    assert "it has no embedding, which starts at random" in "".join(capsys.readouterr())
    with pytest.raises(
        InputError, match=r"has no embedding, and network\.frozen is true, so that it would stay random"
    ):
        train_config(read_config(tiny, [*settings, "network.frozen=true"]), tmp_path / "frozen")
    assert not (tmp_path / "frozen").exists()


def test_evaluation_prediction_and_tuning_of_a_run(tiny, tmp_path, second):
    run = tmp_path / "two"
    found = train_config(read_config(tiny, [*second, "training.steps=3"]), run)
    opened = open_scores(run)
    result = evaluate_images(opened.source, opened.crf)
    assert float(result.mean_iou) == pytest.approx(found.iou, rel=1e-6)
    segmenter, config = load_segmenter(run)
    scored = opened.source[0]
    photo = scored.image.movedim(0, -1).numpy()
    log_q = Predictor(segmenter.outputs, segmenter.crf)(photo)
    np.testing.assert_allclose(log_q, scored.log_marginals(opened.crf).numpy(), rtol=1e-5, atol=1e-5)
    colours = DenseCRF(config.network.num_classes)  # a CRF that compares no embedding
    assert scored.log_marginals(colours).shape == log_q.shape
    small = Cached(Shrunk(opened.source, 2))[0]
    assert small.features["embedding"].shape == (3, *small.labels.shape)
    assert small.log_marginals(opened.crf).shape == small.scores.shape
    twice = TwoCopies(opened.source)
    tuned = tune_crf(twice, tmp_path / "tuned", TuningOptions(trials=2, evaluations=1))
    assert set(tuned["methods"]) == {"network", "crf"}


class TwoCopies:
    """A source with every image twice, since tuning needs four."""

    def __init__(self, source):
        self._source, self.classes = source, source.classes
        self.ids = tuple(f"{id}-{copy}" for id in source.ids for copy in range(2))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return self._source[index // 2]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["network.embedding=3"], r"network\.embedding is 3, but no kernel compares it"),
        ([*EMBEDDING, "network.embedding=0"], r"crf\.kernels\.1: compares .*, but network\.embedding is 0"),
        ([*EMBEDDING, "network.embedding=15"], "less than or equal to 14"),
        ([*EMBEDDING, "network.name=fcn8s_vgg16", "network.options={}"], "embedding is 3, but fcn8s_vgg16 has none"),
        (
            kernels("kind = 'custom', feature = 'depth'"),
            r"crf\.kernels\.0: compares 'depth', but training has positions",
        ),
        (kernels("kind = 'custom', feature = 'embedding'"), r"crf\.kernels\.0\.sigma_xy: is missing"),
        (
            kernels("kind = 'custom', feature = 'embedding', sigma_xy = 9, sigma = [1, 2]"),
            r"crf\.kernels\.0\.sigma: has 2 widths, but network\.embedding is 3",
        ),
        (
            kernels("kind = 'custom', feature = 'embedding', covariance = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]"),
            r"crf\.kernels\.0\.covariance: is given",
        ),
        (
            kernels("kind = 'custom', feature = 'embedding', sigma_xy = [1, 2, 3]"),
            "the embedding kernel has 3 widths for position",
        ),
        (
            kernels("kind = 'custom', feature = 'embedding', sigma_xy = 9, weight = 0"),
            r"crf\.kernels\.0\.weight: is 0\.0, expected more than 0",
        ),
        ([*EMBEDDING, "crf.freeze=['custom.*']"], r"matches none of .*embedding\.log_sigma, embedding\.log_weight"),
    ],
)
def test_other_combinations_are_rejected_before_anything_is_written(tiny, settings, says):
    with pytest.raises(InputError, match=says):
        read_config(tiny, settings)


def test_the_kernel_can_be_frozen(tiny, tmp_path, second):
    train_config(read_config(tiny, [*second, "training.steps=1", "crf.freeze=['embedding.*']"]), tmp_path / "two")
    assert read_checkpoint(tmp_path / "two")["model"]["crf.embedding.log_weight"].exp() == pytest.approx(2.0, rel=1e-6)
