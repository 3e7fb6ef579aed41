"""Parts that a run loads from the run it starts from."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("PIL", reason="training needs it")

import torch

from densefield.errors import InputError
from densefield.runs.build import build_segmenter
from densefield.runs.checkpoint import TrainingState, start_from, write_checkpoint
from densefield.runs.checkpoint_checks import content_digest
from densefield.runs.run_folder import BEST
from densefield.runs.settings import read_config


def kernels(compatibility="potts", weight=5):
    """A setting with both kernels."""
    fields = f"compatibility = '{compatibility}', weight = {weight}"
    return f"crf.kernels=[{{kind = 'spatial', {fields}}}, {{kind = 'bilateral', {fields}}}]"


def segmenter_with(tiny, *settings):
    """A run with its own random weights."""
    return build_segmenter(read_config(tiny, ["training.stage=2", *settings]))


def a_run(tiny, folder, *settings):
    """The segmenter of a run of 500 steps, and its folder."""
    config = read_config(tiny, ["training.stage=2", *settings])
    segmenter = build_segmenter(config)
    state = TrainingState(step=500)
    write_checkpoint(folder / BEST, config, segmenter, {}, state, [])
    return segmenter, folder


def same(one, two):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True))


def test_a_crf_of_the_same_form_is_loaded_with_the_network(tiny, tmp_path):
    source, run = a_run(tiny, tmp_path / "a", kernels(weight=7))
    new = segmenter_with(tiny)
    assert not same(new.network, source.network) and not same(new.crf, source.crf)
    assert start_from(new, run) == f"network and crf from {run}, step 500"
    assert same(new.network, source.network) and same(new.crf, source.crf)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (kernels("matrix"), kernels("potts")),
        (kernels("potts"), kernels("matrix")),
        (kernels("potts"), kernels("per_label")),
        (kernels("potts"), "crf.kernels=[{kind = 'bilateral'}]"),
    ],
)
def test_a_crf_of_another_form_is_not_loaded_with_a_message(tiny, tmp_path, then, now):
    source, run = a_run(tiny, tmp_path / "a", then)
    new = segmenter_with(tiny, now)
    line = start_from(new, run)
    assert line == f"network from {run}, step 500; its CRF has another form, so the settings' own is used"
    assert same(new.network, source.network) and same(new.crf, segmenter_with(tiny, now).crf)


def test_an_invalid_crf_of_the_same_form_is_rejected(tiny, tmp_path):
    _, run = a_run(tiny, tmp_path / "a")
    content = torch.load(run / BEST, weights_only=True)
    content["model"]["crf.spatial.log_weight"].fill_(torch.nan)
    torch.save(content | {"sha256": content_digest(content)}, run / BEST)
    with pytest.raises(InputError, match=r"best\.pt: model: crf: .*with NaN or infinity: spatial\.log_weight"):
        start_from(segmenter_with(tiny), run)


def test_a_run_without_a_crf_provides_only_its_network(tiny, tmp_path):
    source, run = a_run(tiny, tmp_path / "a", "crf.enabled=false")
    new = segmenter_with(tiny)
    assert start_from(new, run) == f"network from {run}, step 500"
    assert same(new.network, source.network) and same(new.crf, segmenter_with(tiny).crf)


@pytest.mark.parametrize(
    ("then", "now", "says"),
    [
        ((64, 64), None, "that run saw images with data.network_size = [64, 64], and this one with their own size (no"),
        (
            None,
            64,
            "that run saw images with their own size (no data.network_size), and this one with data.net",
        ),
        ((64, 64), (64, 64), None),
    ],
)
def test_another_size_of_the_images_is_said(tiny, tmp_path, then, now, says):
    config = read_config(tiny, ["training.stage=2"])

    def seen_at(size):
        update = {"network_size": size} | ({} if size is None else {"crop": None, "scales": None})
        return config.model_copy(update={"data": config.data.model_copy(update=update)})

    segmenter = build_segmenter(config)
    write_checkpoint(tmp_path / BEST, seen_at(then), segmenter, {}, TrainingState(step=9), [])
    first, *more = start_from(segmenter, tmp_path, seen_at(now)).splitlines()
    assert first == f"network and crf from {tmp_path}, step 9"
    assert len(more) == (says is not None) and all(line.startswith(says) for line in more)
